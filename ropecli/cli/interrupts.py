"""Ctrl-C at any moment: one line, exit code 130.

While modules are imported there is nothing to clean up, and an exception could be swallowed or
turned into another one, so the process ends at once. While a command runs, the exception cleans up.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType

EXIT_INTERRUPTED = 130
_SOON = 0.01  #: Seconds until the next attempt where an exception would be lost.
_MOST_ATTEMPTS = 200  #: A module of a user may take forever to be imported.
_attempts = 0


def exit_at_once_from_now_on() -> None:
    """Handle Ctrl-C until the process ends, outside `raised_as_exceptions`."""
    handle_with(exit_at_once)
    # What is registered first runs last. Python resets handlers before it frees memory, and a
    # Ctrl-C then would change the exit code of work that is done.
    atexit.register(handle_with, signal.SIG_IGN)


def exit_at_once(*_signal_and_frame: object) -> None:
    """End the process, from the first line of the program to the command, and after it."""
    with contextlib.suppress(OSError):  # stderr may be full or closed
        os.write(2, b"error: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def raise_interrupt(_signal: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and remember it in case something hides it."""
    global _attempts  # noqa: PLW0603 - a signal reaches the process, not an object
    _attempts += 1
    if _attempts < _MOST_ATTEMPTS and _would_be_lost(frame):
        signal.signal(signal.SIGALRM, raise_interrupt)
        signal.setitimer(signal.ITIMER_REAL, _SOON)
        return
    raise KeyboardInterrupt


def _would_be_lost(frame: FrameType | None) -> bool:
    """Return whether C code may print the exception and go on: of an import, `__del__`, or LLVM."""
    while frame is not None:
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if (
            code.co_filename.startswith("<frozen importlib")
            or code.co_name == "__del__"
            or module.startswith("llvmlite")
        ):
            return True
        frame = frame.f_back
    return False


@contextlib.contextmanager
def raised_as_exceptions() -> Iterator[None]:
    """Let Ctrl-C raise KeyboardInterrupt in the block, which is a command, and nowhere else."""
    try:
        handle_with(raise_interrupt)
        yield
    except KeyboardInterrupt:  # between the command and these lines
        exit_at_once()
    except SystemExit as end:
        if end.code == EXIT_INTERRUPTED:
            # Everything is cleaned up. Python itself would end by the signal where it came within
            # an exec(), as NumPy and Numba use, even though the exception was handled.
            os._exit(EXIT_INTERRUPTED)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # no second try of `raise_interrupt`
        handle_with(exit_at_once)


def was_interrupted() -> bool:
    """Return whether a Ctrl-C came while the command ran."""
    return _attempts > 0


def handle_with(handler: object) -> None:
    """Handle Ctrl-C this way, unless the process was told to ignore it, as behind `nohup`."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]
