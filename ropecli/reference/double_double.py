"""Numbers of about 31 digits as pairs of float64, a whole array at a time.

A number is high + low with |low| <= u |high|, u = 2^-53. The sum and the product of two float64
numbers split exactly into their rounded value and its error (Knuth, TAOCP 2, 4.2.2; Dekker 1971).
An operation here rounds by at most 15 u^2 of its result: a sum by some 3 u^2 (Joldes, Muller and
Popescu 2017, doi:10.1145/3121432, Algorithm 6), a product by low low, which is left out, and by
four roundings of numbers of 3 u at most. That is so where nothing overflows, or is so small that
2^-106 of it is not a float64 number.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath import mp
from numpy.typing import NDArray

Array = NDArray[np.float64]

DIGITS = 40  #: Decimal digits of mpmath numbers: cos, sin and everything made from them.

#: Error of a cosine or sine of `cos_sin`, absolute; 29 digits. Each of 15 terms, below 1, rounds by
#: 30 u^2 at most, and pi / 2 with its 163 bits is taken up to 2^50 times.
ERROR = 2.0**-96
LARGEST_ANGLE = 2.0**50  #: In radians; beyond it, pi / 2 has too few digits here.


class DoubleDouble:
    """An array of numbers high + low, with arithmetic of its own kind and of float64 arrays."""

    __array_ufunc__ = None  # float64 array * DoubleDouble is left to __rmul__

    def __init__(self, high: Array, low: Array | None = None) -> None:
        self.high = high  #: The number rounded to float64.
        self.low = np.zeros_like(high) if low is None else low  #: The remainder.

    def __getitem__(self, index: Any) -> DoubleDouble:
        return DoubleDouble(self.high[index], self.low[index])

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.high, -self.low)

    def __add__(self, other: DoubleDouble | Array | float) -> DoubleDouble:
        other = _double(other)
        high, error = two_sum(self.high, other.high)
        low, rest = two_sum(self.low, other.low)
        high, error = _fast_two_sum(high, error + low)
        return DoubleDouble(*_fast_two_sum(high, error + rest))

    __radd__ = __add__

    def __sub__(self, other: DoubleDouble | Array | float) -> DoubleDouble:
        return self + -_double(other)

    def __rsub__(self, other: Array | float) -> DoubleDouble:
        return -self + other

    def __mul__(self, other: DoubleDouble | Array | float) -> DoubleDouble:
        other = _double(other)
        high, error = two_product(self.high, other.high)
        cross = self.high * other.low + self.low * other.high
        return DoubleDouble(*_fast_two_sum(high, error + cross))

    __rmul__ = __mul__

    def reshape(self, *shape: int) -> DoubleDouble:
        """Return the numbers in another shape."""
        return DoubleDouble(self.high.reshape(shape), self.low.reshape(shape))

    def sqrt(self) -> DoubleDouble:
        """Return square roots, by a step of Newton's from those of float64."""
        root = np.sqrt(self.high)
        square = DoubleDouble(*two_product(root, root))
        twice = np.where(root > 0, 2 * root, 1.0)
        return DoubleDouble(*_fast_two_sum(root, (self - square).high / twice))

    def max(self) -> DoubleDouble:
        """Return the largest numbers along the last axis."""
        high = self.high.max(axis=-1)
        low = np.where(self.high == high[..., None], self.low, -np.inf).max(axis=-1)
        return DoubleDouble(high, low)

    def cumsum(self) -> DoubleDouble:
        """Return the running sums along the last axis."""
        sums = [self[..., 0]]
        for i in range(1, self.high.shape[-1]):
            sums.append(sums[-1] + self[..., i])
        high = np.stack([total.high for total in sums], axis=-1)
        return DoubleDouble(high, np.stack([total.low for total in sums], axis=-1))

    def sum(self) -> DoubleDouble:
        """Return the sums along the last axis."""
        return self.cumsum()[..., -1]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error; they add up to a + b exactly."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded product and its error; they add up to a b exactly."""
    product = np.multiply(a, b)
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def cos_sin(positions: Array, inv_freq: Array) -> tuple[DoubleDouble, DoubleDouble]:
    """Return cos and sin of m theta_i, (count, pairs), within ERROR; the angle is not rounded."""
    angle = DoubleDouble(*two_product(positions[:, None], inv_freq[None]))
    quarters = np.rint(angle.high / (math.pi / 2))
    for part in QUARTER_TURN:
        angle = angle - DoubleDouble(*two_product(quarters, np.array(part)))
    square = angle * angle
    cosine, sine = _series(square, EVEN), _series(square, ODD) * angle
    quarter = np.mod(quarters, 4)
    swapped = quarter % 2 == 1
    return (
        _choose(swapped, sine, cosine) * np.where((quarter == 1) | (quarter == 2), -1.0, 1.0),
        _choose(swapped, cosine, sine) * np.where(quarter >= 2, -1.0, 1.0),
    )


#: pi / 2 = 1.5707..., cut into three numbers of 53 bits: together right to 2^-161.
QUARTER_TURN = (
    float.fromhex("0x1.921fb54442d18p+0"),
    float.fromhex("0x1.1a62633145c07p-54"),
    float.fromhex("-0x1.f1976b7ed8fbcp-110"),
)


def _terms(first: int) -> list[DoubleDouble]:
    """Return (-1)^k / (first + 2k)!, the last one first.

    Reduced angles are at most 1, where the remainder is below 2^-107.
    """
    terms = []
    for k in reversed(range(15)):
        exact = Fraction((-1) ** k, math.factorial(first + 2 * k))
        low = exact - Fraction(float(exact))
        terms.append(DoubleDouble(np.array(float(exact)), np.array(float(low))))
    return terms


EVEN, ODD = _terms(0), _terms(1)


def _series(square: DoubleDouble, terms: list[DoubleDouble]) -> DoubleDouble:
    """Evaluate a polynomial by Horner's rule, its highest term first."""
    total = DoubleDouble(np.zeros_like(square.high))
    for term in terms:
        total = total * square + term
    return total


def _choose(where: NDArray[np.bool_], yes: DoubleDouble, no: DoubleDouble) -> DoubleDouble:
    return DoubleDouble(np.where(where, yes.high, no.high), np.where(where, yes.low, no.low))


def double_double(numbers: NDArray[Any]) -> DoubleDouble:
    """Round mpmath numbers."""
    high = numbers.astype(np.float64)
    with mp.workdps(DIGITS):
        return DoubleDouble(high, (numbers - high).astype(np.float64))


def _double(number: DoubleDouble | Array | float) -> DoubleDouble:
    return (
        number
        if isinstance(number, DoubleDouble)
        else DoubleDouble(np.asarray(number, dtype=np.float64))
    )


def _fast_two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return `two_sum` where |a| >= |b|."""
    total = a + b
    return total, b - (total - a)


def _split(a: Array) -> tuple[Array, Array]:
    """Return two numbers of 26 bits, whose products are exact."""
    large = (2.0**27 + 1) * a
    high = large - (large - a)
    return high, a - high
