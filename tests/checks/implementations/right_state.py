"""Implementations that keep something between calls, and are right."""

from __future__ import annotations

import math

import numpy as np
from implementations.intended import ORIGINAL
from implementations.plain import Array, angles, half, inv_freq, turn
from implementations.tables import dynamic


class GrowingCache:
    """Tables of whole positions, twice as long whenever they are too short."""

    largest = 1 << 14

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.table = np.empty((0, 0), np.complex128)

    def __call__(self, x: Array, positions: Array) -> Array:
        theta = inv_freq(x.shape[-1], self.base)
        m = np.asarray(positions, np.float64)
        if m.min() < 0 or m.max() >= self.largest or (m % 1).any():
            return turn(x, m, theta, half)
        if m.max() >= len(self.table) or self.table.shape[1] != len(theta):
            length = 1 << int(m.max()).bit_length()
            self.table = np.exp(1j * angles(np.arange(length), theta))
        z = self.table[m.astype(np.int64)]
        return half(x, z.real, z.imag)


def length_of(positions: Array) -> int:
    """Positions of a sequence from 0 to the last one in use."""
    return math.floor(float(np.max(positions))) + 1


def by_row(x: Array, positions: Array, theta_of: dict[int, Array], factor: float) -> Array:
    """Turn each batch row by the frequencies of its own length."""
    m = np.asarray(positions, np.float64)
    if m.ndim == 1:
        return turn(x, m, theta_of[length_of(m)], half, factor)
    theta = np.stack([theta_of[length_of(row)] for row in m])
    angle = m[..., None] * theta[:, None]
    return half(x, factor * np.cos(angle), factor * np.sin(angle))


def lengths(positions: Array) -> set[int]:
    return {length_of(row) for row in np.atleast_2d(positions)}


class DynamicNtk:
    """The base follows the length of each sequence, and comes back."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def __call__(self, x: Array, positions: Array) -> Array:
        theta_of = {n: self.theta(x.shape[-1], n) for n in lengths(positions)}
        return by_row(x, positions, theta_of, 1.0)

    def theta(self, dim: int, length: int) -> Array:
        return dynamic(dim, length, base=self.base, factor=4.0, longest=ORIGINAL)


class LongRope:
    """Factors for long sequences from ORIGINAL + 1 positions on."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.attention_factor = math.sqrt(1 + math.log(4.0) / math.log(ORIGINAL))

    def __call__(self, x: Array, positions: Array) -> Array:
        theta_of = {n: self.theta(x.shape[-1], n) for n in lengths(positions)}
        return by_row(x, positions, theta_of, self.attention_factor)

    def theta(self, dim: int, length: int) -> Array:
        long = length > ORIGINAL
        return inv_freq(dim, self.base) / (np.linspace(1.0, 32.0, dim // 2) if long else 1.0)


class Decoder:
    """Fed a prompt and then one token after another: counts the positions itself."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.length = 0

    def prefill(self, x: Array) -> Array:
        self.length = x.shape[-2]
        return self.turn(x, np.arange(self.length))

    def step(self, x: Array) -> Array:
        self.length += 1
        return self.turn(x, np.array([self.length - 1]))

    def turn(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, inv_freq(x.shape[-1], self.base), half)
