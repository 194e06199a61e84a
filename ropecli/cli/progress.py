"""Progress on stderr while a command works."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def is_watched() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


@contextlib.contextmanager
def progress_bar(
    name: str, *, wanted: bool, of_bytes: bool = True
) -> Iterator[Callable[[int, int], None] | None]:
    """Give a function of the bytes, or steps, done and in all; None without a terminal."""
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
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from ropecli.render.console import visible

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(visible(name)), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
