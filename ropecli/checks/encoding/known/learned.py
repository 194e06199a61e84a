"""Learned tables: a row for each position (RoFormer Eq. 3, with any p)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.encoding.asked import Asked
from ropecli.checks.encoding.reading import Reading, Values, rounded

SETTINGS: Mapping[str, Any] = {}
#: Rows by which positions are moved, and who releases that.
OFFSETS: dict[int, str | None] = {0: "", 2: "OPT, BART", 1: None, -1: None, 3: None}


def readings(got: Array, asked: Asked) -> Iterator[Reading]:
    """Yield the rows of the code's table that positions stand for."""
    del got
    for scaled, (offset, released) in itertools.product((False, True), OFFSETS.items()):

        def compute(asked: Asked, offset: int = offset, scaled: bool = scaled) -> Values:
            table = asked.weight("table", (asked.positions.max(initial=0) + 4, asked.dim))
            rows = asked.positions + offset
            inside = (rows >= 0) & (rows < len(table))
            values = table[np.where(inside, rows, 0)]
            values = values * asked.dim**-0.5 if scaled else values
            return rounded(np.where(inside[:, None], values, np.nan), 2.0)

        said = [f"positions start at {offset}"] if offset else []
        said += ["multiplied by 1/sqrt(d)"] if scaled else []
        where = "x-transformers" if scaled and released == "" else released
        words = ", ".join(said)
        yield Reading(compute=compute, said=words, released=where, options={"start": offset})

    def backwards(asked: Asked) -> Values:
        table = asked.weight("table", (asked.positions.max(initial=0) + 4, asked.dim))
        values = table[::-1][np.minimum(asked.positions, len(table) - 1)]
        return rounded(values, 2.0)

    yield Reading(compute=backwards, said="rows are in reverse order")
