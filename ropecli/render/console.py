"""Where words go: results to stdout, notes and warnings to stderr."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.markup import escape

#: Wide enough that a table that is piped is never cut or wrapped.
UNCUT = 100_000


def out() -> Console:
    """The console of results: the terminal's width, or no limit where there is none."""
    width = None if sys.stdout.isatty() else UNCUT
    return Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)


def note(text: str, *, kind: str = "note") -> None:
    """Write one line to stderr."""
    console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
    console.print(f"{kind}: {escape(text)}")


def draws_braille() -> bool:
    """Whether stdout is a terminal that can show a plot."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding.startswith("utf8")
