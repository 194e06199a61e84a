"""Learned tables: a row for each position (RoFormer Eq. 3, with any p)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values, rounded

#: Rows by which positions are moved, and who releases that.
OFFSETS: dict[int, str | None] = {0: "", 2: "OPT, BART", 1: None, -1: None, 3: None}


def readings(_got: Array, _asked: Asked) -> Iterator[Reading]:
    """Yield the rows of the code's table that positions stand for."""
    for scaled, (offset, released) in itertools.product((False, True), OFFSETS.items()):
        said = [f"positions start at {offset}"] if offset else []
        said += ["multiplied by 1/sqrt(d)"] if scaled else []
        yield Reading(
            compute=partial(_rows, offset, scaled),
            said=", ".join(said),
            released="x-transformers" if scaled and released == "" else released,
            options={"start": offset},
        )
    yield Reading(compute=_backwards, said="rows are in reverse order")


def _rows(offset: int, scaled: bool, asked: Asked) -> Values:
    table, rows = _table(asked), asked.positions + offset
    inside = (rows >= 0) & (rows < len(table))
    values = table[np.where(inside, rows, 0)]
    values = values * asked.dim**-0.5 if scaled else values
    return rounded(np.where(inside[:, None], values, np.nan), 2.0)


def _backwards(asked: Asked) -> Values:
    table = _table(asked)
    return rounded(table[::-1][np.minimum(asked.positions, len(table) - 1)], 2.0)


def _table(asked: Asked) -> Array:
    return asked.weight("table", (asked.positions.max(initial=0) + 4, asked.dim))
