"""Files that are written at any place, large ones past the page cache."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from files.folders import descriptors
from helpers import random_array
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ropecli import Rotary, encode_file
from ropecli.files import array_job
from ropecli.files.formats import direct
from ropecli.files.formats.direct import PAGE, OutputFile

if TYPE_CHECKING:
    from collections.abc import Callable


LENGTH = 5 * PAGE


class Direct:
    """Descriptors that were asked to be direct, as a disk takes them: whole pages only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.fds: set[int] = set()
        self.pages = 0
        self.fails: Callable[[int], int | OSError] = lambda count: count
        self._open, self._pwrite = os.open, os.pwrite
        monkeypatch.setattr(os, "O_DIRECT", 1 << 29, raising=False)
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def open(self, path: Any, flags: int, *more: Any, **named: Any) -> int:
        fd = self._open(path, flags & ~(1 << 29), *more, **named)
        self.fds.discard(fd)
        if flags & 1 << 29:
            self.fds.add(fd)
        return fd

    def pwrite(self, fd: int, data: Any, place: int) -> int:
        if fd not in self.fds:
            return self._pwrite(fd, data, place)
        address = np.frombuffer(data, np.uint8).ctypes.data
        assert place % PAGE == len(data) % PAGE == address % PAGE == 0
        answer = self.fails(len(data))
        if isinstance(answer, OSError):
            raise answer
        self.pages += answer // PAGE
        return self._pwrite(fd, data[:answer], place)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Direct:
    """A disk of small pages, to which every file is large."""
    monkeypatch.setattr(direct, "LARGE", 0)
    monkeypatch.setattr(direct, "WORTH", 1)
    return Direct(monkeypatch)


def written(path: Path, pieces: list[tuple[int, bytes]]) -> bytes:
    """A file that had other bytes, after some pieces were written to it."""
    path.write_bytes(b"x" * LENGTH)
    file = OutputFile.opened(path, LENGTH)
    try:
        for place, piece in pieces:
            file.write(place, piece)
    finally:
        file.close()
    return path.read_bytes()


PIECES = st.lists(
    st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted).map(tuple),
    max_size=5,
)


@given(PIECES, st.sampled_from(["all", "short", "none"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_stand_where_they_belong(
    tmp_path: Path, disk: Direct, bounds: list[tuple[int, int]], takes: str
) -> None:
    disk.fails = {
        "all": lambda count: count,
        "short": lambda count: count - PAGE,
        "none": lambda _: OSError(errno.EINVAL, "Invalid argument"),
    }[takes]
    pieces = [
        (begin, bytes([65 + number]) * (end - begin)) for number, (begin, end) in enumerate(bounds)
    ]
    expected = bytearray(b"x" * LENGTH)
    for place, piece in pieces:
        expected[place : place + len(piece)] = piece
    assert written(tmp_path / "file", pieces) == expected


def test_whole_pages_go_past_the_cache(tmp_path: Path, disk: Direct) -> None:
    written(tmp_path / "file", [(100, bytes(LENGTH - 200))])
    assert disk.pages == 3, "all but those at both ends"


@pytest.mark.parametrize("name", ["LARGE", "WORTH"])
def test_what_is_small_goes_through_the_cache(
    tmp_path: Path, disk: Direct, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(direct, name, LENGTH + 1)
    assert written(tmp_path / "file", [(0, b"a" * LENGTH)]) == b"a" * LENGTH
    assert disk.pages == 0


@pytest.mark.parametrize("flag", [0, 1 << 29])
def test_where_there_is_no_such_way(
    tmp_path: Path, disk: Direct, monkeypatch: pytest.MonkeyPatch, flag: int
) -> None:
    def refused(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & 1 << 29:
            raise OSError(errno.EINVAL, "Invalid argument")
        return disk.open(path, flags, *more, **named)

    monkeypatch.setattr(os, "O_DIRECT", flag)
    monkeypatch.setattr(os, "open", refused)
    assert written(tmp_path / "file", [(0, b"a" * LENGTH)]) == b"a" * LENGTH
    assert disk.pages == 0


def test_what_the_disk_does_not_take_is_told(tmp_path: Path, disk: Direct) -> None:
    disk.fails = lambda _: OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(OSError, match="No space left"):
        written(tmp_path / "file", [(0, b"a" * LENGTH)])


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
@pytest.mark.parametrize("layout", ["C", "F"])
def test_encode_writes_the_same_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, layout: Any
) -> None:
    np.save(tmp_path / "x.npy", np.asarray(random_array(3, 700, 8, dtype="f8"), order=layout))
    pages = assert_alike(tmp_path / "x.npy", suffix, monkeypatch)
    assert (pages > 0) == (layout == "C"), "pieces of columns are shorter than pages"


@pytest.mark.parametrize("blanks", range(9))
def test_elements_need_not_stand_at_multiples_of_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blanks: int
) -> None:
    data = random_array(3, 700, 8, dtype="f8").tobytes()
    tensor = {"dtype": "F64", "shape": [3, 700, 8], "data_offsets": [0, len(data)]}
    header = json.dumps({"x": tensor}).encode() + b" " * blanks
    path = tmp_path / "x.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + data)
    assert assert_alike(path, ".safetensors", monkeypatch) > 0


def assert_alike(path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Encode a file with and without the page cache; how many pages went past it."""
    rope = Rotary(head_dim=8)
    usual, past = (path.with_name(f"{name}{suffix}") for name in ("usual", "past"))
    encode_file(path, usual, rope)
    with monkeypatch.context() as patched:
        patched.setattr(array_job, "BLOCK_BYTES", 3 * PAGE + 64)
        patched.setattr(direct, "LARGE", 0)
        patched.setattr(direct, "WORTH", 1)
        disk = Direct(patched)
        encode_file(path, past, rope)
    assert past.read_bytes() == usual.read_bytes()
    return disk.pages


@pytest.mark.parametrize("suffix", [".npy", ".safetensors"])
def test_nothing_stays_open_where_a_file_can_not_be_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    np.save(tmp_path / "x.npy", random_array(3, 8, dtype="f8"))
    before = descriptors()
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(Exception, match="No space left"):
        encode_file(tmp_path / "x.npy", tmp_path / f"y{suffix}", Rotary(head_dim=8))
    assert descriptors() == before
