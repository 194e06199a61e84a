"""Regular files: all else is refused, even if it takes the place of one."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from ropecli import FileError
from ropecli.regular import (
    WRITE_BYTES,
    expand_pattern,
    open_regular,
    read_bytes,
    read_into,
    regular_file,
    write_stream,
)

INTO = memoryview(bytearray(9))


def test_a_pattern_reaches_folders_below(tmp_path: Path) -> None:
    config = tmp_path / "a" / "b" / "config.json"
    config.parent.mkdir(parents=True)
    config.touch()
    assert expand_pattern(f"{tmp_path}/**/config.json") == [str(config)]


def test_no_file_a_folder_and_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, message in {
        "none": f"cannot read {tmp_path}/none: No such file or directory",
        "": f"{tmp_path} is a folder; expected a text",
        "pipe": f"{tmp_path}/pipe is not a regular file; expected a text",
        "n" * 300: f"cannot read {tmp_path}/{'n' * 300}: File name too long",
        "a\0b": f"cannot read {tmp_path}/a\0b: a name can't hold a NUL",
    }.items():
        with pytest.raises(FileError) as caught, regular_file(tmp_path / name, "a text"):
            pass
        assert str(caught.value) == message


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_takes_the_place_of_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"content")
    look = Path.stat

    def stat_and_replace(file: Path, **options: Any) -> os.stat_result:
        seen = look(file, **options)
        path.unlink()
        os.mkfifo(path) if kind == "pipe" else path.mkdir()
        return seen

    before = len(list(Path("/dev/fd").iterdir()))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", stat_and_replace)
        with pytest.raises(FileError, match="expected a text"):
            open_regular(path, "a text")
    assert len(list(Path("/dev/fd").iterdir())) == before


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(10))
    with regular_file(path) as fd:
        assert read_bytes(path, fd, 2, 8) == bytes(8)
        with pytest.raises(FileError, match="became shorter"):
            read_bytes(path, fd, 2, 9)


def test_memory_is_filled_however_little_comes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(range(100)))
    preadv, pread = os.preadv, os.pread
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: preadv(fd, [into[0][:7]], at))
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(7, length), at))
    with regular_file(path) as fd:
        into = bytearray(60)
        read_into(path, fd, 30, memoryview(into))
        assert into == bytes(range(30, 90))
        assert read_bytes(path, fd, 30, 60) == bytes(range(30, 90))
        with pytest.raises(FileError, match="x became shorter while it was being read"):
            read_into(path, fd, 50, memoryview(into))


def test_errors_of_the_disk_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(9))

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", failing)
    monkeypatch.setattr(os, "pread", failing)
    with regular_file(path) as fd:
        for read in (lambda: read_bytes(path, fd, 0, 9), lambda: read_into(path, fd, 0, INTO)):
            with pytest.raises(FileError) as caught:
                read()
            assert str(caught.value) == f"cannot read {path}: Input/output error"


@pytest.mark.parametrize("length", [0, 1, WRITE_BYTES, 3 * WRITE_BYTES + 7])
def test_a_stream_gets_all_bytes_in_pieces(length: int) -> None:
    pieces: list[bytes] = []

    class Disk(io.RawIOBase):
        def writable(self) -> bool:
            return True

        def write(self, data: Any, /) -> int:
            pieces.append(bytes(data[:100_003]))
            assert len(data) <= WRITE_BYTES
            return len(pieces[-1])

    content = os.urandom(length)
    with io.BufferedWriter(Disk()) as stream:
        write_stream(stream, content)
    assert b"".join(pieces) == content
