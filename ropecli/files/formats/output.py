"""An open file that is written at any place of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ropecli.files.formats.direct import PAGE, DirectFile

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes of a file from which on it is written past the page cache. What is smaller is likely to be
#: read again while it is still there.
_LARGE = 1 << 28
#: Bytes of a piece from which on waiting for the disk costs less than pages of memory.
_WORTH = 1 << 18


class OutputFile:
    """A file that is written at any place of it. Several threads may write at once."""

    def __init__(self, fd: int, direct: DirectFile | None = None) -> None:
        """Write to an open file, large pieces by another way if there is one."""
        self.fd = fd
        self._direct = direct

    @classmethod
    def opened(cls, path: Path, size: int) -> OutputFile:
        """Open an existing file that will have so many bytes.

        Raises:
            OSError: It can't be opened.
        """
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        return cls(fd, DirectFile.opened(path) if size >= _LARGE else None)

    def write(self, place: int, data: memoryview | bytes) -> None:
        """Write to a place of it.

        Raises:
            OSError: It can't be written.
        """
        rest = memoryview(data)
        if self._direct is not None and len(rest) >= _WORTH:
            to_page = -place % PAGE
            self._write(place, rest[:to_page])
            taken = to_page + self._direct.write(place + to_page, rest[to_page:])
            place, rest = place + taken, rest[taken:]
        self._write(place, rest)

    def _write(self, place: int, rest: memoryview) -> None:
        while rest:
            count = os.pwrite(self.fd, rest, place)
            rest, place = rest[count:], place + count

    def set_length(self, length: int) -> None:
        """Give it a length; what is not written yet is zero.

        Raises:
            OSError: It can't be that long.
        """
        os.truncate(self.fd, length)

    def close(self) -> None:
        """Close it."""
        os.close(self.fd)
        if self._direct is not None:
            self._direct.close()
