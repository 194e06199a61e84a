"""Headers that are made to take long, or much memory."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from files.folders import refused
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
    saved,
    text,
)

from ropecli.models.gguf import Skipped, read_gguf

pytestmark = pytest.mark.slow


def header(tensors: int, keys: int) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)


def valued(code: int, data: bytes) -> bytes:
    return header(0, 1) + text("k") + struct.pack("<I", code) + data


def strings_of_nothing() -> bytes:
    return valued(ARRAY, array(STRING, 2**34, b"").data)


def arrays_of_nothing() -> bytes:
    return valued(ARRAY, array(ARRAY, 2**34, b"").data)


def long_strings() -> bytes:
    string = text(b"x" * (1 << 20))
    return valued(ARRAY, array(STRING, 1_100, string * 20).data)


def tree_of_arrays() -> bytes:
    leaf = array(UINT8, 0, b"").data
    data = leaf
    for _ in range(2):
        data = array(ARRAY, 1_000, data * 1_000).data
        if len(data) > 1 << 21:
            break
    return valued(ARRAY, data)


def many_keys() -> bytes:
    value = struct.pack("<II", UINT32, 7)
    return header(0, 16_384) + b"".join(text(f"key.{i}") + value for i in range(16_384))


def many_tensors() -> bytes:
    rest = struct.pack("<IQIQ", 1, 32, F32, 0)
    return header(32_768, 0) + b"".join(text(f"blk.{i}.weight") + rest for i in range(32_768))


def many_numbers() -> bytes:
    numbers = struct.pack("<I", ARRAY) + array(UINT32, 65_536, bytes(4 * 65_536)).data
    return header(0, 200) + b"".join(text(f"key.{i}") + numbers for i in range(200))


def many_texts() -> bytes:
    value = struct.pack("<I", STRING) + text(("x" * 65_500 + "\U0001f600").encode())
    return header(0, 900) + b"".join(text(f"key.{i}") + value for i in range(900))


#: Makers, and why their files are refused; None for those that are read.
CRAFTED: dict[Callable[[], bytes], str | None] = {
    strings_of_nothing: "too many parts",
    arrays_of_nothing: "too many parts",
    long_strings: "needs",
    tree_of_arrays: "too many parts",
    many_keys: None,
    many_tensors: None,
    many_numbers: "too much memory",
    many_texts: "too much memory",
}


def made(folder: Path, maker: Callable[[], bytes]) -> Path:
    path = saved(folder, maker(), f"{maker.__name__}.gguf")
    if CRAFTED[maker] == "too many parts":
        os.truncate(path, 2**40)  # a hole: nothing on the disk
    return path


@pytest.mark.parametrize("maker", CRAFTED, ids=lambda maker: maker.__name__)
def test_crafted_header_is_soon_done_with(tmp_path: Path, maker: Callable[[], bytes]) -> None:
    path = made(tmp_path, maker)
    why = CRAFTED[maker]
    with soon(path):
        if why is None:
            read_gguf(path)
        else:
            assert why in refused(read_gguf, path)


def test_header_of_long_strings_is_not_read_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf"
    path.write_bytes(valued(ARRAY, array(STRING, 2_000, b"").data))
    with path.open("r+b") as stream:
        for i in range(2_000):  # each string a hole of a MiB
            stream.seek(49 + i * ((1 << 20) + 8))
            stream.write(struct.pack("<Q", 1 << 20))
        stream.truncate(2**32)
    with soon(path):
        message = refused(read_gguf, path)
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
    paths = [str(made(tmp_path, maker)) for maker in CRAFTED]
    done = run_python(READ.replace("PATHS", repr(paths)))
    assert done.stderr == ""
    assert int(done.stdout) * 1024 < 200_000_000


def test_vocabulary_of_today_is_soon_passed_over(tmp_path: Path) -> None:
    count = 262_144
    tokens = array(STRING, count, b"".join(text(f"token{i}") for i in range(count)))
    merges = array(STRING, 2 * count, b"".join(text(f"ab{i} cd") for i in range(2 * count)))
    metadata = llama(tokens=tokens, merges=merges)
    path = saved(tmp_path, gguf(metadata, {"rope_freqs.weight": float32([1.0])}))
    with soon(path):
        file = read_gguf(path)
    assert file.metadata["llama.merges"] == Skipped(2 * count, "string")
    assert file.tensor("rope_freqs.weight") == 1.0
