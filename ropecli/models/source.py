"""Read what a user names as a model: a file, a folder, standard input, or a bundled example."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ropecli.errors import ArgumentTypeError, FileError
from ropecli.names import meant
from ropecli.regular import expand_pattern

STDIN = "-"
EXAMPLE = "example:"  #: Begins the name of a bundled configuration.
EXAMPLES = Path(__file__).with_name("configs")  #: Their folder.
LARGEST = 4 << 20  #: Bytes of JSON that are read; real files have a few thousand.
HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w.-]+(?<!\.json)(?<!\.gguf)")  #: As in "org/model".
GGUF_MAGIC = b"GGUF"
#: Keys of other formats, where no model_type is given, and what these are.
FOREIGN = (
    ({"dim", "n_layers", "n_heads"}, "a params.json in the format of Meta or Mistral"),
    ({"model_info", "details"}, "the output of ollama show"),
)
YAML = (".yaml", ".yml")
INSTEAD = "give the config.json of Transformers, or a .gguf"


def open_source(source: object) -> tuple[str, Mapping[str, Any] | None]:
    """Return the name of a source and the keys of its config.json, or None for a GGUF."""
    if isinstance(source, Mapping):
        return _require_known("config.json", source)
    if not isinstance(source, str | os.PathLike):
        raise ArgumentTypeError(
            f"source must be a path or the object of a config.json, got {type(source).__name__}"
        )
    if os.fspath(source) == STDIN:
        return _require_known(STDIN, read_json(None))
    path = locate(source)
    return (
        (name_of(source), None)
        if is_gguf(path)
        else _require_known(name_of(source), read_json(path))
    )


def _require_known(name: str, keys: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the keys of a config.json, and refuse other formats by name."""
    for foreign, what in FOREIGN:
        if not {"model_type", "_class_name"} & keys.keys() and keys.keys() >= foreign:
            raise FileError(f"{name} is {what}, not a config.json", INSTEAD)
    return name, keys


def name_of(source: str | os.PathLike[str]) -> str:
    """Return the display name of a source: its path, or for a folder that of the file in it."""
    name = os.fspath(source)
    return name if name == STDIN or name.startswith(EXAMPLE) else str(locate(source))


def expand(sources: Iterable[str]) -> list[str]:
    """Return the sources, with what they match for patterns, and what it holds for a folder.

    A folder that is not a model's stands for the models in it and in its folders.
    """
    return [
        member for name in sources for path in expand_pattern(name) for member in models_in(path)
    ]


def models_in(source: str) -> list[str]:
    """Return the models in a folder that is not a model's; otherwise the source."""
    folder = Path(source)
    if not folder.is_dir() or (folder / "config.json").is_file():
        return [source]
    paths: list[str] = []
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        names = (file for file in files if file == "config.json" or file.endswith(".gguf"))
        paths += [str(Path(path, name)) for name in sorted(names)]
    return paths or [source]


def locate(source: str | os.PathLike[str]) -> Path:
    """Return the file that is meant: of a folder, its config.json or its only .gguf file."""
    path = Path(source)
    if os.fspath(source).startswith(EXAMPLE):
        path = _example(os.fspath(source).removeprefix(EXAMPLE))
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:
        msg = f"cannot read {os.fspath(source)}: {getattr(error, 'strerror', None) or error}"
        if source in {file_path.stem for file_path in EXAMPLES.glob("*.json")}:
            msg += f"; did you mean {EXAMPLE}{source}?"
        advice = "nothing is fetched from a hub: download its config.json and name that"
        raise FileError(msg, advice if HUB_NAME.fullmatch(str(source)) else "") from None
    if not stat.S_ISDIR(kind):
        return path
    config = path / "config.json"
    if config.is_file():
        return config
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    msg = f"{path} holds no config.json"
    msg += f", and {len(files)} .gguf files: name one" if files else ", and no .gguf file"
    raise FileError(msg)


def _example(name: str) -> Path:
    """Return the file of a bundled configuration."""
    names = {path.stem: path for path in EXAMPLES.glob("*.json")}
    if name not in names:
        msg = f"no bundled {EXAMPLE}{name} (ropecli inspect --examples lists them)"
        msg += meant(name, names)
        raise FileError(msg)
    return names[name]


def is_gguf(path: Path) -> bool:
    """True if the file starts as a GGUF does, or has the suffix of one."""
    if path.suffix.lower() == ".gguf":
        return True
    try:
        if not path.is_file():  # the first bytes of a pipe could not be put back
            return False
        with path.open("rb") as stream:
            return stream.read(len(GGUF_MAGIC)) == GGUF_MAGIC
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None


def read_json(path: Path | None) -> dict[str, Any]:
    """Read the JSON object of a file, or of standard input."""
    name = "standard input" if path is None else os.fspath(path)
    if path is None and sys.stdin is None:
        raise FileError("cannot read standard input: it is closed")
    try:
        if path is None:
            content = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with path.open("rb") as stream:
                content = stream.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise FileError(
            f"cannot read {name}: {getattr(error, 'strerror', None) or error}"
        ) from None
    if len(content) > LARGEST:
        raise FileError(
            f"{name} is larger than the {LARGEST >> 20} MiB that a config.json may have"
        )
    try:
        value = json.loads(content, object_pairs_hook=mark_repeated)
    except RecursionError:
        raise FileError(f"{name} is nested too deeply for a config.json") from None
    except UnicodeDecodeError:
        raise FileError(f"{name} is a binary file: neither a config.json nor a GGUF") from None
    except json.JSONDecodeError as error:
        if path is not None and path.suffix.lower() in YAML:
            raise FileError(f"{name} is YAML, as of NeMo, not a config.json", INSTEAD) from None
        raise FileError(f"{name} is not valid JSON: {str(error).splitlines()[0][:200]}") from None
    except ValueError:  # Python refuses longer integers
        raise FileError(
            f"{name} is not a config.json: a number in it has thousands of digits"
        ) from None
    if not isinstance(value, dict):
        names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
        raise FileError(f"{name} must hold a JSON object, got {names.get(type(value), 'a number')}")
    return value


class RepeatedKeys(dict[str, Any]):
    """A JSON object with a key more than once; the last value counts, as for every reader."""

    repeated: tuple[str, ...] = ()


def mark_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON parser's pairs, marked where a key is repeated."""
    plain = dict(pairs)
    if len(plain) == len(pairs):
        return plain
    marked = RepeatedKeys(plain)
    counts = Counter(name for name, _ in pairs)
    marked.repeated = tuple(name for name, count in counts.items() if count > 1)
    return marked
