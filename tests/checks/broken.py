"""Rotations and bounds that are wrong in one known way each.

`plain` is RoPE in NumPy with a place to break at every step; nothing of ropecli's is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.decay import Decay, decay

Array = NDArray[Any]
Step = Callable[[Array], Array]

DIM = 16


def same(value: Array) -> Array:
    return value


def theta(dim: int = DIM, base: float = 10_000.0) -> Array:
    return base ** (-2.0 * np.arange(dim // 2) / dim)


def plain(
    x: Array,
    positions: Array,
    *,
    frequencies: Array | None = None,
    position: Step = same,
    angle: Step = same,
    table: Step = same,
    arithmetic: type | None = None,
    layout: str = "interleaved",
    rows: tuple[tuple[int, int], tuple[int, int]] = ((1, -1), (1, 1)),
) -> Array:
    """RoPE as written in Eq. 34; each argument breaks one step of it.

    rows are the signs of (cos, sin) for the first and the second coordinate of a pair.
    """
    thetas = theta() if frequencies is None else frequencies
    angles = angle(np.outer(position(positions), thetas))
    # Halves and single precision are turned in float32, as the kernel does.
    wide: Any = arithmetic or (np.float64 if x.dtype == np.float64 else np.float32)
    cos, sin = table(np.cos(angles)).astype(wide), table(np.sin(angles)).astype(wide)
    y = x.astype(wide).copy()
    first, second = places(layout, len(thetas))
    a, b = y[:, first].copy(), y[:, second].copy()
    y[:, first] = rows[0][0] * a * cos + rows[0][1] * b * sin
    y[:, second] = rows[1][0] * b * cos + rows[1][1] * a * sin
    return y.astype(x.dtype)


def places(layout: str, pairs: int) -> tuple[Array, Array]:
    i = np.arange(pairs)
    return (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + pairs)


def rounded(dtype: Any) -> Step:
    return lambda value: value.astype(dtype).astype(np.float64)


def mixed_layout(x: Array, positions: Array) -> Array:
    """Tables repeated for adjacent pairs, but halves rotated."""
    angles = np.repeat(np.outer(positions, theta()), 2, axis=1)
    half = DIM // 2
    swapped = np.concatenate([-x[:, half:], x[:, :half]], axis=1).astype(np.float64)
    turned: Array = x.astype(np.float64) * np.cos(angles) + swapped * np.sin(angles)
    return turned.astype(x.dtype)


def last_pair_left_out(x: Array, positions: Array) -> Array:
    y = plain(x, positions)
    y[:, -2:] = x[:, -2:]
    return y


def stretched_by_position(x: Array, positions: Array) -> Array:
    growth = 1.0 + np.abs(positions)[:, None] * 2.0**-20
    return (plain(x, positions).astype(np.float64) * growth).astype(x.dtype)


def reflected(x: Array, positions: Array) -> Array:
    """The first pair mirrored as well as turned."""
    y = plain(x, positions)
    y[:, 1] *= -1
    return y


def additive(x: Array, positions: Array) -> Array:
    angles = np.outer(positions, theta())
    p = np.empty((len(x), DIM))
    p[:, 0::2], p[:, 1::2] = np.sin(angles), np.cos(angles)
    return (x.astype(np.float64) + p).astype(x.dtype)


def twice_stretched(x: Array, positions: Array) -> Array:
    return (plain(x, positions).astype(np.float64) * 1.125).astype(x.dtype)


def nothing_but_nan(x: Array, positions: Array) -> Array:
    return np.full_like(x, np.nan)


def constant(x: Array, positions: Array) -> Array:
    return np.ones_like(x)


def without_last_difference(*arguments: Any, **keywords: Any) -> Decay:
    """Eq. 37 without h_{d/2} = 0: the bound is too low by |S_{d/2}||h_{d/2 - 1}|."""
    right = decay(*arguments, **keywords)
    q, k, rope = keywords["q"], keywords["k"], arguments[0]
    first, second = rope.pairs_in.T
    h = (q[first] + 1j * q[second]) * (k[first] - 1j * k[second])
    angles = np.outer(right.relative_distance, rope.inv_freq)
    sums = np.abs(np.cumsum(np.exp(1j * angles), axis=1))
    steps = np.abs(np.diff(h))
    return replace(
        right,
        abel_bound=sums[:, :-1] @ steps,
        max_bound=steps.max(initial=0) * sums[:, :-1].sum(axis=1),
    )


def sums_one_late(*arguments: Any, **keywords: Any) -> Decay:
    """S_j where S_{j+1} belongs."""
    right = decay(*arguments, **keywords)
    angles = np.outer(right.relative_distance, arguments[0].inv_freq)
    sums = np.abs(np.cumsum(np.exp(1j * angles), axis=1))
    bound = sums[:, :-1].sum(axis=1) / sums.shape[1]
    return replace(right, relative_upper_bound=bound)


def score_without_conjugate(*arguments: Any, **keywords: Any) -> Decay:
    """h = q k instead of q conj(k)."""
    k = keywords["k"].copy()
    k[arguments[0].pairs_in[:, 1]] *= -1
    right, wrong = decay(*arguments, **keywords), decay(*arguments, **{**keywords, "k": k})
    return replace(right, score=wrong.score)


def bounds_swapped(*arguments: Any, **keywords: Any) -> Decay:
    right = decay(*arguments, **keywords)
    return replace(right, abel_bound=right.max_bound, max_bound=right.abel_bound)


BFLOAT16 = ml_dtypes.bfloat16
