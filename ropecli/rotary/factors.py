"""Factors on the score that some models have: YaRN's mscale, LongRoPE's, Llama 4's temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.numbers import number


def mscale(factor: float, k: float = 1.0) -> float:
    """YaRN's m(s, k) = 0.1 k ln s + 1 above s = 1, else 1 (arXiv:2309.00071, Eq. 22)."""
    return 0.1 * number("mscale", k) * math.log(factor) + 1.0 if factor > 1 else 1.0


def mscale_ratio(factor: float, k: float | None, k_all_dim: float | None) -> float:
    """The attention factor of YaRN: m(s, k) / m(s, k_all_dim) given both, else m(s, 1)."""
    if k and k_all_dim:
        return mscale(factor, k) / mscale(factor, k_all_dim)
    return mscale(factor)


def longrope_factor(factor: float, original: float) -> float:
    """The attention factor of LongRoPE: sqrt(1 + ln s / ln L) above s = 1, else 1."""
    if factor > 1 and original < 2:
        raise ArgumentError(f"original_max_position_embeddings must be at least 2, got {original}")
    return math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0


def softmax_factor(factor: float, k_all_dim: float | None) -> float:
    """DeepSeek's factor on the score, m(s, k_all_dim)^2 (arXiv:2405.04434, and its code)."""
    return mscale(factor, k_all_dim) ** 2 if k_all_dim else 1.0


@dataclass(frozen=True, kw_only=True)
class Temperature:
    """A factor on the query that grows with its position (Llama 4, Ministral 3)."""

    beta: float  #: Weight of the logarithm.
    length: float  #: Positions after which it rises.
    shift: int = 0  #: Added to the position; 1 in Llama 4, 0 in Ministral 3.

    def __call__(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 + beta ln(1 + floor((m + shift) / length)) at each position, of the same shape."""
        steps = np.floor((positions + self.shift) / self.length)
        return 1.0 + self.beta * np.log1p(np.maximum(steps, 0.0))
