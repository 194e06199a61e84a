"""Rotation with a decay, Sun et al. 2022, as complex numbers."""

from __future__ import annotations

import cmath
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
    base: float = 10_000.0,
    scale_base: float = 512.0,
    gamma: float = 0.4,
) -> Array:
    """Re sum_i q_i conj(k_i) (z_i^(1/scale_base) e^{i theta_i})^(m-n) / sqrt(d)."""
    heads, _, head_dim = weights["query"].shape
    out = np.zeros((heads, len(x_query), len(x_key)))
    for h in range(heads):
        for a, x in enumerate(x_query):
            for b, y in enumerate(x_key):
                q, k = x @ weights["query"][h], y @ weights["key"][h]
                for i in range(head_dim // 2):
                    distance = m[a] - n[b]
                    zeta = (2 * i / head_dim + gamma) / (1 + gamma)
                    turn = cmath.exp(1j * distance * base ** (-2 * i / head_dim))
                    product = complex(q[2 * i], q[2 * i + 1]) * complex(k[2 * i], -k[2 * i + 1])
                    grown = (product * turn).real * zeta ** (distance / scale_base)
                    out[h, a, b] += grown / math.sqrt(head_dim)
    return out
