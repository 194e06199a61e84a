"""Letting the disk work from the beginning.

What is written waits in memory until the system, or the sync at the end, sends it to the disk. To
sync from time to time, in a thread of its own, lets the disk write while blocks are still being
read and turned, and leaves little for the end.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

from ropecli.files.formats.pipe import is_pipe

if TYPE_CHECKING:
    from pathlib import Path

_EACH = 64 << 20  #: Bytes between two syncs.


class EarlySync:
    """Syncs a file in the background while it is being written."""

    def __init__(self, path: Path) -> None:
        """Sync a regular file; of anything else, nothing."""
        is_file = path.is_file() and not is_pipe(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC) if is_file else None
        self._waiting = 0
        self._running: Future[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    def wrote(self, count: int) -> None:
        """So many bytes more were written.

        Raises:
            OSError: The disk did not take what was synced before. Systems tell that once only.
        """
        self._waiting += count
        if self._running is not None and self._running.done():
            self._running.result()
        elif self._running is not None:
            return
        if self._fd is None or self._waiting < _EACH:
            return
        self._waiting = 0
        self._running = self._thread.submit(os.fsync, self._fd)

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
