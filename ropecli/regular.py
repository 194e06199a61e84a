"""Regular files: those that a pattern names, opening them, reading and writing them in pieces."""

from __future__ import annotations

import contextlib
import glob
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ropecli.errors import FileError

#: Non-blocking, as a pipe may have taken the place of a file.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK

COPY_BYTES = 1 << 22  #: Bytes copied at once.

#: Bytes written at once. For a longer write, ext4 looks for larger runs of free memory, which takes
#: the system longer than the calls that it saves: 1.1 to 9 times as long at 1 to 16 MiB, depending
#: on the free memory. From 64 to 512 KiB it makes no difference.
WRITE_BYTES = 1 << 18


def expand_pattern(name: str) -> list[str]:
    """Return what a pattern such as "dump/*.npy" matches, sorted; any other name as it is."""
    if os.path.lexists(name) or not glob.has_magic(name):
        return [name]
    matching = sorted(glob.glob(name, recursive=True))  # noqa: PTH207
    if not matching:
        raise FileError(f"no file matches {name}")
    return matching


def open_regular(path: Path, what: str = "a file") -> int:
    """Open a regular file for reading, and return its descriptor."""
    try:
        # Checked before opening, which makes some devices act, and again on what was opened.
        mode = path.stat().st_mode
        if stat.S_ISREG(mode):
            fd = os.open(path, _FLAGS)
            mode = os.fstat(fd).st_mode
            if stat.S_ISREG(mode):
                return fd
            os.close(fd)
    except (OSError, ValueError) as error:
        # Python's own message for a NUL in a name depends on its version.
        reason = error.strerror if isinstance(error, OSError) else "a name can't hold a NUL"
        raise FileError(f"cannot read {path}: {reason}") from None
    kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
    raise FileError(f"{path} is {kind}; expected {what}")


@contextlib.contextmanager
def regular_file(path: Path, what: str = "a file") -> Iterator[int]:
    """Open a regular file like `open_regular`, and close it at the end."""
    fd = open_regular(path, what)
    try:
        yield fd
    finally:
        os.close(fd)


def read_into(path: Path, fd: int, begin: int, into: memoryview) -> None:
    """Fill memory with bytes of an open file."""
    while into:
        with _translate_errors(path):
            count = os.preadv(fd, [into], begin)
        _check_any(path, count)
        into, begin = into[count:], begin + count


def read_bytes(path: Path, fd: int, begin: int, length: int) -> bytes:
    """Return bytes of an open file."""
    parts = []
    while length:
        with _translate_errors(path):
            part = os.pread(fd, length, begin)
        _check_any(path, len(part))
        parts.append(part)
        begin, length = begin + len(part), length - len(part)
    return b"".join(parts)


def read_pieces(path: Path, fd: int, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield bytes of an open file a piece at a time, each with its place."""
    for place in range(begin, end, COPY_BYTES):
        yield place, read_bytes(path, fd, place, min(COPY_BYTES, end - place))


def write_at(fd: int, place: int, data: memoryview | bytes) -> None:
    """Write bytes to a place of an open file."""
    remaining = memoryview(data)
    while remaining:
        count = os.pwrite(fd, remaining[:WRITE_BYTES], place)
        remaining, place = remaining[count:], place + count


def write_stream(stream: IO[bytes], data: memoryview | bytes) -> None:
    """Write bytes to a buffered stream, which takes all that it is given."""
    remaining = memoryview(data)
    for begin in range(0, len(remaining), WRITE_BYTES):
        stream.write(remaining[begin : begin + WRITE_BYTES])


@contextlib.contextmanager
def _translate_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from None


def _check_any(path: Path, count: int) -> None:
    if not count:
        raise FileError(f"{path} became shorter while it was being read")
