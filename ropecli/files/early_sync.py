"""Letting the disk work from the beginning.

What is written waits in memory until the system, or the sync at the end, sends it to the disk. To
send it from time to time, in a thread of its own, lets the disk write while blocks are still being
read and turned, and leaves little for the end.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from ropecli.files.formats.pipe import is_pipe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_EACH = 64 << 20  #: Bytes between two of these.
_WRITE = 2  #: Of sync_file_range: begin to write, and do not wait.


def _sender() -> Callable[[int], object]:
    """What sends it without waiting, as Linux can, or else waits for it.

    A sync waits for the file system's journal each time, which a slow disk makes felt. What the
    disk does not take is told by the sync at the end.
    """
    try:
        call = ctypes.CDLL(None).sync_file_range
    except AttributeError:
        return os.fsync
    everything = ctypes.c_int64(0), ctypes.c_int64(0)
    return lambda fd: call(fd, *everything, _WRITE)


send = _sender()


class EarlySync:
    """Sends a file to the disk in the background while it is being written."""

    def __init__(self, path: Path) -> None:
        """Send a regular file; of anything else, nothing."""
        is_file = path.is_file() and not is_pipe(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if is_file else None
        self._waiting = 0
        self._running: Future[object] | None = None
        self._thread = ThreadPoolExecutor(1)

    def wrote(self, count: int) -> None:
        """So many bytes more were written.

        Raises:
            OSError: The disk did not take what was synced before, where the system waits for it:
                systems tell that once only. What is only sent, as on Linux, tells nothing.
        """
        self._waiting += count
        if self._running is not None and self._running.done():
            self._running.result()
        elif self._running is not None:
            return
        if self._fd is None or self._waiting < _EACH:
            return
        self._waiting = 0
        self._running = self._thread.submit(send, self._fd)

    def __enter__(self) -> Self:
        """Stop at the end."""
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Wait for what is running; raises as `wrote`, unless something else went wrong."""
        self._thread.shutdown()
        if self._fd is not None:
            os.close(self._fd)
        if error is None and self._running is not None:
            self._running.result()
