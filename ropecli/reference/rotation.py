"""The rotary matrix in each of the forms that the paper gives it.

The shapes throughout: x (count, head_dim); positions (count,); inv_freq (pairs,), radians per
position; pairs (pairs, 2), the two coordinates that each frequency turns. Coordinates in no pair
pass through. The attention factor A multiplies every turned pair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpmath import mp, mpf

if TYPE_CHECKING:
    from numpy.typing import NDArray

DIGITS = 40  #: Decimal digits of cos, sin and everything made from them.


def pairs_of(layout: str, rotary_dim: int, first: int = 0) -> NDArray[np.int64]:
    """The coordinates of each pair: (2i, 2i+1) as in the paper, or (i, i + rotary_dim/2)."""
    if layout == "interleaved":
        return np.array([[first + 2 * i, first + 2 * i + 1] for i in range(rotary_dim // 2)])
    half = rotary_dim // 2
    return np.array([[first + i, first + half + i] for i in range(half)])


def cos_sin(positions: NDArray[Any], inv_freq: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """cos and sin of m theta_i, (count, pairs) mpmath numbers, right to DIGITS digits."""
    with mp.workdps(DIGITS):
        turns = [
            [mp.cos_sin(mpf(float(m)) * mpf(float(theta))) for theta in inv_freq] for m in positions
        ]
    table = np.empty((len(positions), len(inv_freq), 2), dtype=object)
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
        for i, (first, second) in enumerate(pairs):
            a, b = out[:, first].copy(), out[:, second].copy()
            out[:, first] = (a * cosine[:, i] - b * sine[:, i]) * attention_factor
            out[:, second] = (a * sine[:, i] + b * cosine[:, i]) * attention_factor
    return out


def matrix(
    cosine: NDArray[Any],
    sine: NDArray[Any],
    pairs: NDArray[np.int64],
    head_dim: int,
    attention_factor: float = 1.0,
) -> NDArray[np.float64]:
    """R_m itself, Eq. 15, for one position: cosine and sine (pairs,); (head_dim, head_dim) float64.

    The entries are right to half an ulp where the attention factor is 1, else to one ulp.
    """
    rotary: NDArray[np.float64] = np.eye(head_dim)
    for i, (first, second) in enumerate(pairs):
        c, s = float(cosine[i]) * attention_factor, float(sine[i]) * attention_factor
        rotary[first, first], rotary[first, second] = c, -s
        rotary[second, first], rotary[second, second] = s, c
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
    turn = (cosine.astype(np.float64) + 1j * sine.astype(np.float64)) * attention_factor
    turned = (x[:, pairs[:, 0]] + 1j * x[:, pairs[:, 1]]) * turn
    out[:, pairs[:, 0]] = turned.real
    out[:, pairs[:, 1]] = turned.imag
    return out


def planar(
    pair: NDArray[np.float64], cosine: float, sine: float, attention_factor: float = 1.0
) -> NDArray[np.float64]:
    """One pair by the 2 x 2 matrix of Eq. 13: (2,) float64."""
    return np.array(
        [
            attention_factor * (cosine * pair[0] - sine * pair[1]),
            attention_factor * (sine * pair[0] + cosine * pair[1]),
        ]
    )
