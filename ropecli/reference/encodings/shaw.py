"""Relative vectors in keys and values, Shaw et al. 2018, Eq. 3 to 5; RoFormer Eq. 5."""

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
    as_printed: bool = False,
) -> Array:
    """x_i W_q . (x_j W_k + a_clip(j-i)) / sqrt(d); printed: x_m W_q . (x_n + p_clip(m-n)) W_k."""
    heads, _, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q = x @ weights["query"][h]
                k = _side("key", y, m[a], n[b], h, weights, clip, as_printed)
                out[h, a, b] = q @ k / math.sqrt(head_dim)
    return out


def attend(
    x_query: Array,
    x_key: Array,
    m: Array,
    n: Array,
    weights: Mapping[str, Array],
    clip: int = 16,
    as_printed: bool = False,
) -> Array:
    """sum_j softmax_j(e_ij) (x_j W_v + a_clip(j-i)), Shaw et al.'s Eq. 3."""
    heads, _, head_dim = weights["query"].shape
    e = scores(x_query, x_key, m, n, weights, clip, as_printed)
    out = np.zeros((heads, len(x_query), head_dim))
    for h in range(heads):
        for a in range(len(x_query)):
            total = sum(math.exp(e[h, a, b]) for b in range(len(x_key)))
            for b, y in enumerate(x_key):
                v = _side("value", y, m[a], n[b], h, weights, clip, as_printed)
                out[h, a] += math.exp(e[h, a, b]) / total * v
    return out


def _side(
    kind: str,
    y: Array,
    m: float,
    n: float,
    h: int,
    weights: Mapping[str, Array],
    clip: int,
    as_printed: bool,
) -> Array:
    """A key or a value as the query at m sees it."""
    table = weights[f"{kind}_positions"]
    if as_printed:
        p = table[max(-clip, min(clip, int(m - n))) + clip]
        return np.asarray((y + p) @ weights[kind][h])
    return np.asarray(y @ weights[kind][h] + table[max(-clip, min(clip, int(n - m))) + clip])
