"""Linear attention with rotated features, RoFormer Eq. 19, term by term."""

from __future__ import annotations

import cmath
import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def attention(
    phi_q: Array, phi_k: Array, v: Array, inv_freq: Array, *, causal: bool = False
) -> Array:
    """sum_n (R_m phi(q_m)) . (R_n phi(k_n)) v_n / sum_n phi(q_m) . phi(k_n)."""
    out = np.empty((len(phi_q), v.shape[1]))
    for m in range(len(phi_q)):
        seen = range(m + 1 if causal else len(phi_k))
        top = [weight(phi_q[m], phi_k[n], m - n, inv_freq) for n in seen]
        below = math.fsum(float(phi_q[m] @ phi_k[n]) for n in seen)
        for e in range(v.shape[1]):
            out[m, e] = math.fsum(top[n] * v[n, e] for n in seen) / below
    return out


def weight(q: Array, k: Array, distance: int, inv_freq: Array) -> float:
    """Re sum_i q_i conj(k_i) e^{i distance theta_i}, on pairs (2i, 2i+1)."""
    total = 0.0
    for i, theta in enumerate(inv_freq):
        product = complex(q[2 * i], q[2 * i + 1]) * complex(k[2 * i], -k[2 * i + 1])
        total += (product * cmath.exp(1j * distance * theta)).real
    return total


def elu_plus_one(x: Array) -> Array:
    """Katharopoulos et al. 2020, Eq. 7."""
    return np.array([[c + 1 if c > 0 else math.exp(c) for c in row] for row in x])
