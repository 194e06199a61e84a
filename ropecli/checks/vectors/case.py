"""One case of golden vectors, and its numbers: exact in 40 digits, then rounded once to a dtype.

The frequencies and factors of a case are rounded to float64 first and taken as given from there
on: whoever reads them from a file has what its output was computed from.

A rotation takes few operations in 40 digits: cos and sin are cut into two pieces each, whose
products with a coordinate of eight binary digits are exact in float64. What the pieces leave over
is bounded, and wherever it could change the rounding, 40 digits decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.reference.double_double import DIGITS
from ropecli.reference.rotation import cos_sin
from ropecli.results import Result
from ropecli.units import LEAST_EXPONENT, SIGNIFICAND_BITS

#: Roundings of one coordinate in the arithmetic of a dtype, each by at most its unit roundoff:
#: cos and sin right to an ulp 2, the attention factor 1 and its product 1, the two products 1,
#: the sum 1, the stored output 1, and 1 for the products of these errors.
ROUNDINGS = 8
#: In xPos, the exponential right to an ulp 2, and its product 1.
GROWING_ROUNDINGS = ROUNDINGS + 3
#: How far the positions of each further axis are moved along, so that all axes differ in a row.
_AXIS_STEP = 3
_UNIT_OF_X = 2.0**-5  #: Coordinates are whole multiples of it,
_MOST_OF_X = 255  #: at most this many: eight binary digits.
_PIECE = 44  #: Binary digits of a piece, so that with eight of x and a sum 53 are enough.
_EXTREME = 900  #: Powers of two beyond which pieces of a float64 would not be exact.


@dataclass(frozen=True, kw_only=True, eq=False)
class Case(Result, view="vectors.CASE"):
    """One case: a rotation, or queries and keys of your own case."""

    name: str  #: Also the name of its files.
    kind: str  #: "rotation" or "qk".
    facts: Mapping[str, Any] = field(repr=False)  #: All but the arrays.
    arrays: Mapping[str, NDArray[Any]] = field(repr=False)  #: x, y.float64, q.float32, ... by name.


def sample(random: np.random.Generator, shape: Sequence[int]) -> Array:
    """Return random vectors that every dtype holds exactly."""
    return np.asarray(random.integers(-_MOST_OF_X, _MOST_OF_X + 1, shape) * _UNIT_OF_X, np.float64)


def stagger(along: NDArray[np.int64], axes: int) -> NDArray[np.int64]:
    """Return positions (length,), or points (length, axes) whose coordinates all differ."""
    if axes == 1:
        return along
    return np.stack([np.roll(along, _AXIS_STEP * axis) for axis in range(axes)], axis=-1)


def round_to(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Round mpmath numbers once to the nearest of a dtype, ties to even."""
    with mp.workdps(DIGITS):
        nearest = [
            _nearest(value, SIGNIFICAND_BITS[dtype], LEAST_EXPONENT[dtype])
            for value in values.ravel()
        ]
    out: NDArray[Any] = np.array(nearest, dtype=np.float64).reshape(values.shape)
    return out.astype(DTYPES[dtype])


def _nearest(value: mpf, digits: int, least: int) -> float:
    """Round to a number of binary digits, or to a multiple of 2^least where that is coarser."""
    if not value:
        return 0.0
    step = max(int(mp.mag(value)) - digits, least)
    return float(mp.ldexp(mp.nint(mp.ldexp(value, -step)), step))


def by_axis(inv_freq: Array, facts: Mapping[str, Any]) -> Array:
    """Return a row of frequencies for each axis, where a case lists the axis of each pair."""
    if facts["axis"] is None:
        return inv_freq
    axes = range(max(facts["axis"]) + 1)
    return np.array([np.where(np.equal(facts["axis"], axis), inv_freq, 0.0) for axis in axes])


@dataclass(frozen=True, kw_only=True, eq=False)
class Turns:
    """cos and sin of every row and pair, times a factor: in 40 digits, and in pieces.

    cos is `cosine[0] + cosine[1]` but for at most 2^(exponent - 2 _PIECE - 1), and so is sin.
    """

    exact: tuple[NDArray[Any], NDArray[Any]]  #: cos and sin, each (sequence, pairs).
    cosine: tuple[Array, Array]  #: Multiples of 2^(exponent - _PIECE), and what is left.
    sine: tuple[Array, Array]
    exponent: NDArray[np.int64]  #: cos and sin are at most 2^exponent, (sequence, pairs).

    @classmethod
    def of(cls, cosine: NDArray[Any], sine: NDArray[Any]) -> Turns:
        """Cut cos and sin, each (sequence, pairs) mpmath numbers."""
        with mp.workdps(DIGITS):
            largest = np.maximum(np.abs(cosine), np.abs(sine))
            exponent = np.vectorize(mp.mag, otypes=[np.int64])(largest)
            usable = np.clip(exponent, -_EXTREME, _EXTREME)
            shift = (2 * _PIECE - usable).astype(object)
            pieces = []
            for table in (cosine, sine):
                usual = np.where(exponent == usable, table, mpf(0))  # the others have no pieces
                scaled = np.vectorize(mp.ldexp, otypes=[object])(usual, shift)
                to_integers = np.vectorize(lambda value: int(mp.nint(value)), otypes=[object])(
                    scaled
                )
                high = (to_integers + (1 << (_PIECE - 1))) >> _PIECE
                low = to_integers - (high << _PIECE)
                pieces.append(
                    (
                        np.ldexp(high.astype(np.float64), usable - _PIECE),
                        np.ldexp(low.astype(np.float64), usable - 2 * _PIECE),
                    )
                )
        return cls(exact=(cosine, sine), cosine=pieces[0], sine=pieces[1], exponent=exponent)

    @classmethod
    def of_case(
        cls, positions: Array, inv_freq: Array, facts: Mapping[str, Any], *, growth: int = 1
    ) -> Turns:
        """Compute the cos and sin of a case, times its attention factor and growth."""
        sign = -1 if facts["direction"] == "reversed" else 1
        tables = cos_sin(positions, by_axis(sign * inv_freq, facts))
        with mp.workdps(DIGITS):
            factor: Any = mpf(facts["attention_factor"])
            if facts["growth"] is not None and growth:
                rates = [mpf(growth * rate) for rate in facts["growth"]]
                grown = [[mp.exp(mpf(float(m)) * rate) for rate in rates] for m in positions]
                factor = factor * np.array(grown, dtype=object)
            return cls.of(*(table * factor for table in tables))


def rotate_heads(
    x: Array,
    turns: Sequence[Turns],
    pairs_in: NDArray[np.int64],
    pairs_out: NDArray[np.int64],
    dtypes: Sequence[str],
) -> dict[str, NDArray[Any]]:
    """Return R_m x, (batch, heads, length, head_dim), rounded once to each dtype.

    Turns are those of each batch, or of all.
    """
    out = {dtype: np.empty(x.shape, DTYPES[dtype]) for dtype in dtypes}
    for batch, head in np.ndindex(x.shape[:2]):
        turn = turns[batch % len(turns)]
        for dtype, rotated in _rotate(x[batch, head], turn, pairs_in, pairs_out, dtypes).items():
            out[dtype][batch, head] = rotated
    return out


def _rotate(
    x: Array,
    turns: Turns,
    pairs_in: NDArray[np.int64],
    pairs_out: NDArray[np.int64],
    dtypes: Sequence[str],
) -> dict[str, NDArray[Any]]:
    out = {dtype: x.astype(DTYPES[dtype]) for dtype in dtypes}
    a, b = x[:, pairs_in[:, 0]], x[:, pairs_in[:, 1]]
    extreme = np.abs(turns.exponent) > _EXTREME
    # 2^4 for each of two coordinates, times the 2^-1 of `Turns`, and one binary digit to spare.
    margin = np.ldexp(1.0, np.clip(turns.exponent, -_EXTREME, _EXTREME) - 2 * _PIECE + 5)
    cosine, sine = turns.exact
    products = (
        (turns.cosine, turns.sine, -1, (cosine, -sine)),
        (turns.sine, turns.cosine, 1, (sine, cosine)),
    )
    for column, (of_a, of_b, sign, exact) in enumerate(products):
        high, low = (a * p + sign * (b * q) for p, q in zip(of_a, of_b, strict=True))
        for dtype in dtypes:
            digits, smallest = SIGNIFICAND_BITS[dtype], LEAST_EXPONENT[dtype]
            least = _round_sum(high, low - margin, dtype)
            most = _round_sum(high, low + margin, dtype)
            for row, pair in np.argwhere((least != most) | extreme):
                with mp.workdps(DIGITS):
                    value = a[row, pair] * exact[0][row, pair] + b[row, pair] * exact[1][row, pair]
                    most[row, pair] = _nearest(value, digits, smallest)
            with np.errstate(over="ignore"):
                out[dtype][:, pairs_out[:, column]] = most
    return out


def _round_sum(high: Array, low: Array, dtype: str) -> Array:
    """Round the exact sum of two float64 numbers once to the nearest of a dtype, ties to even."""
    total = high + low
    if dtype == "float64":
        return total
    # Rounded to odd, float64 keeps on which side of a tie the exact sum is (Boldo and Melquiond).
    virtual = total - high
    left = (high - (total - virtual)) + (low - virtual)
    even = (total.view(np.int64) & 1) == 0
    odd = np.where((left != 0) & even, np.nextafter(total, np.copysign(np.inf, left)), total)
    exponent = np.frexp(odd)[1]
    step = np.maximum(exponent - SIGNIFICAND_BITS[dtype], LEAST_EXPONENT[dtype])
    # Adding 0 makes a zero positive, as `_nearest` does.
    return np.asarray(np.ldexp(np.rint(np.ldexp(odd, -step)), step) + 0.0)
