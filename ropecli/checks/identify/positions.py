"""Positions that vectors may be rotated by, if not by 0, 1, 2, ... or as given.

Rows that are not rotated begin the sequence (registers, padding), its other rows are those of a
grid, each sequence begins elsewhere, or coordinates are divided by the size of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.identify.lines import phasors
from ropecli.checks.identify.observe import ROUNDINGS, Inputs, observe
from ropecli.checks.identify.pairing import find_pairs
from ropecli.names import join

_MOST_ROWS = 4096  #: Rows of a grid that is looked for.
_MOST_STILL = 64  #: Rows that are looked at for rotation, at the beginning.
_MOST_SEQUENCES = 8  #: Sequences that are recovered alone.
_ALIKE = 0.99  #: Mean of unit vectors, at least, if all of them are one up to rounding.


class Positions(NamedTuple):
    """Positions that were not given, and what they are."""

    values: Array  #: As `rotate` takes them.
    axes: int  #: Coordinates of a position.
    words: str  #: Such as "a grid of 12 rows and 16 columns".


#: Recovers positions of vectors by themselves; None if they are not rotated by any.
Recover = Callable[[Inputs], Array | None]


def guess_positions(inputs: Inputs, recover: Recover) -> Iterator[Positions]:
    """Yield positions that vectors may be rotated by."""
    rows = inputs.before.shape[-2]
    if inputs.known:
        if inputs.axes > 1 and not inputs.by_batch:
            yield from _normalise(inputs.positions, 0, "those given")
        return
    still = _count_still_rows(inputs)
    for first in sorted({0, still - 1, still} & set(range(rows - 1))):
        before = "" if first == 0 else f"{_rows(first)}, then "
        if first:
            yield Positions(np.maximum(np.arange(rows) - first, 0.0), 1, f"{before}0, 1, 2, ...")
        columns = _count_columns(inputs, first)
        if columns is not None:
            grid = np.stack(np.divmod(np.arange(float(rows - first)), columns), axis=-1)
            words = f"{before}a grid of {(rows - first) // columns} rows and {columns} columns"
            grid = np.concatenate([np.zeros((first, 2)), grid])
            yield Positions(grid, 2, words)
            yield from _normalise(grid, first, words)
    yield from _of_each_sequence(inputs, recover)


def _rows(count: int) -> str:
    return "row 0 at 0" if count == 1 else f"rows 0 to {count - 1} at 0"


def _normalise(positions: Array, first: int, words: str) -> Iterator[Positions]:
    """Yield points of a grid in coordinates of vision models; the first rows are at 0."""
    size = positions[first:].max(axis=0) + 1
    centred, divided = (2 * positions + 1) / size - 1, positions / size
    centred[:first] = divided[:first] = 0
    axes = positions.shape[1]
    yield Positions(centred, axes, f"{words}, from -1 to 1 on each axis")
    yield Positions(divided, axes, f"{words}, from 0 to 1 on each axis")


def _count_still_rows(inputs: Inputs) -> int:
    """Return the number of rows at the beginning that are not rotated."""
    x, y = (
        array[..., :_MOST_STILL, :].astype(np.float64) for array in (inputs.before, inputs.after)
    )
    size = np.abs(x).max(axis=-1, keepdims=True)
    rows = (np.abs(y - x) > ROUNDINGS * inputs.unit * size).any(axis=-1)
    return int(rows.reshape(-1, rows.shape[-1]).any(axis=0).argmax())


def _count_columns(inputs: Inputs, first: int) -> int | None:
    """Return the number of columns if rows from the first on are those of a grid, in its order.

    One row of a grid further, each pair has turned by the same angle, as it has not one column
    further, where a row ends.
    """
    rows = inputs.before.shape[-2] - first
    if rows > _MOST_ROWS or inputs.before.shape[-2] < 2:
        return None
    part = replace(
        inputs,
        before=inputs.before[..., first:, :],
        after=inputs.after[..., first:, :],
        positions=inputs.positions[first:],
    )
    observed = observe(part)
    if len(observed.positions) < rows:
        return None  # rows of zeros
    pairing = find_pairs(observed)
    if not len(pairing.read):
        return None
    turned = phasors(observed, pairing.read, pairing.written, pairing.factor).rotated
    turned = turned / np.abs(turned)
    for columns in range(2, rows // 2 + 1):
        if rows % columns == 0:
            step = turned[columns:] * turned[:-columns].conj()
            if (np.abs(step.mean(axis=0)) > _ALIKE).all():
                return columns
    return None


def _of_each_sequence(inputs: Inputs, recover: Recover) -> Iterator[Positions]:
    """Yield the positions of a batch whose sequences are rotated each by its own."""
    if inputs.before.ndim < 3 or not 1 < len(inputs.before) <= _MOST_SEQUENCES:
        return
    by_sequence = []
    for before, after in zip(inputs.before, inputs.after, strict=True):
        one = recover(replace(inputs, before=before, after=after))
        if one is None:
            return
        by_sequence.append(one)
    spans = [
        f"{first:,.7g} to {last:,.7g}" for first, last in (one[[0, -1]] for one in by_sequence)
    ]
    yield Positions(np.stack(by_sequence), 1, f"of each sequence by itself: {join(spans)}")
