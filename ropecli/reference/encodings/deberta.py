"""Disentangled attention, He et al. 2021, Eq. 3 and 4; RoFormer Eq. 10."""

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
    clip: int = 16,
    shared: bool = False,
    as_printed: bool = False,
) -> Array:
    """(q_i . k_j + q_i . kr_delta(i,j) + k_j . qr_delta(i,j)) / sqrt(3d); printed: delta(j,i)."""
    heads, _, head_dim = weights["query"].shape
    query, key = ("query", "key") if shared else ("position_query", "position_key")
    table = weights["positions"]
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                i, j = int(m[a]), int(n[b])
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                kr = table[delta(i, j, clip)] @ weights[key][h]
                qr = table[delta(j, i, clip) if as_printed else delta(i, j, clip)]
                qr = qr @ weights[query][h]
                out[h, a, b] = (q @ k + q @ kr + k @ qr) / math.sqrt(3 * head_dim)
    return out


def delta(i: int, j: int, k: int) -> int:
    """The paper's Eq. 3: 0 where i - j <= -k, 2k - 1 where i - j >= k, else i - j + k."""
    if i - j <= -k:
        return 0
    if i - j >= k:
        return 2 * k - 1
    return i - j + k
