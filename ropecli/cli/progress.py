"""A progress bar on stderr, where that is a terminal."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress_bar(
    name: str, *, wanted: bool, of_bytes: bool = True
) -> Iterator[Callable[[int, int], None] | None]:
    """What to call with the bytes, or steps, done and in all; None where nobody would see it."""
    if not wanted or not sys.stderr.isatty():
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

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if of_bytes else (MofNCompleteColumn(),)),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(name), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
