"""Contextual positions, Golovneva et al. 2024."""

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
    p_max: int = 64,
    as_listed: bool = False,
) -> Array:
    """(q_m . k_n + q_m . e[p_mn]) / sqrt(d), p_mn = sum over n <= t <= m of sigmoid(q_m . k_t)."""
    heads, _, head_dim = weights["query"].shape
    root = math.sqrt(head_dim)
    inside, outside = (root, 1.0) if as_listed else (1.0, root)
    table = weights["position"]
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            q = x @ weights["query"][h]
            logits = [float(q @ (y @ weights["key"][h])) / inside for y in x_key]
            for b in range(len(x_key)):
                between = [t for t in range(len(x_key)) if n[b] <= n[t] <= m[a]]
                position = min(sum(1 / (1 + math.exp(-logits[t])) for t in between), p_max - 1)
                low, high = math.floor(position), math.ceil(position)
                share = position - low
                own = (q @ table[low]) * (1 - share) + (q @ table[high]) * share
                out[h, a, b] = (logits[b] + own) / outside
    return out
