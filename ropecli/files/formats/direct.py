"""Writing past the page cache, from memory to the disk.

A file that is larger than memory is better not kept there: pages that must be found, filled and
sent away again take more time than the rotation, and push out what others use.
"""

from __future__ import annotations

import errno
import mmap
import os
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes that places, lengths and addresses are multiples of: the largest sector of a disk.
PAGE = 4096
_AT_ONCE = 4 << 20  #: Bytes: more made no disk quicker, and less remains in the processor's cache.


class DirectFile:
    """A file that takes whole pages at a time."""

    def __init__(self, fd: int) -> None:
        """Write to a file that was opened for this."""
        self._fd = fd
        self._pages = memoryview(mmap.mmap(-1, _AT_ONCE))  # which begins at a page
        self._lock = Lock()

    @classmethod
    def opened(cls, path: Path) -> DirectFile | None:
        """Open an existing file; None where system or file system have no such way."""
        flag = getattr(os, "O_DIRECT", 0)
        try:
            return cls(os.open(path, os.O_WRONLY | os.O_CLOEXEC | flag)) if flag else None
        except OSError:
            return None

    def write(self, place: int, data: memoryview) -> int:
        """Write what there is of whole pages, to a place that is a multiple of them.

        Returns:
            How many bytes the file took: fewer where it does not take such pages after all.

        Raises:
            OSError: The disk does not take them.
        """
        whole = len(data) - len(data) % PAGE
        done = 0
        with self._lock:
            while done < whole:
                count = min(_AT_ONCE, whole - done)
                self._pages[:count] = data[done : done + count]
                taken = self._taken(place + done, count)
                done += taken
                if taken < count:
                    break
        return done

    def _taken(self, place: int, count: int) -> int:
        try:
            return os.pwrite(self._fd, self._pages[:count], place)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return 0
            raise

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)
