"""A bias for each bucket of distance, RoFormer Eq. 8 and Raffel et al. 2020."""

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
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Array:
    """(x_m W_q) . (x_n W_k) + b_bucket(n-m), with no division by sqrt(d)."""
    heads = len(weights["query"])
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                row = bucket(int(n[b] - m[a]), num_buckets, max_distance, bidirectional)
                out[h, a, b] = q @ k + weights["bias"][row, h]
    return out


def bucket(relative: int, num_buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Half of a direction's buckets hold one distance each, the others grow as its logarithm."""
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = num_buckets if relative > 0 else 0
        distance = abs(relative)
    else:
        distance = max(-relative, 0)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return first + min(exact + math.floor(share * (num_buckets - exact)), num_buckets - 1)
