"""Kernelized relative positions, Chi et al. 2022."""

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
    kind: str = "log",
) -> Array:
    """(x_m W_q) . (x_n W_k) / sqrt(d) - r1 ln(1 + r2 |m-n|), or - r1 |m-n|^r2."""
    heads, _, head_dim = weights["query"].shape
    out = np.empty((heads, len(x_query), len(x_key)))
    for h in range(heads):
        r1, r2 = max(0.01, float(weights["r1"][h])), max(0.01, float(weights["r2"][h]))
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                distance = abs(float(m[a]) - float(n[b]))
                if kind == "log":
                    bias = -r1 * math.log(1 + r2 * distance)
                else:
                    bias = -r1 * distance ** min(2.0, r2)
                out[h, a, b] = q @ k / math.sqrt(head_dim) + bias
    return out
