"""A table of positions added to tokens, RoFormer Eq. 3."""

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
    length: int = 512,
) -> Array:
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d) for each head, query and key."""
    heads, _, head_dim = weights["query"].shape
    table = weights["positions"]
    assert len(table) == length
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q = (x + table[int(m[a])]) @ weights["query"][h]
                k = (y + table[int(n[b])]) @ weights["key"][h]
                out[h, a, b] = q @ k / math.sqrt(head_dim)
    return out
