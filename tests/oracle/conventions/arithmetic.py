"""Rotations in float64, and the mistakes of released ones, written for these tests alone.

Nothing here comes from ropecli, which these tests judge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Pairs = Callable[[int], Array]
#: Units in the last place of float32 by which an angle may be off: exp(-ln(base) 2i/d) has the
#: error of an exponent up to 13, and its product with the position has one rounding more.
OF_AN_ANGLE = 32
#: Units in the last place of a pair's length by which a coordinate may be off: cos, sin, two
#: products and a sum, in the dtype of x, and a factor that is rounded too.
OF_A_COORDINATE = 8
UNITS = {"float64": 2.0**-24, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def halves(dim: int) -> Array:
    """Return the pairs (i, i + d/2), (d/2, 2)."""
    return np.arange(dim).reshape(2, -1).T


def neighbours(dim: int) -> Array:
    """Return the pairs (2i, 2i + 1), (d/2, 2)."""
    return np.arange(dim).reshape(-1, 2)


@dataclass(frozen=True)
class Rotation:
    """RoPE: the pair i of a vector at position m turns by m base^(-2i/d)."""

    read: Pairs  #: Coordinates of each pair.
    written: Pairs  #: Coordinates that they are written to.
    base: float = 10_000.0
    sign: int = 1

    def frequencies(self, dim: int) -> Array:
        """Return base^(-2i/d) with the sign, radians per position, (d/2,)."""
        return self.sign * self.base ** (-2.0 * np.arange(dim // 2) / dim)

    def __call__(self, x: Array, m: Array) -> Array:
        """Turn x, (..., sequence, d), by positions, (sequence,): Eq. 34 of RoFormer."""
        dim = x.shape[-1]
        (a, b), (to_a, to_b) = self.read(dim).T, self.written(dim).T
        angles = m[:, None] * self.frequencies(dim)
        y = np.empty_like(x)
        y[..., to_a] = x[..., a] * np.cos(angles) - x[..., b] * np.sin(angles)
        y[..., to_b] = x[..., a] * np.sin(angles) + x[..., b] * np.cos(angles)
        return y


RIGHT = {
    "half": Rotation(halves, halves),
    "half, base 100000": Rotation(halves, halves, base=100_000.0),
    "half, base 500000": Rotation(halves, halves, base=500_000.0),
    "half, backwards": Rotation(halves, halves, sign=-1),
    "interleaved": Rotation(neighbours, neighbours),
    "interleaved, base 500000": Rotation(neighbours, neighbours, base=500_000.0),
    "interleaved, written in halves": Rotation(neighbours, halves),
}


ROUNDED = "interleaved, by positions in the dtype of x"


def by_tables(x: Array, angles: Array, pairs: Array) -> Array:
    """Return x cos + (x turned by a right angle) sin, with an angle for each coordinate."""
    turned = np.empty_like(x)
    turned[..., pairs[:, 0]], turned[..., pairs[:, 1]] = -x[..., pairs[:, 1]], x[..., pairs[:, 0]]
    y: Array = x * np.cos(angles) + turned * np.sin(angles)
    return y


def plain_angles(x: Array, m: Array) -> Array:
    """Return m 10000^(-2i/d), (sequence, d/2), radians."""
    return np.outer(m, RIGHT["half"].frequencies(x.shape[-1]))


def neighbours_by_halves(x: Array, m: Array) -> Array:
    return by_tables(x, np.tile(plain_angles(x, m), 2), neighbours(x.shape[-1]))


def halves_by_neighbours(x: Array, m: Array) -> Array:
    return by_tables(x, np.repeat(plain_angles(x, m), 2, axis=-1), halves(x.shape[-1]))


def tables_for_angles(x: Array, m: Array) -> Array:
    angles = plain_angles(x, m)
    tables = np.stack([np.cos(angles), np.sin(angles)], axis=-1).reshape(len(m), -1)
    return by_tables(x, tables, halves(x.shape[-1]))


def xpos(name: str) -> Callable[[Array, Array], Array]:
    """Return xPos of queries: RoPE times zeta to the distance from the middle of the sequence."""
    rotation = RIGHT[name]

    def rotation_with_growth(x: Array, m: Array) -> Array:
        dim = x.shape[-1]
        zeta = (2 * np.arange(dim // 2) / dim + 0.4) / 1.4
        power = (m[:, None] - (m[-1] + 1) // 2) / 512
        scale = np.empty((len(m), dim))
        for places in rotation.written(dim).T:
            scale[:, places] = zeta**power
        return rotation(x, m) * scale

    return rotation_with_growth


#: Wrong rotations, and what `check` must report.
WRONG: dict[str, tuple[Callable[[Array, Array], Array], str]] = {
    "interleaved by tables of halves": (
        neighbours_by_halves,
        "cos and sin are laid out for the other layout",
    ),
    "half by interleaved tables": (
        halves_by_neighbours,
        "cos and sin are laid out for the other layout",
    ),
    "half by tables as angles": (tables_for_angles, "cosines and sines are taken for angles"),
    "xPos of half": (xpos("half"), "as in xPos"),
    "xPos of interleaved": (xpos("interleaved"), "as in xPos"),
    ROUNDED: (RIGHT["interleaved"], "what is kept has the dtype of the first call"),
}


def fits(x: Array, positions: Array, got: Array, name: str) -> bool:
    """Return whether a result is what one of them gives, but for rounding."""
    rotated = RIGHT[name] if name in RIGHT else WRONG[name][0]
    counted = positions
    if name == ROUNDED:
        counted = positions - positions[0] + positions[0].astype(x.dtype).astype(np.float64)
        counted = counted.astype(x.dtype)
    wanted = rotated(x.astype(np.float64), counted.astype(np.float64))
    # Mistakes mix pairs: the largest coordinate bounds each of them.
    size = np.abs(np.concatenate([x.astype(np.float64), wanted], axis=-1)).max() * np.sqrt(2)
    turned = OF_AN_ANGLE * UNITS["float32"] * np.abs(positions)[:, None]
    allowed = (OF_A_COORDINATE * UNITS[str(got.dtype)] + turned) * size
    return bool((np.abs(got.astype(np.float64) - wanted) <= allowed).all())


def names(x: Array, positions: Array, got: Array) -> list[str]:
    """Return which of them give a result, right ones first."""
    return [name for name in (*RIGHT, *WRONG) if fits(x, positions, got, name)]
