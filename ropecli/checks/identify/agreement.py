"""Agreement of a recovered rotation with all vectors, and the error that they may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.checks.identify.family import FACTOR
from ropecli.checks.identify.lines import CLEARLY
from ropecli.checks.identify.observe import HALVES, ROUNDINGS
from ropecli.checks.identify.precision import angle_roundings
from ropecli.reference import float64
from ropecli.units import DOUBLE, SINGLE, SMALLEST_NORMAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.explain import Explanation
    from ropecli.checks.identify.observe import Inputs
    from ropecli.checks.identify.table import Measurement
    from ropecli.rotary import Rotary

    Array = NDArray[np.float64]

_FAR = 0.05  #: Error of a vector, of its pair's length, that no rounding in full precision makes.
_FAR_IN_HALF = 0.5  #: The same in half precision, where the partner of a slow pair may be missed.


def residual(inputs: Inputs, rotary: Rotary, positions: Array) -> float:
    """Return the largest |after - rotate(before)|, in ulp of the dtype of a pair's length."""
    x = inputs.before
    axis = rotary.axis if rotary.axes > 1 else None
    angles = float64.angles(positions, rotary.inv_freq, axis=axis, direction=rotary.direction)
    if angles.ndim == 3:  # positions of each batch, the same for all heads
        angles = angles.reshape(len(angles), *(1,) * (x.ndim - 3), *angles.shape[1:])
    rotated = float64.rotate(
        x,
        angles,
        pairs_in=rotary.pairs_in,
        pairs_out=rotary.pairs_out,
        factor=rotary.attention_factor,
    )
    error = np.abs(rotated - inputs.after.astype(np.float64))
    length = np.abs(rotated)
    rest = np.setdiff1d(np.arange(rotary.head_dim), rotary.pairs_out)
    length[..., rest] = length.max(axis=-1, keepdims=True)
    first, second = rotary.pairs_out.T
    length[..., first] = length[..., second] = np.hypot(rotated[..., first], rotated[..., second])
    # Below the smallest normal number an ulp is that number's.
    normal = max(SMALLEST_NORMAL[str(dtype_name(each.dtype))] for each in (x, inputs.after))
    return float((error / np.maximum(length, normal)).max()) / (2 * inputs.unit)


def residual_tolerance(
    inputs: Inputs, measured: Measurement, found: Explanation, precision: str, furthest: float
) -> float:
    """Return the largest error of a vector, of its pair's length, if what was found is right.

    Args:
        inputs: The arrays.
        measured: The measurement.
        found: The explanation of most vectors.
        precision: Its name.
        furthest: The largest position in magnitude.
    """
    if is_half(precision):
        return np.inf
    if inputs.unit > SINGLE:
        return _FAR_IN_HALF
    # The mean rotation at a position is off by ROUNDINGS, and each vector from that by as many.
    vectors = 2 * ROUNDINGS * inputs.unit + abs(found.factor / measured.pairing.factor - 1)
    angles = float((angle_roundings(found.table) * found.table).max()) * furthest
    if found.fit is None or not found.fit.is_round:
        turning = measured.pairs[measured.pairs.turning]
        uncertainty = turning.slope_uncertainty.max(initial=0.0) / found.step
        vectors += CLEARLY * float(uncertainty) * furthest
    if precision == "exact":
        return vectors + 2 * DOUBLE * angles
    if precision == "float32 angles":
        return vectors + 2 * SINGLE + SINGLE * angles  # cos and sin are rounded too
    return _FAR


def factor_tolerance(uncertainty: float, precision: str, unit: float) -> float:
    """Return the relative difference up to which two attention factors are the same.

    A formula's is accepted within four times the measured one's uncertainty; no factor is known
    better than the tables in half precision that it may be multiplied by.
    """
    return FACTOR if unit > SINGLE or is_half(precision) else 4 * uncertainty


def is_half(precision: str) -> bool:
    """Return whether anything was rounded to half precision."""
    return any(half in precision for half in HALVES)
