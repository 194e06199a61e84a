"""Inverse frequencies of the rope types, from their formulas."""

from __future__ import annotations

import math

import numpy as np
from implementations.plain import Array, inv_freq


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
