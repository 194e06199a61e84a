"""Finding and opening what a user names as a model: a file, a folder, or standard input."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from ropecli.errors import FileError

STDIN = "-"
LARGEST = 4 << 20  #: Bytes of JSON that are read; real files have a few thousand.
GGUF_MAGIC = b"GGUF"


def locate(source: str | os.PathLike[str]) -> Path:
    """The file that is meant: config.json, or the only .gguf, of a folder.

    Raises:
        FileError: No such file, or more than one that could be meant.
    """
    path = Path(source)
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        msg = f"cannot read {os.fspath(source)}: {getattr(error, 'strerror', None) or error}"
        raise FileError(msg) from None
    if not stat.S_ISDIR(kind):
        return path
    config = path / "config.json"
    if config.is_file():
        return config
    found = sorted(path.glob("*.gguf"))
    if len(found) == 1:
        return found[0]
    msg = f"{path} holds no config.json"
    msg += f", and {len(found)} .gguf files: name one" if found else ", and no .gguf file"
    raise FileError(msg)


def is_gguf(path: Path) -> bool:
    """Whether the file begins as a GGUF does, or claims to be one by its name."""
    if path.suffix.lower() == ".gguf":
        return True
    try:
        if not path.is_file():  # a pipe's first bytes could not be put back
            return False
        with path.open("rb") as stream:
            return stream.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise FileError(msg) from None


def read_json(path: Path | None) -> dict[str, Any]:
    """The JSON object of a file, or of standard input.

    Raises:
        FileError: Not readable, too large, or not a JSON object.
    """
    name = "standard input" if path is None else os.fspath(path)
    if path is None and sys.stdin is None:
        msg = "cannot read standard input: it is closed"
        raise FileError(msg)
    try:
        if path is None:
            content = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with path.open("rb") as stream:
                content = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        msg = f"cannot read {name}: {getattr(error, 'strerror', None) or error}"
        raise FileError(msg) from None
    if len(content) > LARGEST:
        msg = f"{name} is larger than the {LARGEST >> 20} MiB that a config.json may have"
        raise FileError(msg)
    try:
        value = json.loads(content, object_pairs_hook=_once)
    except RecursionError:
        msg = f"{name} is nested too deeply for a config.json"
        raise FileError(msg) from None
    except UnicodeDecodeError:
        msg = f"{name} is a binary file: neither a config.json nor a GGUF"
        raise FileError(msg) from None
    except json.JSONDecodeError as error:
        msg = f"{name} is not valid JSON: {str(error).splitlines()[0][:200]}"
        raise FileError(msg) from None
    except ValueError:  # Python reads no longer ones
        msg = f"{name} is no config.json: a number in it has thousands of digits"
        raise FileError(msg) from None
    if not isinstance(value, dict):
        msg = f"{name} must hold a JSON object, got {_kind(value)}"
        raise FileError(msg)
    return value


class RepeatedKeys(dict[str, Any]):
    """A JSON object in which keys stand twice; the last value counts, as for every reader."""

    repeated: tuple[str, ...] = ()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    marked = RepeatedKeys(plain)
    counts = Counter(name for name, _ in pairs)
    marked.repeated = tuple(name for name, count in counts.items() if count > 1)
    return marked


def _kind(value: object) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
