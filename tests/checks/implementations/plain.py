"""RoPE written out in NumPy: what the implementations are made of. Nothing of ropecli's is in it.

Tables have shape (sequence, pairs), or (batch, sequence, pairs) where batch is x's first axis.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Rotate = Callable[[Array, Array, Array], Array]
Rotation = Callable[[Array, Array], Array]


def inv_freq(dim: int, base: float = 10_000.0) -> Array:
    return base ** (-2.0 * np.arange(dim // 2) / dim)


def angles(positions: Any, frequencies: Array) -> Array:
    return np.asarray(positions, np.float64)[..., None] * frequencies


def wide(x: Array) -> Array:
    """A copy to compute in: float64 stays, all else becomes float32."""
    return x.astype(np.float64 if x.dtype == np.float64 else np.float32)


def align(x: Array, table: Array) -> Array:
    """The table with an axis for every axis of x between batch and sequence."""
    if table.ndim < 3:
        return table
    return table.reshape(len(table), *(1,) * (x.ndim - 3), *table.shape[1:])


def interleaved(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (2i, 2i + 1) of the first coordinates, as many as the table has."""
    y, end = wide(x), 2 * cos.shape[-1]
    c, s = (align(x, table).astype(y.dtype) for table in (cos, sin))
    a, b = y[..., 0:end:2].copy(), y[..., 1:end:2].copy()
    y[..., 0:end:2] = a * c - b * s
    y[..., 1:end:2] = b * c + a * s
    return y.astype(x.dtype)


def half(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (i, i + pairs) of the first coordinates."""
    y, n = wide(x), cos.shape[-1]
    c, s = (align(x, table).astype(y.dtype) for table in (cos, sin))
    a, b, rest = y[..., :n], y[..., n : 2 * n], y[..., 2 * n :]
    return np.concatenate([a * c - b * s, b * c + a * s, rest], axis=-1).astype(x.dtype)


def rotate_half(x: Array) -> Array:
    n = x.shape[-1] // 2
    return np.concatenate([-x[..., n:], x[..., :n]], axis=-1)


def turn(
    x: Array, positions: Any, frequencies: Array, rotate: Rotate = half, factor: float = 1.0
) -> Array:
    """The whole of RoPE: the tables made in float64, and applied."""
    angle = angles(positions, frequencies)
    return rotate(x, factor * np.cos(angle), factor * np.sin(angle))


def rotation(
    frequencies: Array,
    rotate: Rotate = half,
    *,
    factor: float = 1.0,
    positions: Callable[[Array], Array] = np.asarray,
) -> Rotation:
    """RoPE by its frequencies, its pairs, its factor, and what it makes of the positions."""

    def rotated(x: Array, given: Array) -> Array:
        return turn(x, positions(np.asarray(given, np.float64)), frequencies, rotate, factor)

    return rotated


def along(axis: Any, frequencies: Array, rotate: Rotate = half) -> Rotation:
    """RoPE whose positions have a last axis, and pair i follows its coordinate axis[i]."""

    def rotated(x: Array, positions: Array) -> Array:
        angle = np.asarray(positions, np.float64)[..., np.asarray(axis)] * frequencies
        return rotate(x, np.cos(angle), np.sin(angle))

    return rotated


def along_all(frequencies: Array, rotate: Rotate = half) -> Rotation:
    """RoPE whose positions have a last axis, and pairs follow all coordinates: RoPE-Mixed."""

    def rotated(x: Array, positions: Array) -> Array:
        points = np.asarray(positions, np.float64)
        angle = sum(points[..., a, None] * row for a, row in enumerate(frequencies))
        return rotate(x, np.cos(angle), np.sin(angle))

    return rotated


def on(where: slice | Array, part: Rotation) -> Rotation:
    """A rotation of these coordinates alone, in this order."""

    def rotated(x: Array, positions: Array) -> Array:
        y = x.copy()
        y[..., where] = part(x[..., where], positions)
        return y

    return rotated


# Inverse frequencies of the rope types, from their formulas.


def ramp(
    dim: int, base: float, original: int, *, fast: float = 32, slow: float = 1, truncate: bool
) -> Array:
    """YaRN's: 0 for the pairs that are left alone, 1 for those that are interpolated."""
    low, high = (
        dim * math.log(original / (2 * math.pi * turns)) / (2 * math.log(base))
        for turns in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    slope: Array = np.clip((np.arange(dim // 2) - low) / (high - low), 0.0, 1.0)
    return slope


def yarn(
    dim: int,
    *,
    factor: float = 16.0,
    original: int = 4096,
    base: float = 10_000.0,
    truncate: bool = True,
) -> Array:
    theta = inv_freq(dim, base)
    slope = ramp(dim, base, original, truncate=truncate)
    blend: Array = theta / factor * slope + theta * (1 - slope)
    return blend


def mscale(factor: float, k: float = 1.0) -> float:
    return 0.1 * k * math.log(factor) + 1.0


def llama3(dim: int, *, base: float = 500_000.0, factor: float = 8.0) -> Array:
    """Llama 3.1's constants: low 1, high 4, original context 8192."""
    theta = inv_freq(dim, base)
    turns = 8192 * theta / (2 * math.pi)
    smooth = np.clip((turns - 1) / (4 - 1), 0.0, 1.0)
    scaled: Array = (1 - smooth) * theta / factor + smooth * theta
    return scaled


def dynamic(dim: int, length: int, *, base: float, factor: float, longest: int) -> Array:
    """A base that grows once the sequence is longer than the longest of training."""
    stretch = factor * max(length, longest) / longest - (factor - 1)
    return inv_freq(dim, base * stretch ** (dim / (dim - 2)))


def mixed_frequencies(dim: int, turned: float, base: float = 10.0) -> Array:
    """RoPE-Mixed's frequencies of a head, as learning begins (Heo et al. 2024, arXiv:2403.13298).

    Half of the pairs follow a direction of the head's own, and half the one across.
    """
    size = base ** (-np.arange(0, dim, 4) / dim)
    directions = np.repeat([turned, turned + np.pi / 2], dim // 4)
    return np.array([np.cos(directions), np.sin(directions)]) * np.tile(size, 2)


def in_sections(sizes: tuple[int, ...]) -> list[int]:
    """M-RoPE's axis of each pair: one run of pairs for each axis."""
    return [axis for axis, size in enumerate(sizes) for _ in range(size)]


def in_turns(sizes: tuple[int, ...]) -> list[int]:
    """Interleaved M-RoPE's: the axes take turns while they have pairs, the first has the rest."""
    axis = [0] * sum(sizes)
    for a in range(1, len(sizes)):
        for i in range(a, min(len(sizes) * sizes[a], len(axis)), len(sizes)):
            axis[i] = a
    return axis
