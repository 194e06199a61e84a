"""Accuracy of one rotation in each dtype, from which every tolerance is built.

A pair of length |pair|, turned by the angle m theta and stretched by A, may be off by

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.units import LEAST_EXPONENT, SIGNIFICAND_BITS, SINGLE, UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

ANGLE = 1.2e-16  #: Phase error per radian of angle; 2^-53 with room for the float64 arithmetic.


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
