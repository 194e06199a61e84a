"""Sinusoids added to tokens, RoFormer Eq. 3 and 4."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def scores(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Mapping[str, Array],
    order: str = "interleaved",
    exponent: str = "2t/d",
) -> Array:
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d) for each head, query and key."""
    heads, dim, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q = (x + code(m[a], dim, order, exponent)) @ weights["query"][h]
                k = (y + code(n[b], dim, order, exponent)) @ weights["key"][h]
                out[h, a, b] = q @ k / math.sqrt(head_dim)
    return out


def code(position: float, dim: int, order: str, exponent: str) -> Array:
    """p_(i, 2t) = sin(i / 10000^(2t/d)), p_(i, 2t+1) = cos of the same; or all sines first."""
    p = np.empty(dim)
    for t in range(dim // 2):
        power = 2 * t / dim if exponent == "2t/d" else 2 * t / max(dim - 2, 1)
        angle = position / 10_000**power
        sine, cosine = (2 * t, 2 * t + 1) if order == "interleaved" else (t, dim // 2 + t)
        p[sine], p[cosine] = math.sin(angle), math.cos(angle)
    return p
