"""The rotation is right, but not what comes back, or not what it leaves behind."""

from __future__ import annotations

from functools import partial

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.plain import Array, angles, beside, inv_freq, turn, wide


def in_place(x: Array, positions: Array) -> Array:
    """The caller's array is rotated as well."""
    x[...] = turn(x, positions, inv_freq(x.shape[-1]))
    return x


def in_place_by_halves(x: Array, positions: Array) -> Array:
    """The first half is overwritten before the second half reads it."""
    n = x.shape[-1] // 2
    angle = angles(positions, inv_freq(x.shape[-1]))
    y = wide(x)
    cos, sin = (beside(x, t) for t in (np.cos(angle), np.sin(angle)))
    y[..., :n] = y[..., :n] * cos - y[..., n:] * sin
    y[..., n:] = y[..., n:] * cos + y[..., :n] * sin
    return y.astype(x.dtype)


def always_float32(x: Array, positions: Array) -> Array:
    """The result is float32 whatever the data."""
    return turn(x.astype(np.float32), positions, inv_freq(x.shape[-1]))


def heads_lost(x: Array, positions: Array) -> Array:
    """An axis of length 1 is squeezed away."""
    y = turn(x, positions, inv_freq(x.shape[-1]))
    return y[0] if y.ndim > 2 and len(y) == 1 else y


untold = partial(Wrong, intended=intended.HALF, told=False)

CASES = (
    untold(
        name="in place",
        thread="jzhang38/TinyLlama#188",
        target=in_place,
        laws=("input untouched",),
        says="input",
    ),
    untold(
        name="in place by halves",
        thread="jzhang38/TinyLlama#188",
        target=in_place_by_halves,
        laws=("rotation", "norm", "relative position"),
        says="not a rotation",
    ),
    untold(
        name="always float32",
        thread="huggingface/transformers#25681",
        target=always_float32,
        laws=("dtype and shape",),
        says="dtype",
    ),
    untold(
        name="axis lost",
        thread="pytorch/pytorch#162865",
        target=heads_lost,
        laws=("dtype and shape",),
        says="shape",
    ),
)
