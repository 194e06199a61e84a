"""Tables that are never cut."""

from __future__ import annotations

from collections.abc import Sequence

GAP = 2  #: Spaces between columns.


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> list[str]:
    """Return a line for each row, with cells in columns."""
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
