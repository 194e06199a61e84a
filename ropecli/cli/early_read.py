"""Letting the disk read while the program is still being loaded."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from threading import Thread

#: Bytes of a file: what a quick disk reads in the second that Numba takes to load.
_BEGIN = 1 << 28


def begin_reading(path: str) -> None:
    """Have the system read the begin of a file into its cache, if it is one, and do not wait."""
    if hasattr(os, "posix_fadvise") and Path(path).is_file():  # a pipe is not to be opened twice
        Thread(target=_ask, args=(path,), daemon=True).start()


def _ask(path: str) -> None:
    with contextlib.suppress(OSError):  # which is said where it is read
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.posix_fadvise(fd, 0, _BEGIN, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(fd)
