"""Which row goes where within a head."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.numbers import even

LAYOUTS = ("interleaved", "half")


def other(layout: str) -> str:
    """The layout that rows come from, given the one that they go to.

    Raises:
        ArgumentError: Not a layout.
    """
    if layout not in LAYOUTS:
        msg = f"layout must be {' or '.join(LAYOUTS)}, got {layout!r}"
        raise ArgumentError(msg)
    return LAYOUTS[1 - LAYOUTS.index(layout)]


def old_rows(
    head_dim: int, *, to: str, rotary_dim: int | None = None, rotary_offset: int = 0
) -> NDArray[np.int64]:
    """The row of a head, as it is, that each of its rows is to be: new = old[rows].

    Pair i is rows (2i, 2i + 1) interleaved and rows (i, i + rotary_dim/2) in halves, from
    rotary_offset on; rows that are not rotated stay.

    Raises:
        ArgumentError: Sizes that don't fit, or no layout.
    """
    head_dim = even("head dim", head_dim)
    rotary_dim = head_dim if rotary_dim is None else even("rotary dim", rotary_dim)
    if rotary_offset < 0 or rotary_offset + rotary_dim > head_dim:
        msg = (
            f"the rotated rows must lie within a head of {head_dim}, "
            f"got {rotary_dim} from row {rotary_offset}"
        )
        raise ArgumentError(msg)
    other(to)
    pairs = np.arange(rotary_dim).reshape(-1, 2)
    taken = pairs.T if to == "half" else pairs.reshape(2, -1).T
    rows = np.arange(head_dim)
    rows[rotary_offset : rotary_offset + rotary_dim] = rotary_offset + taken.ravel()
    return rows
