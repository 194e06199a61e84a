"""Rows as a rotation makes them, with what each coordinate may be off by.

Every command that judges rows compares them with a `Truth`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.reference import float64


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """Expected rows."""

    rows: Array  #: (..., head_dim).
    tolerance: Array  #: Of each coordinate, (..., head_dim).

    def wrong(self, got: Array) -> NDArray[np.bool_]:
        """Return which coordinates of rows got are off by more than their tolerance, or NaN."""
        return ~(np.abs(got - self.rows) <= self.tolerance)


def rotated(
    x: Array,
    cosine: Array,
    sine: Array,
    *,
    pairs_in: NDArray[np.int64],
    pairs_out: NDArray[np.int64],
    factor: Array | float,
    relative: float,
    phase: Array | float,
    least: float,
) -> Truth:
    """Return R x (RoFormer Eq. 34), with the tolerance of each coordinate.

    A pair that is A|pair| long may be off by (relative + phase) A|pair| + least in each of its
    coordinates; coordinates in no pair are copied, or multiplied by a one that may be rounded.

    Args:
        x: Vectors, (..., head_dim).
        cosine: Of the angle of each pair, (..., pairs).
        sine: As cosine.
        pairs_in: The pairs of coordinates that are read, (pairs, 2).
        pairs_out: Those that are written.
        factor: A, the attention factor, or one of each pair.
        relative: Error of a coordinate over the length of its pair.
        phase: Error of each angle, (..., pairs), radians.
        least: Error of a coordinate whatever its pair is.
    """
    rows = float64.turn(x, cosine, sine, pairs_in=pairs_in, pairs_out=pairs_out, factor=factor)
    tolerance = relative * np.abs(rows) + least
    first, second = float64.columns(pairs_in)
    length = factor * np.hypot(x[..., first], x[..., second])
    for column in float64.columns(pairs_out):
        tolerance[..., column] = (relative + phase) * length + least
    return Truth(rows=rows, tolerance=tolerance)
