"""Attention with linear biases, Press et al. 2021."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def slopes(heads: int) -> list[float]:
    """The paper's geometric sequence from 2^(-8/n), and its rule for n that is no power of two."""
    if math.log2(heads).is_integer():
        start = 2 ** (-8 / heads)
        return [start**h for h in range(1, heads + 1)]
    below = 2 ** math.floor(math.log2(heads))
    return slopes(below) + slopes(2 * below)[0::2][: heads - below]


def scores(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Mapping[str, Array],
    *,
    absolute: bool = False,
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) - slope_h (m - n)."""
    heads, _, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                distance = abs(m[a] - n[b]) if absolute else m[a] - n[b]
                out[h, a, b] = q @ k / math.sqrt(head_dim) - slopes(heads)[h] * distance
    return out
