"""Progress on stderr while a command works."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

LONG = 10.0  #: Seconds after which a log gets a line.


def is_watched() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def progress_bar(
    name: str, *, wanted: bool, of: str = "bytes", after: float = 0.0
) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of the bytes, or steps, done and in all; None without a terminal."""
    if not wanted or not is_watched():
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    counts = {
        "bytes": (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()),
        "steps": (MofNCompleteColumn(), TimeRemainingColumn()),
        "seconds": (TimeElapsedColumn(),),
    }
    columns = (TextColumn("{task.description}"), BarColumn(), *counts[of])
    with _shown(columns, name, after) as (bar, task):
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextlib.contextmanager
def progress_line(
    name: str, *, wanted: bool, after: float = 0.0
) -> Iterator[Callable[[str], None] | None]:
    """Give a function of what is being done, in words, which a log gets once, after a while."""
    if not wanted:
        yield None
        return
    if not is_watched():
        with _said_once(name) as say:
            yield say
        return
    from rich.progress import TextColumn, TimeElapsedColumn

    from ropecli.render.console import visible

    columns = (
        TextColumn("{task.description}"),
        TextColumn("{task.fields[doing]}", markup=False),
        TimeElapsedColumn(),
    )
    with _shown(columns, name, after) as (line, task):
        yield lambda words: line.update(task, doing=visible(words))


@contextlib.contextmanager
def _said_once(name: str) -> Iterator[Callable[[str], None]]:
    """Give a function of what is being done, which is printed if the work takes long."""
    from ropecli.render.console import visible

    doing = ""

    def remember(words: str) -> None:
        nonlocal doing
        doing = words

    def say() -> None:
        text = f"note: {visible(name)}: {visible(doing or 'starting')}, for {LONG:g} s so far\n"
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()

    timer = threading.Timer(LONG, say)
    timer.daemon = True
    timer.start()
    try:
        yield remember
    finally:
        timer.cancel()


@contextlib.contextmanager
def _shown(columns: Any, name: str, after: float) -> Iterator[tuple[Any, Any]]:
    """Show columns on stderr until the work is done."""
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    from ropecli.render.console import visible

    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(escape(visible(name)), total=None, doing="")
    appears = threading.Timer(after, bar.start)
    appears.daemon = True
    try:
        (appears if after else bar).start()
        yield bar, task
    finally:
        if after:
            appears.cancel()
            appears.join()
        bar.stop()
