"""Ctrl-C, SIGTERM and SIGHUP at any moment: one line, exit code 130, 143 or 129.

`timeout`, Slurm and systemd send SIGTERM; a terminal that is closed sends SIGHUP.

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

#: What is said of a signal. The exit code is that of a shell for a process that it ended.
ENDS = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
    signal.SIGHUP: "the terminal was closed",
}
_SOON = 0.01  #: Seconds until the next attempt where an exception would be lost.
_MOST_ATTEMPTS = 200  #: A module of a user may take forever to be imported.
_attempts = 0
_last = signal.SIGINT


def exit_at_once_from_now_on() -> None:
    """Handle the signals until the process ends, outside `raised_as_exceptions`."""
    handle_with(exit_at_once)
    # What is registered first runs last. Python resets handlers before it frees memory, and a
    # signal then would change the exit code of work that is done.
    atexit.register(handle_with, signal.SIG_IGN)


def end() -> tuple[str, int]:
    """Return what to say of the last signal, and the exit code."""
    return ENDS[_last], 128 + _last


def exit_at_once(number: int | None = None, _frame: object = None) -> None:
    """End the process, from the first line of the program to the command, and after it."""
    _remember(number)
    said, code = end()
    with contextlib.suppress(OSError):  # stderr may be full or closed
        os.write(2, f"error: {said}\n".encode())
    os._exit(code)


def raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and remember it in case something hides it."""
    global _attempts  # noqa: PLW0603 - a signal reaches the process, not an object
    _remember(number)
    _attempts += 1
    if _attempts < _MOST_ATTEMPTS and _would_be_lost(frame):
        signal.signal(signal.SIGALRM, raise_interrupt)
        signal.setitimer(signal.ITIMER_REAL, _SOON)
        return
    raise KeyboardInterrupt


def _remember(number: int | None) -> None:
    global _last  # noqa: PLW0603 - a signal reaches the process, not an object
    if number in ENDS:  # and not the timer of another attempt
        _last = signal.Signals(number)


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
    """Let a signal raise KeyboardInterrupt in the block, which is a command, and nowhere else."""
    try:
        handle_with(raise_interrupt)
        yield
    except KeyboardInterrupt:  # between the command and these lines
        exit_at_once()
    except SystemExit as done:
        if was_interrupted() and done.code == end()[1]:
            # Everything is cleaned up. Python itself would end by the signal where it came within
            # an exec(), as NumPy and Numba use, even though the exception was handled.
            os._exit(end()[1])
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # no second try of `raise_interrupt`
        handle_with(exit_at_once)


def was_interrupted() -> bool:
    """Return whether a signal came while the command ran."""
    return _attempts > 0


def handle_with(handler: object) -> None:
    """Handle the signals this way, but those that the process ignores, as behind `nohup`."""
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)  # type: ignore[arg-type]
