"""RoPE written out in NumPy: what the implementations are made of. Nothing of ropecli's is in it.

Tables have shape (sequence, pairs), or (batch, sequence, pairs) where batch is x's first axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rotate = Callable[[Array, Array, Array], Array]


def inv_freq(dim: int, base: float = 10_000.0) -> Array:
    return base ** (-2.0 * np.arange(dim // 2) / dim)


def angles(positions: Any, frequencies: Array) -> Array:
    return np.asarray(positions, np.float64)[..., None] * frequencies


def wide(x: Array) -> Array:
    """A copy to compute in: float64 stays, all else becomes float32."""
    return x.astype(np.float64 if x.dtype == np.float64 else np.float32)


def beside(x: Array, table: Array) -> Array:
    """The table with an axis for every axis of x between batch and sequence."""
    if table.ndim < 3:
        return table
    return table.reshape(len(table), *(1,) * (x.ndim - 3), *table.shape[1:])


def interleaved(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (2i, 2i + 1) of the first coordinates, as many as the table has."""
    y, end = wide(x), 2 * cos.shape[-1]
    c, s = (beside(x, table).astype(y.dtype) for table in (cos, sin))
    a, b = y[..., 0:end:2].copy(), y[..., 1:end:2].copy()
    y[..., 0:end:2] = a * c - b * s
    y[..., 1:end:2] = b * c + a * s
    return y.astype(x.dtype)


def half(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (i, i + pairs) of the first coordinates."""
    y, n = wide(x), cos.shape[-1]
    c, s = (beside(x, table).astype(y.dtype) for table in (cos, sin))
    a, b, rest = y[..., :n], y[..., n : 2 * n], y[..., 2 * n :]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1).astype(x.dtype)


def turn(
    x: Array, positions: Any, frequencies: Array, rotate: Rotate = half, factor: float = 1.0
) -> Array:
    """The whole of RoPE: the tables made in float64, and applied."""
    angle = angles(positions, frequencies)
    return rotate(x, factor * np.cos(angle), factor * np.sin(angle))


def turn_axes(
    x: Array, positions: Any, frequencies: Array, axis: Any, rotate: Rotate = half
) -> Array:
    """As turn, where positions have a last axis and pair i follows its coordinate axis[i]."""
    angle = np.asarray(positions, np.float64)[..., np.asarray(axis)] * frequencies
    return rotate(x, np.cos(angle), np.sin(angle))
