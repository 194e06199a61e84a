"""What a rotation that was found leaves of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.checks.identify.precision import ROUNDINGS
from ropecli.reference import float64
from ropecli.units import SMALLEST_NORMAL, TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Given, Sight
    from ropecli.rotary import Rotary

    Array = NDArray[np.float64]


def residual(data: Given, rotary: Rotary, positions: Array) -> float:
    """The largest |after - rotate(before)|, in ulp of the data's dtype of a pair's length."""
    turned = _rotate(data.before, rotary, positions)
    error = np.abs(turned - data.after.astype(np.float64))
    length = np.abs(turned)
    length[..., _outside(rotary)] = length.max(axis=-1, keepdims=True)
    first, second = rotary.pairs_out.T
    length[..., first] = length[..., second] = np.hypot(turned[..., first], turned[..., second])
    # Below the smallest normal number an ulp is that number's.
    normal = max(SMALLEST_NORMAL[str(dtype_name(each.dtype))] for each in (data.before, data.after))
    return float((error / np.maximum(length, normal)).max()) / (2 * data.unit)


def not_copied(sight: Sight, rotary: Rotary) -> str | None:
    """What happens to coordinates in no pair, if they are not copied."""
    rest = _outside(rotary)
    if not len(rest):
        return None
    x, y = sight.x[..., rest], sight.y[..., rest]
    size = np.abs(x).max()
    if np.abs(y - x).max() <= ROUNDINGS * sight.unit * size:
        return None
    times = float((x * y).sum() / max((x**2).sum(), TINY))
    how = f"multiplied by {times:.4g}" if np.abs(y - times * x).max() < 0.01 * size else "changed"
    return f"coordinates that are in no pair ({listed(rest)}) are {how}, not copied"


def listed(coordinates: NDArray[np.int64]) -> str:
    """A run of them by its ends, any others one by one, the first few."""
    if len(coordinates) > 2 and (np.diff(coordinates) == 1).all():
        return f"{coordinates[0]} to {coordinates[-1]}"
    return ", ".join(map(str, coordinates[:8])) + (", ..." if len(coordinates) > 8 else "")


def _rotate(x: NDArray[Any], rotary: Rotary, positions: Array) -> Array:
    axis = rotary.axis if rotary.axes > 1 else None
    angles = float64.angles(positions, rotary.inv_freq, axis=axis, direction=rotary.direction)
    if angles.ndim == 3:  # a row of positions for each batch, whatever lies between
        angles = angles.reshape(len(angles), *(1,) * (x.ndim - 3), *angles.shape[1:])
    return float64.rotate(
        x,
        angles,
        pairs_in=rotary.pairs_in,
        pairs_out=rotary.pairs_out,
        factor=rotary.attention_factor,
    )


def _outside(rotary: Rotary) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(rotary.head_dim), rotary.pairs_out)
