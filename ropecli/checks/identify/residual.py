"""What a rotation that was found leaves of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Given, Sight
    from ropecli.rotary import Rotary

    Array = NDArray[np.float64]

_COPIED = 16.0  #: Roundings that a coordinate in no pair may be off.


def residual(data: Given, rotary: Rotary, positions: Array) -> float:
    """The largest |after - rotate(before)|, in ulp of the data's dtype of a pair's length."""
    turned = _turned(data.before.astype(np.float64), rotary, positions)
    error = np.abs(turned - data.after.astype(np.float64))
    length = np.abs(turned)
    rest = _outside(rotary)
    length[..., rest] = np.sqrt((turned**2).mean(axis=-1, keepdims=True))
    first, second = rotary.pairs_out.T
    length[..., first] = length[..., second] = np.hypot(turned[..., first], turned[..., second])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / (2 * data.unit * length))
    return float(share.max())


def not_copied(sight: Sight, rotary: Rotary) -> str | None:
    """What happens to coordinates in no pair, if they are not copied."""
    rest = _outside(rotary)
    if not len(rest):
        return None
    x, y = sight.x[..., rest], sight.y[..., rest]
    size = np.abs(x).max()
    if np.abs(y - x).max() <= _COPIED * sight.unit * size:
        return None
    times = float((x * y).sum() / max((x**2).sum(), np.finfo(np.float64).tiny))
    how = f"multiplied by {times:.4g}" if np.abs(y - times * x).max() < 0.01 * size else "changed"
    return f"coordinates that are in no pair ({rest[0]} to {rest[-1]}) are {how}, not copied"


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
