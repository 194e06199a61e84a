"""Tables: columns that are declared once, for pages, which are never cut, and for HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

GAP = 2  #: Spaces between columns.
SPREAD = 9  #: Rows of a long table that a page shows, evenly spread.


def align(rows: Sequence[Sequence[str]], *, left: int = 0, width: float = math.inf) -> list[str]:
    """Return a line for each row, with cells in columns.

    Columns that are flush left are names. Columns beyond the width follow below, after the names or
    else after the first column again.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines: list[str] = []
    for block in _fold([number + GAP for number in widths], max(left, 1), width + GAP):
        lines += [""] if lines else []
        for row in rows:
            cells = (
                row[index].ljust(widths[index]) if index < left else row[index].rjust(widths[index])
                for index in block
            )
            lines.append((" " * GAP).join(cells).rstrip())
    return lines


def _fold(widths: Sequence[int], kept: int, width: float) -> Iterator[list[int]]:
    """Yield the columns of each block: those that are kept, and as many others as fit."""
    first = list(range(min(kept, len(widths))))
    block, begin = first, len(first)
    for index in range(begin, len(widths)):
        if len(block) > len(first) and sum(widths[i] for i in (*block, index)) > width:
            yield block
            block = first
        block = [*block, index]
    yield block


def doublings(last: int) -> list[int]:
    """Return the rows of a long table that a page shows: 0, 1, 2, 4, ... and the last one."""
    return sorted({0, last, *(2**power for power in range(last.bit_length()))})


def spread(count: int) -> list[int]:
    """Return some rows of a long table that a page shows, evenly spread."""
    return sorted({round(place * (count - 1) / (SPREAD - 1)) for place in range(SPREAD)})


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    value: float | None = None  #: Of a number: it is flush right in HTML, and sorted by this.

    @property
    def key(self) -> str:
        """The value, or nothing where the text says it too."""
        try:
            float(self.text)
        except ValueError:
            return f"{self.value:.9g}".replace("inf", "Infinity")  # as JavaScript spells it
        return ""


class Column(NamedTuple):
    """A column of a table."""

    heading: str  #: On a page, in two lines where it has a line break.
    key: Any  #: Of its value in a row: a key, a field, or a function of the row.
    form: str | Callable[[Any], str] = ""  #: Format of the value, or a function that spells it.

    def cell(self, row: Any) -> Cell:
        """Return the cell of a row, which is an object or a dictionary."""
        if callable(self.key):
            value = self.key(row)
        else:
            value = row[self.key] if isinstance(row, dict) else getattr(row, self.key)
        if isinstance(value, Cell):
            return value
        if value is None or isinstance(value, str):
            return Cell(text="-" if value is None else value)
        text = self.form(value) if callable(self.form) else format(value, self.form)
        number = float(len(value) if isinstance(value, tuple) else value)
        return Cell(text=text, value=None if math.isnan(number) else number)


def texts(columns: Sequence[Column], rows: Iterable[Any]) -> list[list[str]]:
    """Return the headings of columns, and below them the cells of rows."""
    headings = [column.heading.split("\n") for column in columns]
    height = max(map(len, headings))
    above = zip(*([""] * (height - len(heading)) + heading for heading in headings), strict=True)
    cells = ([column.cell(row).text for column in columns] for row in rows)
    return [*map(list, above), *cells]


@dataclass(frozen=True, kw_only=True)
class HtmlTable:
    """A table of an HTML page."""

    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def numeric(self) -> list[bool]:
        """For each column, True if it holds numbers."""
        return [
            any(cell.value is not None for cell in column)
            for column in zip(*self.rows, strict=True)
        ]


def html_table(caption: str, columns: Sequence[Column], rows: Iterable[Any]) -> HtmlTable:
    """Return a table of an HTML page."""
    return HtmlTable(
        caption=caption,
        headings=tuple(column.heading.replace("\n", " ").strip() for column in columns),
        rows=tuple(tuple(column.cell(row) for column in columns) for row in rows),
    )
