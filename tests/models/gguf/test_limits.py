"""Headers that are made to take long, or much memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from files.folders import refusal_of
from helpers import run_python, soon
from models.gguf.writer import (
    ARRAY,
    F32,
    STRING,
    UINT8,
    UINT32,
    array,
    float32,
    gguf,
    llama,
    save,
    text,
)

from ropecli.models.gguf import Skipped, read_gguf

pytestmark = pytest.mark.slow


def header(tensors: int, keys: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)


def list_of(code: int, count: int, data: bytes) -> bytes:
    """A file of one key, an array with any count."""
    return header(0, 1) + text("k") + struct.pack("<I", ARRAY) + array(code, count, data).data


def many(count: int, keys: int, value: bytes) -> bytes:
    """A header with `count` entries of one value: keys, or tensors if `keys` is 0."""
    names = "key.{}" if keys else "blk.{}.weight"
    start = header(count - keys, keys)
    return start + b"".join(text(names.format(i)) + value for i in range(count))


def of_string(value: str) -> bytes:
    return struct.pack("<I", STRING) + text(value)


EMPTY = array(UINT8, 0, b"").data
NUMBERS = struct.pack("<I", ARRAY) + array(UINT32, 65_536, bytes(4 * 65_536)).data
#: By name how a file is made, and why it is refused; None for one that is read.
CRAFTED: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "strings of nothing": (lambda: list_of(STRING, 2**34, b""), "too many parts"),
    "arrays of nothing": (lambda: list_of(ARRAY, 2**34, b""), "too many parts"),
    "tree of arrays": (
        lambda: list_of(ARRAY, 1_000, array(ARRAY, 1_000, EMPTY * 1_000).data * 1_000),
        "too many parts",
    ),
    "long strings": (lambda: list_of(STRING, 1_100, text(b"x" * (1 << 20)) * 20), "needs"),
    "many keys": (lambda: many(16_384, 16_384, struct.pack("<II", UINT32, 7)), None),
    "many tensors": (lambda: many(32_768, 0, struct.pack("<IQIQ", 1, 32, F32, 0)), None),
    "many numbers": (lambda: many(200, 200, NUMBERS), "too much memory"),
    "many texts": (
        lambda: many(900, 900, of_string("x" * 65_500 + "\U0001f600")),
        "too much memory",
    ),
}


def craft(folder: Path, name: str) -> Path:
    make, why = CRAFTED[name]
    path = save(folder, make(), f"{name}.gguf")
    if why == "too many parts":
        os.truncate(path, 2**40)  # a hole: nothing on the disk
    return path


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_header_is_soon_done_with(tmp_path: Path, name: str) -> None:
    path, why = craft(tmp_path, name), CRAFTED[name][1]
    with soon(path):
        if why is None:
            read_gguf(path)
        else:
            assert why in refusal_of(read_gguf, path)


def test_header_of_long_strings_is_not_read_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(list_of(STRING, 2_000, b""))
    with path.open("r+b") as stream:
        for i in range(2_000):  # each string a hole of a MiB
            stream.seek(49 + i * ((1 << 20) + 8))
            stream.write(struct.pack("<Q", 1 << 20))
        stream.truncate(2**32)
    with soon(path):
        message = refusal_of(read_gguf, path)
    assert "the header is too long" in message
    assert "expected at most 64 MiB" in message


READ = """
import resource
from pathlib import Path
from ropecli.errors import FileError
from ropecli.models.gguf import read_gguf
for path in PATHS:
    try:
        read_gguf(Path(path))
    except FileError:
        pass
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss would count this process's parent too
    print(*[line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def test_crafted_headers_stay_below_200_mb_of_memory(tmp_path: Path) -> None:
    paths = [str(craft(tmp_path, name)) for name in CRAFTED]
    done = run_python(READ.replace("PATHS", repr(paths)))
    assert done.stderr == ""
    assert int(done.stdout) * 1024 < 200_000_000


def test_vocabulary_of_today_is_soon_passed_over(tmp_path: Path) -> None:
    count = 262_144
    tokens = array(STRING, count, b"".join(text(f"token{i}") for i in range(count)))
    merges = array(STRING, 2 * count, b"".join(text(f"ab{i} cd") for i in range(2 * count)))
    metadata = llama(tokens=tokens, merges=merges)
    path = save(tmp_path, gguf(metadata, {"rope_freqs.weight": float32([1.0])}))
    with soon(path):
        file = read_gguf(path)
    assert file.metadata["llama.merges"] == Skipped(2 * count, "string")
    assert file.tensor("rope_freqs.weight") == 1.0
