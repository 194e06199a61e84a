"""Tables of which nothing is ever cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = 2  #: Spaces between columns.


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> list[str]:
    """A line for each row, its cells under one another.

    Args:
        rows: Of the same length each, the headings first.
        left: Columns that are flush left, from the first; the others are flush right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * GAP)
        .join(
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]
