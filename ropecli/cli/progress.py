"""Progress on stderr while a command works."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def is_watched() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def progress_bar(
    name: str, *, wanted: bool, of: str = "bytes", after: float = 0.0
) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of the bytes, or steps, done and in all; None without a terminal.

    Args:
        name: What is worked on.
        wanted: Show a bar, if there is a terminal.
        of: What is counted: "bytes", "steps", or "seconds" where the end is not known.
        after: Seconds before the bar appears.
    """
    if not wanted or not is_watched():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from ropecli.render.console import visible

    counts = {
        "bytes": (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()),
        "steps": (MofNCompleteColumn(), TimeRemainingColumn()),
        "seconds": (TimeElapsedColumn(),),
    }
    columns = (TextColumn("{task.description}"), BarColumn(), *counts[of])
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(escape(visible(name)), total=None)
    appears = threading.Timer(after, bar.start)
    appears.daemon = True
    try:
        (appears if after else bar).start()
        yield lambda done, total: bar.update(task, completed=done, total=total)
    finally:
        if after:
            appears.cancel()
            appears.join()
        bar.stop()
