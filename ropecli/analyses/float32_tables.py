"""Errors of angles whose tables are float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ropecli.arrays import Array
    from ropecli.rotary import Rotary


def float32_error(rope: Rotary, furthest: float) -> float:
    """Return the largest error of an angle, in radians, where frequencies and angles are float32.

    A frequency rounds by half an ulp, which the position multiplies; the angle rounds by half an
    ulp again. What a library's own power function adds is not counted.
    """
    theta = np.abs(rope.diagonal_inv_freq)
    angle = furthest * theta
    # A frequency such as 1 is exact, and so are its products with positions below 2^24.
    inexact = (theta.astype(np.float32) != theta) | (furthest >= 2**24)
    return float(((furthest * _half_ulp(theta) + _half_ulp(angle)) * inexact).max())


def _half_ulp(values: Array) -> Array:
    return np.asarray(np.spacing(values.astype(np.float32)).astype(np.float64) / 2)
