"""Tolerances of a correct implementation against the exact rotation.

A pair of length |pair|, turned by the angle m theta and stretched by A, may be off by

    (rounding + phase) * A |pair|  +  floor

* rounding: cos and sin rounded to the dtype, two products and a sum, and a product by A: six
  roundings of a coordinate at most, 8 u with the two coordinates' share. Under float64 data the
  unit is float32's: tables in float32 are right, as Transformers makes them.
* phase: |m theta| times 2^-24 for each rounding of the angle. The exponent of
  theta = base^(-2i/d) is rounded and magnified by |ln theta|; a power, a scaling and the product
  by m round four times; theta made from its neighbour rounds twice a pair. The first pair's
  theta is often a power of two, as 1 is: then m theta is exact, and nothing is allowed. Beyond
  2^24 float32 does not hold every position: m alone rounds once, and no pair is spared that.
* floor: a few of the smallest subnormals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.accuracy import ACCURACY
from ropecli.units import SINGLE, UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDINGS = 8


def rounding(dtype: str) -> float:
    """Return the tolerance of a coordinate over A|pair|, its angle's error apart."""
    return ROUNDINGS * max(SINGLE, UNIT[dtype])


def floor(dtype: str) -> float:
    """Return the absolute tolerance of results too small for the dtype."""
    return ACCURACY[dtype].floor


def phase(angles: NDArray[np.float64], inv_freq: NDArray[np.float64]) -> NDArray[Any]:
    """Return the tolerance of angles (count, pairs), radians."""
    size, theta = np.abs(angles), np.abs(inv_freq)
    lost = size * _roundings(theta) * SINGLE
    return np.asarray(np.where(size > theta / SINGLE, np.maximum(lost, size * SINGLE), lost))


def _roundings(theta: NDArray[np.float64]) -> NDArray[Any]:
    with np.errstate(divide="ignore"):
        logarithm = np.where(theta > 0, np.abs(np.log(theta)), 0.0)
    count = logarithm + 4 + 2 * np.arange(len(theta))
    if len(theta) and np.frexp(theta[0])[0] == 0.5:
        count[0] = 0
    return np.asarray(count)
