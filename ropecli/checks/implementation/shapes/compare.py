"""Rows of one array of a call, compared with those expected, in blocks that a cache holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.implementation.call import ScaledRequest, known_dtype, to_float64
from ropecli.checks.implementation.oracle import Oracle, Truth, truth_of

ROWS = 256  #: Rows that are computed at once,
NUMBERS = 2**16  #: and numbers that are compared at once.
SMALLEST = 5e-324  #: Tolerance of rows that must not change.
SAMPLED = 24  #: Wrong rows of a block of which the error is kept.


@dataclass(kw_only=True, eq=False)
class Comparison:
    """Errors of the rows of an array."""

    wrong: NDArray[np.bool_]  #: (batch, heads, length), whether a row is.
    ratio: float = -1.0  #: Largest error over its tolerance; infinite where a row is not finite.
    error: float = 0.0  #: That error,
    tolerance: float = 0.0  #: and that tolerance.
    #: Errors of wrong rows, over their largest number.
    relative: list[float] = field(default_factory=list)
    #: Of the first wrong row that is met: sequence, head, row, coordinate; got, expected.
    first: tuple[tuple[int, int, int, int], float, float] | None = None

    def add(self, index: tuple[slice, slice, slice], got: Array, rows: Array, tol: Array) -> None:
        """Compare a block."""
        error = np.abs(got - rows)
        ratio = error / tol
        if ratio.max() <= min(1.0, self.ratio):
            return
        ratio[np.isnan(ratio)] = np.inf
        worst = np.unravel_index(int(ratio.argmax()), ratio.shape)
        if ratio[worst] > self.ratio:
            self.ratio, self.error = float(ratio[worst]), float(error[worst])
            self.tolerance = float(np.broadcast_to(tol, ratio.shape)[worst])
        wrong = np.asarray((ratio > 1).any(axis=-1))
        if not wrong.any():
            return
        self.wrong[index] = wrong
        largest = np.broadcast_to(np.abs(rows).max(axis=-1), wrong.shape)
        relative = error.max(axis=-1)[wrong] / largest[wrong]
        self.relative += relative[:: 1 + len(relative) // SAMPLED].tolist()
        if self.first is None:
            b, h, row = (int(each[0]) for each in np.nonzero(wrong))
            j = int((ratio[b, h, row] > 1).argmax())
            place = tuple(i + part.start for i, part in zip((b, h, row), index, strict=True))
            expected = rows[b if len(rows) > 1 else 0, 0, row, j]
            self.first = (*place, j), float(got[b, h, row, j]), float(expected)


def compare(
    oracles: Sequence[Oracle], request: ScaledRequest, base: Array, result: NDArray[Any]
) -> Comparison:
    """Compare the rows of a result with those of `base`, the vectors of a request in float64."""
    found = Comparison(wrong=np.zeros(result.shape[:3], dtype=bool))
    dtype = known_dtype(request.rows)
    for sequences, rows in _blocks(request, result.shape[0], result.shape[2]):
        places = request.by_sequence[sequences]
        places = places[:, rows]
        count, length = places.shape[:2]
        x = base.take(range(rows.start, rows.start + length), axis=0, mode="wrap")
        x = np.broadcast_to(x, (count, *x.shape))
        flat = places.reshape(count * length, *places.shape[2:]).astype(np.float64)
        given = x.reshape(len(flat), -1)
        if oracles:
            those = oracles[sequences] if len(oracles) > 1 else oracles
            truth = truth_of(those, given, flat, dtype, transposed=request.gradient)
        else:
            truth = Truth(rows=given, tolerance=np.full(given.shape, SMALLEST))
        expected, tolerance = (
            each.reshape(count, 1, length, -1) for each in (truth.rows, truth.tolerance)
        )
        whole = result[sequences, :, rows]
        together = max(1, NUMBERS // max(1, whole[:, 0].size))
        for head in range(0, whole.shape[1], together):
            heads = slice(head, min(head + together, whole.shape[1]))
            got = to_float64(whole[:, heads]) / request.scales[sequences, heads, None, None]
            found.add((sequences, heads, rows), got, expected, tolerance)
    return found


def _blocks(request: ScaledRequest, batch: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Yield sequences and rows of a call that are computed together."""
    together = max(1, ROWS // length) if request.per_sequence else batch
    for sequence in range(0, batch, together):
        for row in range(0, length, ROWS):
            yield slice(sequence, sequence + together), slice(row, row + ROWS)
