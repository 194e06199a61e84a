"""What a rotation that was found leaves of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ropecli.checks.identify.precision import ROUNDINGS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Given, Sight
    from ropecli.rotary import Rotary

    Array = NDArray[np.float64]


def residual(data: Given, rotary: Rotary, positions: Array) -> float:
    """The largest |after - rotate(before)|, in ulp of the data's dtype of a pair's length."""
    turned = _turned(data.before.astype(np.float64), rotary, positions)
    error = np.abs(turned - data.after.astype(np.float64))
    length = np.abs(turned)
    length[..., _outside(rotary)] = length.max(axis=-1, keepdims=True)
    first, second = rotary.pairs_out.T
    length[..., first] = length[..., second] = np.hypot(turned[..., first], turned[..., second])
    # Below the smallest normal number an ulp is that number's.
    normal = max(_smallest_normal(each.dtype) for each in (data.before, data.after))
    return float((error / np.maximum(length, normal)).max()) / (2 * data.unit)


def _smallest_normal(dtype: np.dtype[Any]) -> float:
    return float(ml_dtypes.finfo(dtype).tiny)  # type: ignore[no-untyped-call]


def not_copied(sight: Sight, rotary: Rotary) -> str | None:
    """What happens to coordinates in no pair, if they are not copied."""
    rest = _outside(rotary)
    if not len(rest):
        return None
    x, y = sight.x[..., rest], sight.y[..., rest]
    size = np.abs(x).max()
    if np.abs(y - x).max() <= ROUNDINGS * sight.unit * size:
        return None
    times = float((x * y).sum() / max((x**2).sum(), np.finfo(np.float64).tiny))
    how = f"multiplied by {times:.4g}" if np.abs(y - times * x).max() < 0.01 * size else "changed"
    return f"coordinates that are in no pair ({listed(rest)}) are {how}, not copied"


def listed(coordinates: NDArray[np.int64]) -> str:
    """A run of them by its ends, any others one by one, the first few."""
    if len(coordinates) > 2 and (np.diff(coordinates) == 1).all():
        return f"{coordinates[0]} to {coordinates[-1]}"
    return ", ".join(map(str, coordinates[:8])) + (", ..." if len(coordinates) > 8 else "")


def _turned(x: Array, rotary: Rotary, positions: Array) -> Array:
    """Eq. 12 for each pair: a complex number times A e^{i m theta}."""
    sign = 1 if rotary.direction == "forward" else -1
    m = positions[..., list(rotary.axis)] if rotary.axes > 1 else positions[..., None]
    turn = rotary.attention_factor * np.exp(sign * 1j * m * rotary.inv_freq)
    if turn.ndim == 3:  # a row of positions for each batch, whatever lies between
        turn = turn.reshape(len(turn), *(1,) * (x.ndim - 3), *turn.shape[1:])
    pairs = x[..., rotary.pairs_in[:, 0]] + 1j * x[..., rotary.pairs_in[:, 1]]
    pairs *= turn
    out = x.copy()
    out[..., rotary.pairs_out[:, 0]], out[..., rotary.pairs_out[:, 1]] = pairs.real, pairs.imag
    return out


def _outside(rotary: Rotary) -> NDArray[np.int64]:
    return np.setdiff1d(np.arange(rotary.head_dim), rotary.pairs_out)
