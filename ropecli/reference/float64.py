"""Rotation in float64: quick enough for every row of an implementation or of a file.

A pair of length |pair|, rotated by the angle m theta and multiplied by A, is within
(|m theta| + 5) u A|pair| of the exact one, u = 2^-53: the angle is rounded once (u |m theta|), cos
and sin are right to an ulp each (sqrt 2 u), the complex product rounds by sqrt 5 u and the factor
by u. `reference.rotation` has the same in 40 digits.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def angles(
    positions: NDArray[Any],
    inv_freq: Array,
    *,
    direction: str = "forward",
) -> Array:
    """Return m theta of each position and pair, (..., pairs), radians.

    With a row of inv_freq for each axis, positions have their coordinates last, and the angle is
    the sum over the axes.
    """
    signed = inv_freq * (1 if direction == "forward" else -1)
    if inv_freq.ndim == 1:
        return np.asarray(positions[..., None] * signed)
    return np.asarray(np.einsum("...a,ap->...p", positions, signed))


def rotate(
    x: NDArray[Any],
    angles: Array,
    *,
    pairs_in: NDArray[np.int64],
    pairs_out: NDArray[np.int64],
    factor: Array | float = 1.0,
) -> Array:
    """Return R x: each pair of coordinates as a complex number times A e^{i angle} (Eq. 12, 34)."""
    return turn(
        x,
        np.cos(angles),
        np.sin(angles),
        pairs_in=pairs_in,
        pairs_out=pairs_out,
        factor=factor,
    )


def turn(
    x: NDArray[Any],
    cosine: Array,
    sine: Array,
    *,
    pairs_in: NDArray[np.int64],
    pairs_out: NDArray[np.int64],
    factor: Array | float = 1.0,
) -> Array:
    """Return R x as `rotate` does, by the cosine and the sine of each angle."""
    rows: Array = x.astype(np.float64)
    first, second = columns(pairs_in)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    first, second = columns(pairs_out)
    rows[..., first] = factor * (a * cosine - b * sine)
    rows[..., second] = factor * (a * sine + b * cosine)
    return rows


def columns(pairs: NDArray[np.int64]) -> list[NDArray[np.int64] | slice]:
    """Return the first and the second coordinates of pairs (pairs, 2), as indices of an axis.

    Those at equal distances, as in both layouts, are a slice, which NumPy reads several times as
    fast as a list.
    """
    return _columns(pairs.tobytes(), len(pairs))


@functools.lru_cache(maxsize=64)
def _columns(pairs: bytes, count: int) -> list[NDArray[np.int64] | slice]:
    indices: list[NDArray[np.int64] | slice] = []
    for members in np.frombuffer(pairs, dtype=np.int64).reshape(count, 2).T:
        steps = np.diff(members)
        regular = len(steps) > 0 and steps[0] > 0 and bool((steps == steps[0]).all())
        indices.append(
            slice(int(members[0]), int(members[-1]) + 1, int(steps[0])) if regular else members
        )
    return indices
