"""An open file that is written at any place, large files past the page cache.

A file of gigabytes is better not kept in memory: pages that must be found, filled and sent away
again take more time than the rotation, and push out what others use.
"""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path
from threading import Lock

import numpy as np

#: Bytes that places, lengths and addresses of direct writes are multiples of: the largest sector
#: of a disk.
PAGE = 4096
#: Bytes of a file from which it is written past the page cache. A smaller one is likely to be read
#: again while it is still there.
LARGE = 1 << 28
#: Bytes of a piece from which waiting for the disk costs less than pages of memory.
WORTH = 1 << 18
_BUFFER = 1 << 23  #: Bytes written at once, from memory that begins where a page does.


class OutputFile:
    """A file that is written at any place. Several threads may write at once."""

    def __init__(self, fd: int, direct: int | None = None) -> None:
        """Write to an open file."""
        self.fd = fd
        self._direct = direct
        self._lock = Lock()
        self._buffer: mmap.mmap | None = None

    @classmethod
    def opened(cls, path: Path, size: int) -> OutputFile:
        """Open an existing file."""
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        return cls(fd, _open_direct(path) if size >= LARGE else None)

    def write(self, place: int, data: memoryview | bytes) -> None:
        """Write bytes to a place of the file."""
        rest = memoryview(data)
        if self._direct is not None and len(rest) >= WORTH:
            to_page = -place % PAGE
            self._write(place, rest[:to_page])
            place, rest = place + to_page, rest[to_page:]
            while count := self._write_pages(self._direct, place, rest):
                place, rest = place + count, rest[count:]
        self._write(place, rest)

    def _write(self, place: int, rest: memoryview) -> None:
        while rest:
            count = os.pwrite(self.fd, rest, place)
            rest, place = rest[count:], place + count

    def _write_pages(self, fd: int, place: int, rest: memoryview) -> int:
        """Write some whole pages past the cache; return the bytes taken, 0 where none can be."""
        length = min(len(rest) - len(rest) % PAGE, _BUFFER)
        if not length:
            return 0
        with self._lock:
            if self._buffer is None:
                self._buffer = mmap.mmap(-1, _BUFFER)
            # NumPy copies without holding up the thread that rotates.
            np.frombuffer(self._buffer, np.uint8)[:length] = np.frombuffer(rest[:length], np.uint8)
            try:
                count = os.pwrite(fd, memoryview(self._buffer)[:length], place)
            except OSError as error:
                if error.errno == errno.EINVAL:  # the file system cannot after all
                    return 0
                raise
        return count - count % PAGE

    def set_length(self, length: int) -> None:
        """Set the length of the file; what is not written yet is zero."""
        os.truncate(self.fd, length)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)
        if self._direct is not None:
            os.close(self._direct)


def _open_direct(path: Path) -> int | None:
    """Open a file past the page cache; None where the system or file system cannot."""
    flag = getattr(os, "O_DIRECT", 0)
    try:
        return os.open(path, os.O_WRONLY | os.O_CLOEXEC | flag) if flag else None
    except OSError:
        return None
