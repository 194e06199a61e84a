"""Scores and their bounds by Abel summation, RoFormer Eq. 35-37, in about 29 digits.

The shapes throughout: a row is one relative distance r with two vectors. turn is cos and sin of
r theta_i, (count, pairs) each; h is the real and the imaginary part of h_i = q_i conj(k_i), the
pairs seen as complex numbers. S_j is the sum of e^{i r theta_i} over i < j.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.reference.double_double import DoubleDouble

Array = NDArray[np.float64]
Complex = tuple[DoubleDouble, DoubleDouble]


def products(q: Array, k: Array, pairs: NDArray[np.int64]) -> Complex:
    """h_0 ... h_{d/2-1} of vectors (count, head_dim)."""
    first, second = pairs.T
    a, b = DoubleDouble(q[:, first]), DoubleDouble(q[:, second])
    c, d = k[:, first], k[:, second]
    return a * c + b * d, b * c - a * d


def partial_sums(turn: Complex) -> Complex:
    """S_1 ... S_{d/2}."""
    return turn[0].cumsum(), turn[1].cumsum()


def relative_upper_bound(turn: Complex) -> Array:
    """Figure 2: the mean of |S_j| over j, (count,) float64."""
    sizes = _size(partial_sums(turn))
    return np.asarray(sizes.sum().high / sizes.high.shape[-1])


def score(turn: Complex, h: Complex) -> DoubleDouble:
    """Eq. 35: Re sum_i h_i e^{i r theta_i}, (count,)."""
    return (h[0] * turn[0] - h[1] * turn[1]).sum()


def score_by_parts(turn: Complex, h: Complex) -> DoubleDouble:
    """Eq. 36: the same score as -Re sum_i S_{i+1} (h_{i+1} - h_i), with h_{d/2} = 0; (count,)."""
    sums, steps = partial_sums(turn), _steps(h)
    return -(sums[0] * steps[0] - sums[1] * steps[1]).sum()


def bounds(turn: Complex, h: Complex) -> tuple[DoubleDouble, DoubleDouble]:
    """Eq. 37: sum |S_{i+1}| |h_{i+1} - h_i|, and max |h_{i+1} - h_i| sum |S_{i+1}|; (count,)."""
    sizes, steps = _size(partial_sums(turn)), _size(_steps(h))
    return (sizes * steps).sum(), steps.max() * sizes.sum()


def _size(numbers: Complex) -> DoubleDouble:
    real, imaginary = numbers
    return (real * real + imaginary * imaginary).sqrt()


def _steps(h: Complex) -> Complex:
    """h_{i+1} - h_i, with h_{d/2} = 0."""
    real, imaginary = (DoubleDouble(_next(x.high), _next(x.low)) - x for x in h)
    return real, imaginary


def _next(x: Array) -> Array:
    return np.concatenate([x[..., 1:], np.zeros_like(x[..., :1])], axis=-1)
