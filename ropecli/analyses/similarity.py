"""Inner products of sinusoidal codes against distance, and their limit for many dims."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.decay import PairSums
from ropecli.arrays import Array
from ropecli.numbers import between
from ropecli.results import Drawable
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope

MOST_DISTANCES = 10**8  #: More are a slip: a column of them takes 0.8 GB.
MOST_CODES = 4096  #: Positions of a heat map; a picture shows no more.
CHUNK = 2**14  #: Values of Ci that are computed at once.
SERIES_END = 2.0  #: Arguments of Ci below it use the power series, the others a fraction.


@dataclass(frozen=True, kw_only=True, eq=False)
class Similarity(Drawable):
    """Inner products of sinusoidal codes with the frequencies of an encoding."""

    rope: Rotary  #: The encoding, whose frequencies the sinusoids have.
    distance: NDArray[np.float64]  #: m - n in positions, 0, 1, ..., (distances,).
    similarity: NDArray[np.float64]  #: p_m.p_n over its value at distance 0, (distances,).
    limit: NDArray[np.float64] | None  #: The same for infinitely many pairs; None if not known.
    codes: NDArray[np.float64]  #: p_m of the first positions, (positions, rotary_dim).
    name: str | None = None  #: Name of the model, if any.

    @property
    def first_negative(self) -> int | None:
        """First distance with a similarity below 0; None if it has none."""
        below = self.similarity < 0
        return int(self.distance[below.argmax()]) if below.any() else None

    @property
    def lowest(self) -> tuple[float, int]:
        """Smallest similarity, and its distance."""
        index = int(self.similarity.argmin())
        return float(self.similarity[index]), int(self.distance[index])

    @property
    def largest_gap(self) -> tuple[float, int] | None:
        """Largest |similarity - limit|, and its distance; None without a limit."""
        if self.limit is None:
            return None
        gap = np.abs(self.similarity - self.limit)
        return float(gap.max()), int(self.distance[gap.argmax()])


def similarity(
    rope: Rotary, *, max_distance: int = 512, positions: int = 128, name: str | None = None
) -> Similarity:
    """Compute (2/d) sum_i cos(r theta_i), the inner product of two sinusoidal codes r apart.

    The code of a position m has sin(m theta_i) and cos(m theta_i) of each pair (Vaswani et al.
    2017, arXiv:1706.03762), so p_m.p_n = sum_i cos((m - n) theta_i). With frequencies b^(-2i/d) its
    limit for large d is [Ci(r) - Ci(r/b)] / ln b, where Ci is the cosine integral. It is also the
    score of RoPE for q = k = (1, ..., 1), over its value at distance 0.

    Args:
        rope: The encoding, whose frequencies are taken; its layout orders sines and cosines.
        max_distance: Last distance, in positions.
        positions: Positions whose codes are returned, from 0, up to 4096.
        name: Name of the model, if any.

    Raises:
        ArgumentError: A number out of range.
        ArgumentTypeError: Not an integer.
    """
    check_rope(rope)
    last = between("max distance", max_distance, 0, MOST_DISTANCES)
    count = between("positions", positions, 1, MOST_CODES)
    theta = rope.diagonal_inv_freq
    sums = PairSums(theta, 0, 1, last + 1).score(np.ones(len(theta)))
    distance = np.arange(last + 1, dtype=np.float64)
    return Similarity(
        rope=rope,
        name=name,
        distance=distance,
        similarity=sums / len(theta),
        limit=_limit(rope, distance),
        codes=_codes(rope, count),
    )


def _limit(rope: Rotary, distance: Array) -> Array | None:
    """Return [Ci(r) - Ci(r/b)] / ln b, 1 at distance 0; None if no base makes the frequencies."""
    base = rope.base
    if base is None or base == 1 or rope.formula is None or not rope.formula.is_plain:
        return None
    away = distance[1:]
    values = (cosine_integral(away) - cosine_integral(away / base)) / math.log(base)
    return np.concatenate([[1.0], values])


def _codes(rope: Rotary, count: int) -> Array:
    angle = np.multiply.outer(np.arange(float(count)), rope.diagonal_inv_freq)
    parts = np.sin(angle), np.cos(angle)
    if rope.layout == "half":
        return np.concatenate(parts, axis=1)
    return np.stack(parts, axis=2).reshape(count, -1)


def cosine_integral(x: Array) -> Array:
    """Return Ci(x) = gamma + ln x + integral from 0 to x of (cos t - 1) / t dt, for x above 0.

    By its power series for small x, and else as the real part of -E1(ix), a continued fraction
    (Abramowitz and Stegun, 5.2.16 and 5.1.22).
    """
    result = np.empty_like(x)
    for begin in range(0, len(x), CHUNK):  # neighbours need about as many terms
        part, out = x[begin : begin + CHUNK], result[begin : begin + CHUNK]
        small = part < SERIES_END
        out[small] = _by_series(part[small])
        out[~small] = _by_fraction(part[~small])
    return result


def _by_series(x: Array) -> Array:
    total, term = np.euler_gamma + np.log(x), np.ones_like(x)
    for k in range(1, 12):  # below 2^24 / (24 * 24!) < 2^-60
        term = -term * x * x / ((2 * k - 1) * (2 * k))
        total = total + term / (2 * k)
    return total


def _by_fraction(x: Array) -> Array:
    """Evaluate 1 / (z + 1 - 1 / (z + 3 - 4 / (z + 5 - ...))) at z = ix by Lentz's method."""
    b: NDArray[Any] = 1 + 1j * x
    d = value = 1 / b
    c = np.full(x.shape, 1e300 + 0j)
    for i in range(1, 200):
        b = b + 2
        d = 1 / (b - i * i * d)
        c = b - i * i / c
        factor = c * d
        value = value * factor
        if not (np.abs(factor - 1) > 2.0**-51).any():
            break
    result: Array = -(value * np.exp(-1j * x)).real
    return result
