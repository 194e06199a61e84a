"""Writing past the page cache, from memory to the disk.

A file that is larger than memory is better not kept there: pages that must be found, filled and
sent away again take more time than the rotation, and push out what others use.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

#: Bytes that places, lengths and addresses are multiples of: the largest sector of a disk.
PAGE = 4096


class DirectFile:
    """A file that takes whole pages, from where pages begin in memory."""

    def __init__(self, fd: int) -> None:
        """Write to a file that was opened for this."""
        self._fd = fd

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
            How many bytes the file took: fewer where it does not take such pages after all, none
            where the data do not begin at a page.

        Raises:
            OSError: The disk does not take them.
        """
        whole = len(data) - len(data) % PAGE
        if not whole or address(data) % PAGE:
            return 0
        try:
            return os.pwrite(self._fd, data[:whole], place)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return 0
            raise

    def close(self) -> None:
        """Close it."""
        os.close(self._fd)


def address(data: memoryview) -> int:
    """Where data lie in memory."""
    return int(np.frombuffer(data, np.uint8).ctypes.data)
