"""Where words go: results to stdout, notes and warnings to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap

from rich.console import Console

#: Wide enough that a table that is piped is never cut or wrapped.
UNCUT = 100_000


class _Console(Console):
    """Goes on where Rich would end the process with exit code 1: that means a failed check."""

    def on_broken_pipe(self) -> None:
        """Fall silent."""
        silence()


def out() -> Console:
    """The console of results: the terminal's width, or no limit where there is none."""
    width = None if sys.stdout.isatty() else UNCUT
    return _Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)


def silence() -> None:
    """Say nothing more to a reader that has gone, as with `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str, *, kind: str = "note") -> None:
    """Write one line to stderr; where that is closed, full or gone, what is done goes on."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{kind}: {visible(text)}\n")


def visible(text: str) -> str:
    """The text in one line, letters that are no letters (a file may be called so) spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def wrapped(line: str, width: int, *, indent: int) -> list[str]:
    """The line, broken at spaces so that no part is wider, the parts after the first indented."""
    text = line.lstrip()
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * (len(line) - len(text)),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def draws_braille() -> bool:
    """Whether stdout is a terminal that can show a plot."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding.startswith("utf8")
