"""Untied positions, RoFormer Eq. 9 and Ke et al. 2021, with [CLS] untied."""

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
    untie_cls: bool = True,
) -> Array:
    """(x_i W_q . x_j W_k) / sqrt(2d) + reset((p_i U_q . p_j U_k) / sqrt(2d) + b_(j-i))."""
    heads, _, head_dim = weights["query"].shape
    table = weights["positions"]
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                i, j = int(m[a]), int(n[b])
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                p, r = (
                    table[i] @ weights["position_query"][h],
                    table[j] @ weights["position_key"][h],
                )
                place = p @ r / math.sqrt(2 * head_dim) + weights["bias"][j - i + length - 1, h]
                if untie_cls and i == 0:
                    place = weights["theta1"][h]
                elif untie_cls and j == 0:
                    place = weights["theta2"][h]
                out[h, a, b] = q @ k / math.sqrt(2 * head_dim) + place
    return out
