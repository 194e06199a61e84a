"""Rotary position embedding as complex numbers, RoFormer Eq. 12 and 16."""

from __future__ import annotations

import cmath
import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def scores(x_query: Array, x_key: Array, m: Array, n: Array, weights: Mapping[str, Array]) -> Array:
    """Re sum_i q_i conj(k_i) e^{i (m-n) theta_i} / sqrt(d), theta_i = 10000^(-2i/d)."""
    heads, _, head_dim = weights["query"].shape
    out = np.zeros((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                for i in range(head_dim // 2):
                    turn = cmath.exp(1j * (m[a] - n[b]) * 10_000.0 ** (-2 * i / head_dim))
                    product = complex(q[2 * i], q[2 * i + 1]) * complex(k[2 * i], -k[2 * i + 1])
                    out[h, a, b] += (product * turn).real / math.sqrt(head_dim)
    return out
