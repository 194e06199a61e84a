"""The rotary matrix in each of the forms that the paper gives it.

The shapes throughout: x (count, head_dim); positions (count,); inv_freq (pairs,), radians per
position; pairs (pairs, 2), the two coordinates that each frequency turns. Coordinates in no pair
pass through. The attention factor A multiplies every turned pair.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ropecli.reference.double_double import DIGITS, DoubleDouble

Number = TypeVar("Number", NDArray[Any], DoubleDouble)


def pairs_of(layout: str, rotary_dim: int, first: int = 0) -> NDArray[np.int64]:
    """The coordinates of each pair: (2i, 2i+1) as in the paper, or (i, i + rotary_dim/2)."""
    if layout == "interleaved":
        return np.array([[first + 2 * i, first + 2 * i + 1] for i in range(rotary_dim // 2)])
    half = rotary_dim // 2
    return np.array([[first + i, first + half + i] for i in range(half)])


def cos_sin(positions: NDArray[Any], inv_freq: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """cos and sin of m theta_i, (count, pairs) mpmath numbers, right to DIGITS digits.

    Of points (count, axes) and frequencies (axes, pairs), the angle is the sum over the axes.
    """
    points, columns = positions.reshape(len(positions), -1), np.atleast_2d(inv_freq).T
    points, columns = (array.astype(np.float64).tolist() for array in (points, columns))
    with mp.workdps(DIGITS):
        turns = [[mp.cos_sin(mp.fdot(m, theta)) for theta in columns] for m in points]
    table = np.empty((len(points), len(columns), 2), dtype=object)
    for n, row in enumerate(turns):
        for i, (cosine, sine) in enumerate(row):
            table[n, i] = cosine, sine
    return table[..., 0], table[..., 1]


def elementwise(
    x: NDArray[np.float64],
    cosine: NDArray[Any],
    sine: NDArray[Any],
    pairs: NDArray[np.int64],
    attention_factor: float = 1.0,
) -> NDArray[Any]:
    """R_m x by RoFormer Eq. 34, in DIGITS digits: (count, head_dim) mpmath numbers."""
    with mp.workdps(DIGITS):
        out: NDArray[Any] = np.vectorize(mpf, otypes=[object])(x)
        turned = turn(x, cosine, sine, pairs, attention_factor)
        out[:, pairs[:, 0]], out[:, pairs[:, 1]] = turned
    return out


def turn(
    x: NDArray[np.float64],
    cosine: Number,
    sine: Number,
    pairs: NDArray[np.int64],
    attention_factor: float = 1.0,
) -> tuple[Number, Number]:
    """The first and the second coordinates of the pairs of R_m x, Eq. 34, (count, pairs) each.

    In the arithmetic of cosine and sine: mpmath numbers or a DoubleDouble.
    """
    a, b = x[:, pairs[:, 0]], x[:, pairs[:, 1]]
    first = (cosine * a - sine * b) * attention_factor
    return first, (sine * a + cosine * b) * attention_factor


def matrix(
    cosine: NDArray[Any],
    sine: NDArray[Any],
    pairs: NDArray[np.int64],
    head_dim: int,
    attention_factor: float = 1.0,
) -> NDArray[np.float64]:
    """R_m itself, Eq. 15, for one position: cosine and sine (pairs,); (head_dim, head_dim) float64.

    The entries are as right as cosine and sine, and rounded once more by the attention factor.
    """
    rotary: NDArray[np.float64] = np.eye(head_dim)
    first, second = pairs.T
    rotary[first, first] = rotary[second, second] = cosine.astype(np.float64) * attention_factor
    rotary[second, first] = sine.astype(np.float64) * attention_factor
    rotary[first, second] = -rotary[second, first]
    return rotary


def as_complex(
    x: NDArray[np.float64],
    cosine: NDArray[Any],
    sine: NDArray[Any],
    pairs: NDArray[np.int64],
    attention_factor: float = 1.0,
) -> NDArray[np.float64]:
    """R_m x by Eq. 12, each pair a complex number times A e^{i m theta}; float64."""
    out = x.copy()
    factor = (cosine.astype(np.float64) + 1j * sine.astype(np.float64)) * attention_factor
    turned = (x[:, pairs[:, 0]] + 1j * x[:, pairs[:, 1]]) * factor
    out[:, pairs[:, 0]] = turned.real
    out[:, pairs[:, 1]] = turned.imag
    return out


def planar(
    pair: NDArray[np.float64],
    cosine: NDArray[np.float64] | float,
    sine: NDArray[np.float64] | float,
    attention_factor: float = 1.0,
) -> NDArray[np.float64]:
    """One pair by the 2 x 2 matrix of Eq. 13, (2,) float64; or several, (2, count)."""
    return np.array(
        [
            attention_factor * (cosine * pair[0] - sine * pair[1]),
            attention_factor * (sine * pair[0] + cosine * pair[1]),
        ]
    )
