"""Results to stdout, notes and warnings to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ropecli.render.table import align

UNCUT = 100_000  #: Columns of a console that breaks no line.
NARROWEST = 20  #: Columns in which a word still fits below its indent.
PIPED = 80  #: Columns of tables in a pipe, which a person may read in a pager.
#: Colours of words that begin a line: verdicts, and the levels of lint's findings.
COLOURS = {
    r"(?m)^ *PASS(?!\w)": "green",
    r"(?m)^ *FAIL(?!\w)": "bold red",
    r"(?m)(?<=^  )error(?= +R\d)": "bold red",
    r"(?m)(?<=^  )warning(?= +R\d)": "yellow",
    r"(?m)(?<=^  )note(?= +R\d)": "cyan",
}


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Place and length of a page."""

    width: int = UNCUT  #: Columns; without a terminal, sentences are not broken.
    braille: bool = False  #: The terminal can show a plot.
    brief: bool = False  #: Only the result, without hints.
    saved: Path | None = None  #: The file that was written, if any.

    @classmethod
    def of_stdout(cls, *, brief: bool, saved: Path | None = None) -> Screen:
        """Return the screen behind stdout, which may be a file or a pipe."""
        given = os.environ.get("COLUMNS", "")
        width = int(given) if given.isdecimal() and int(given) else out().width
        width = max(width, NARROWEST)
        return cls(width=width, braille=draws_braille(), brief=brief, saved=saved)

    @property
    def folded(self) -> int:
        """Columns of what is folded even without a terminal."""
        return PIPED if self.width == UNCUT else self.width

    def align(self, rows: Sequence[Sequence[str]], *, left: int = 0, indent: int = 0) -> list[str]:
        """Return a table, in blocks of columns that fit."""
        lines = align(rows, left=left, width=self.folded - indent)
        return [f"{'':{indent}}{line}".rstrip() for line in lines]

    def wrap(self, *sentences: str, indent: int = 2) -> list[str]:
        """Return sentences in lines of at most 80 columns."""
        width = min(self.width, 80)
        return [
            part for sentence in sentences for part in wrap_text(sentence, width, indent=indent)
        ]

    def offer(self, *hints: str) -> list[str]:
        """Return hints at what can be saved, one a line where they are wider; none if saved."""
        if self.brief or self.saved is not None:
            return []
        return [part for hint in hints for part in self._parts(hint)]

    def _parts(self, hint: str) -> list[str]:
        return [hint] if len(hint) <= self.width else hint.split("    ")


class _Console(Console):
    """A console that does not exit with code 1, which means a failed check, on a broken pipe."""

    def on_broken_pipe(self) -> None:
        """Print nothing more."""
        silence()


def show(lines: Iterable[str], screen: Screen) -> None:
    """Print a page, and the name of the file that was written; nothing for an empty page.

    Sentences that are wider than a terminal are broken at spaces, which the terminal does not do.
    Without one the answer, which `head -1` reads, and commands, which are pasted, stay in one line.
    """
    lines = [*lines]
    answer = len([*takewhile(bool, lines)])
    page = "\n".join(
        part
        for place, line in enumerate(lines)
        for part in _fit(line, screen.width if place < answer or " --" in line else screen.folded)
    ).rstrip()
    if screen.saved is not None:
        page += f"\n\nWritten: {visible(str(screen.saved))}"
    if not page:
        return
    text = Text.from_ansi(page) if "\x1b" in page else Text(page)
    for pattern, colour in COLOURS.items():
        text.highlight_regex(pattern, colour)
    out().print(text)


def _fit(line: str, width: int) -> list[str]:
    """Break a sentence that is wider, and no row of a table, whose cells are two spaces apart."""
    if len(line) <= width or "  " in line.strip() or "\x1b" in line:
        return [line]
    return wrap_text(line, width, indent=len(line) - len(line.lstrip()))


def out() -> Console:
    """Return the console of results: the terminal's width, or no limit where there is none."""
    width = None if sys.stdout.isatty() else UNCUT
    return _Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)


def silence() -> None:
    """Print nothing more for a reader that has gone, as with `| head`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str, *, kind: str = "note") -> None:
    """Write one line to stderr; go on where that is closed, full or gone."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"{kind}: {visible(text)}\n")


def annotate(lines: Iterable[str]) -> None:
    """Write lines for the runner of a CI job to stderr, which it reads like stdout."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.write("".join(f"{line}\n" for line in lines))


def paragraphs(*blocks: Sequence[str]) -> list[str]:
    """Return lines with a blank one between blocks; empty blocks are left out."""
    lines: list[str] = []
    for block in filter(None, blocks):
        lines += ["", *block] if lines else block
    return lines


def visible(text: str) -> str:
    """Return the text in one line, with escapes for control characters, as in a file's name."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def wrap_text(line: str, width: int, *, indent: int) -> list[str]:
    """Break a line at spaces so that no part is wider, and indent the parts after the first."""
    text = line.lstrip()
    return textwrap.wrap(
        text,
        width,
        initial_indent=" " * (len(line) - len(text)),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def wrap_rows(lines: Iterable[str], width: int, *, hang: int = 0) -> list[str]:
    """Break lines that are wider, and align the parts of a row, `name  value`, with its value."""
    return [
        part
        for line in lines
        for part in wrap_text(line, width, indent=_value_column(line, hang)) or [""]
    ]


def _value_column(line: str, hang: int) -> int:
    text = line.lstrip()
    before = len(line) - len(text)
    name, gap, _ = text.partition("  ")
    return before + len(text) - len(text[len(name) :].lstrip()) if gap else before + hang


def draws_braille() -> bool:
    """Return whether stdout is a terminal that can show a plot."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    return sys.stdout.isatty() and encoding.startswith("utf8")
