"""The four terms of Transformer-XL, Dai et al. 2019; as RoFormer Eq. 7 prints them."""

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
    as_printed: bool = False,
) -> Array:
    """q.k + q.r + u.k + v.r over sqrt(d), r = R_(i-j) W_R; printed: u and v go through W_q."""
    heads, dim, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        u = weights["u"] @ weights["query"][h] if as_printed else weights["u"][h]
        v = weights["v"] @ weights["query"][h] if as_printed else weights["v"][h]
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                r = sinusoid(m[a] - n[b], dim) @ weights["key_position"][h]
                out[h, a, b] = (q @ k + q @ r + u @ k + v @ r) / math.sqrt(head_dim)
    return out


def sinusoid(distance: float, dim: int) -> Array:
    """[sin(distance / 10000^(2t/d)) for each t] followed by the cosines."""
    angles = [distance / 10_000 ** (2 * t / dim) for t in range(dim // 2)]
    return np.array([math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles])
