"""Ctrl-C at any moment: one line, exit code 130.

While modules are imported there is nothing to clean up, and an exception could be swallowed or
turned into another one, so the process ends at once. While a command runs, the exception cleans up.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal

EXIT_INTERRUPTED = 130
_interrupted = False


def exit_at_once_from_now_on() -> None:
    """Handle Ctrl-C until a command runs, and see that none is left to the end of the process."""
    handle_with(exit_at_once)
    # The first that is registered runs last. Python takes handlers back before it frees what it
    # holds, and a Ctrl-C then would change the exit code of work that is done.
    atexit.register(handle_with, signal.SIG_IGN)


def exit_at_once(*_signal_and_frame: object) -> None:
    """End the process, from the first line of the program to the command, and after it."""
    with contextlib.suppress(OSError):  # stderr may be full or closed
        os.write(2, b"error: interrupted\n")
    os._exit(EXIT_INTERRUPTED)


def raise_interrupt(*_signal_and_frame: object) -> None:
    """Raise KeyboardInterrupt, and remember it in case an importer or a callback hides it."""
    global _interrupted  # noqa: PLW0603 - a signal reaches the process, not an object
    _interrupted = True
    raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether a Ctrl-C came while the command ran."""
    return _interrupted


def handle_with(handler: object) -> None:
    """Handle Ctrl-C this way, unless the process was told to ignore it, as behind `nohup`."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, handler)  # type: ignore[arg-type]
