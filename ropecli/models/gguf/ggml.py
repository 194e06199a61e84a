"""What ggml computes of a rotation, in float64: frequencies, YaRN's factors, axes.

It differs from other stacks in that the ramp of YaRN always begins and ends at whole pairs, and
in who multiplies what: the rotation carries 1 + 0.1 ln s itself, and the loader divides by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """What llama.cpp hands to ggml for one kind of block."""

    n_rot: int  #: Coordinates that are rotated.
    base: float
    factor: float  #: Divides the frequencies: 1 / freq_scale.
    ext_factor: float  #: The share of YaRN's ramp, 0 to 1.
    attn_factor: float  #: Multiplies cos and sin, before the rotation's own factor.
    beta_fast: float
    beta_slow: float
    original: int  #: Positions before the frequencies were scaled.

    @property
    def plain(self) -> NDArray[np.float64]:
        """base^(-2i/n) of each pair."""
        return np.power(self.base, -2.0 * np.arange(self.n_rot // 2) / self.n_rot)

    def inv_freq(self, divisors: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Radians per position of each pair."""
        own = self.plain if divisors is None else self.plain / divisors[: self.n_rot // 2]
        if not self.ext_factor:
            return own / self.factor
        kept = self.ext_factor * (1.0 - self._ramp())
        return own / self.factor * (1.0 - kept) + own * kept

    def _ramp(self) -> NDArray[np.float64]:
        low, high = (
            self.n_rot * math.log(self.original / (beta * 2 * math.pi)) / (2 * math.log(self.base))
            for beta in (self.beta_fast, self.beta_slow)
        )
        low, high = max(0, math.floor(low)), min(self.n_rot - 1, math.ceil(high))
        return np.clip((np.arange(self.n_rot // 2) - low) / max(0.001, high - low), 0.0, 1.0)

    @property
    def attention_factor(self) -> float:
        """What cos and sin are multiplied by in the end."""
        own = 1.0 + 0.1 * math.log(self.factor) if self.ext_factor else 1.0
        return self.attn_factor * own


def mscale(factor: float, k: float = 1.0) -> float:
    """YaRN's 0.1 k ln s + 1 above s = 1, else 1."""
    return 0.1 * k * math.log(factor) + 1.0 if factor > 1 else 1.0


def loaded_attn_factor(factor: float, log_multiplier: float, *, deepseek2: bool) -> float:
    """The attn_factor of YaRN as llama.cpp sets it, whatever its key says.

    It divides by what the rotation will multiply with, and by m(s, log_multiplier) where that key
    is used. The numerator is m(s, 1), except in deepseek2 with another multiplier than 1.
    """
    wanted = mscale(factor)
    if log_multiplier:
        numerator = log_multiplier if deepseek2 and log_multiplier != 1.0 else 1.0
        wanted = mscale(factor, numerator) / mscale(factor, log_multiplier)
    return wanted / (1.0 + 0.1 * math.log(factor))


def softmax_factor(rotation: Rotation, log_multiplier: float) -> float:
    """What DeepSeek's score is multiplied by."""
    logarithm = 0.1 * math.log(rotation.factor)
    scale = rotation.attn_factor * (1.0 + logarithm) * (1.0 + log_multiplier * logarithm)
    return scale**2


def axes(sections: Sequence[int], count: int, *, interleaved: bool) -> tuple[int, ...]:
    """The axis of each pair: time, height, width, and a fourth that is 0 for text.

    Args:
        sections: Pairs of each axis, four numbers; they begin anew where they end.
        count: Pairs in all.
        interleaved: Whether the first three take turns; what they leave is the fourth's, unlike
            in Transformers, where it is the first's.
    """
    ends = np.cumsum(sections)
    sectors = [i % int(ends[-1]) for i in range(count)]
    if not interleaved:
        return tuple(int(np.searchsorted(ends, sector, side="right")) for sector in sectors)
    return tuple(s % 3 if s < 3 * sections[s % 3] else 3 for s in sectors)
