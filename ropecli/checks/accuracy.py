"""Accuracy of one rotation in each dtype, from which every tolerance is built.

Our own rotation takes angles in float64. A pair of length |pair|, turned by the angle m theta and
stretched by A, may be off by

    relative * A |pair|  +  ANGLE * |m theta| * A |pair|  +  floor

* float64, relative 7e-16: cos and sin of start and offset, each right to 0.55 ulp (1.7e-16 for
  both), one complex product for angle addition (sqrt 5 u = 2.5e-16, u = 2^-53) and one for the
  rotation (2.5e-16).
* float32, relative 2.5 ulp, an ulp being at most 2^-23 of the value: cos and sin rounded to
  float32 (half an ulp each), two products and a sum.
* float16 and bfloat16: 0.51 ulp of A |pair| in each of two coordinates, half an ulp for the one
  rounding and 0.01 for the float32 arithmetic before it. An ulp is at most 2^-10 and 2^-7.
* ANGLE: m * theta is rounded to float64, which turns the pair by up to 2^-53 |m theta| too much.
  This part turns a pair and does not stretch it, nor move two vectors at one position apart.
* floor: a few of the smallest subnormals, for results that the dtype can't hold.

Other code makes tables of angles in float32. Its angle m theta_i, theta_i = base^(-2i/d), may be
off by `angle_roundings` times u = 2^-24 of itself. There are three ways to compute theta_i:

* A power, 1 / base^(2i/d), as in Transformers and vLLM: the exponent rounds once, which changes
  theta by |ln theta| u; a power right to an ulp is 2, the reciprocal 1.   |ln theta| + 3
* An exponential, exp(-2i ln(base) / d), as in fairseq, or exp2, as in MLX: the logarithm, a
  quotient and a product round once each; an exponential right to an ulp is 2.   3 |ln theta| + 2
* From its neighbour, theta_(i-1) base^(-2/d), as in llama.cpp: the exponent rounds once, in all
  steps together |ln theta| u; a step has the rounding of the ratio, which is one number made in
  float64 as C's powf does inside, and that of its product.   |ln theta| + 2i

All of them round the base (once, of which base^(-2i/d) keeps less), a factor of the frequencies or
positions and its product (2), and the product with m (1). Together they are at most

    7 + |ln theta| + 2 max(|ln theta|, i)

* A frequency of 1 is base^0, exact in each of them. Only the position is left to round: beyond
  2^24, and fractions (`phase_tolerance`).
* A type that mixes theta_i with theta_i / factor by a share that follows from theta_i, as Llama 3's
  does, magnifies all of this by d ln(mixed) / d ln(theta_i): `magnification`. A share that follows
  from i between whole ends n pairs apart is off by u, the sum of both parts at its slow end by
  n u <= 2i u, which the two ways that are not a chain leave unused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.errors import RopecliError
from ropecli.rotary.formula import Formula
from ropecli.rotary.rotary import Rotary
from ropecli.units import LEAST_EXPONENT, SIGNIFICAND_BITS, SINGLE, UNIT

ANGLE = 1.2e-16  #: Phase error per radian of angle; 2^-53 with room for the float64 arithmetic.
_NEARBY = 2.0**-20  #: Relative change of a base by which a derivative is taken.


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """The accuracy promised in one dtype."""

    dtype: str
    ulps: float | None  #: Per coordinate in ulps of A|pair|, where that is what is promised.
    relative: float  #: Of A|pair|, Euclidean over the pair.

    @property
    def floor(self) -> float:
        """Return the absolute tolerance of results too small for the dtype."""
        return 4 * 2.0 ** LEAST_EXPONENT[self.dtype]

    def per_coordinate(self, length: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the tolerance of one coordinate of a pair of length A|pair|, angle apart."""
        if self.ulps is None:
            return self.relative * length + self.floor
        exponent = np.frexp(length)[1] - SIGNIFICAND_BITS[self.dtype]
        ulp = np.ldexp(1.0, np.maximum(exponent, LEAST_EXPONENT[self.dtype]))
        return np.asarray(self.ulps * ulp)


def _rounded_once(dtype: str) -> Accuracy:
    return Accuracy(dtype=dtype, ulps=0.51, relative=0.51 * math.sqrt(2) * 2 * UNIT[dtype])


ACCURACY = {
    "float64": Accuracy(dtype="float64", ulps=None, relative=7e-16),
    "float32": Accuracy(dtype="float32", ulps=2.5, relative=2.5 * 2 * SINGLE),
    "float16": _rounded_once("float16"),
    "bfloat16": _rounded_once("bfloat16"),
}


def angle_roundings(inv_freq: Array, magnified: Array | float = 1.0) -> Array:
    """Return the roundings of each angle, in units of it, however its table was computed."""
    theta = np.abs(inv_freq)
    logarithm = np.abs(np.log(np.where(theta > 0, theta, 1.0)))
    count = 7 + logarithm + 2 * np.maximum(logarithm, np.arange(len(theta)))
    return np.asarray(np.where((theta == 0) | (theta == 1), 0.0, count * magnified))


def magnification(base: float, table_at: Callable[[float], Array]) -> Array:
    """Return by what the formula of a table magnifies errors of the powers in it, at least 1.

    An error of the base reaches theta through its power only: a plain power moves by
    |ln theta| / ln(base) of that error, a mixture by more. The smaller change of two bases, above
    and below, leaves out a jump between them, where an end is rounded to a whole pair.
    """
    below, theta, above = (np.abs(table_at(base * (1 + by))) for by in (-_NEARBY, 0, _NEARBY))
    turning = (below > 0) & (theta > 0) & (above > 0)
    low, logarithm, high = (np.log(np.where(turning, t, 1.0)) for t in (below, theta, above))
    change = np.minimum(np.abs(low - logarithm), np.abs(high - logarithm)) / _NEARBY
    plain = np.abs(logarithm) / max(abs(math.log(base)), _NEARBY)
    return np.asarray(np.maximum(change / np.maximum(plain, _NEARBY), 1.0))


def table_roundings(rope: Rotary) -> Array:
    """Return the roundings of each angle of an encoding, (pairs,)."""
    rows = [formula_roundings(np.array(row), rope.formula) for row in rope.frequencies]
    return np.asarray(np.max(rows, axis=0))


def formula_roundings(table: Array, formula: Formula | None) -> Array:
    """Return the roundings of each angle of a table, and of its formula if it has one."""
    return _formula_roundings(table.tobytes(), formula)


@functools.lru_cache(maxsize=64)
def _formula_roundings(inv_freq: bytes, formula: Formula | None) -> Array:
    table = np.frombuffer(inv_freq)
    if formula is None:
        return angle_roundings(table)
    try:
        per_base = magnification(
            formula["base"], lambda b: formula.replace(base=b).table().inv_freq
        )
    except RopecliError:  # a neighbour of the largest base or of the smallest
        return angle_roundings(table)
    magnified = np.ones(len(table))
    magnified[: len(per_base)] = per_base[: len(table)]
    return angle_roundings(table, magnified)


def phase_tolerance(
    m: Array | float, inv_freq: Array, roundings: Array | float, *, unit: float = SINGLE
) -> Array:
    """Return how far angles of a table may be off, (..., pairs), radians.

    Positions are (..., 1), or points (..., axes) where inv_freq has a row for each axis.
    """
    if inv_freq.ndim > 1:
        along = np.moveaxis(np.asarray(m)[..., None], -2, 0)
        rows = zip(along, inv_freq, strict=True)
        return np.asarray(sum(phase_tolerance(m, row, roundings, unit=unit) for m, row in rows))
    held = m if unit < SINGLE else np.asarray(m).astype(np.float32)
    return np.asarray(np.abs(inv_freq) * (roundings * unit * np.abs(m) + np.abs(held - m)))
