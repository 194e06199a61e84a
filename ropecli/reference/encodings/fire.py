"""Functional interpolation of relative positions, Li et al. 2023."""

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
    *,
    c: float = 0.1,
    threshold: float = 512.0,
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) + f(ln(c|m-n| + 1) / ln(c max(L, m) + 1))."""
    heads, _, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                near = math.log(c * abs(m[a] - n[b]) + 1)
                far = math.log(c * max(threshold, m[a]) + 1)
                units = near / far * weights["hidden"][0] + weights["hidden_bias"]
                network = np.maximum(units, 0) @ weights["output"] + weights["output_bias"]
                out[h, a, b] = q @ k / math.sqrt(head_dim) + network[h]
    return out
