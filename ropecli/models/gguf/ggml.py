"""The rotation as ggml computes it, in float64: frequencies, YaRN's factors, axes.

It differs from other stacks in two ways. YaRN's ramp always begins and ends at whole pairs. And
the rotation itself multiplies by 1 + 0.1 ln s, which the loader divides out.

A GGUF has numbers, not names of rope types: the divisors of Llama 3.1 are a tensor.
`name_rope_type` names a type only where its own formula gives the same frequencies; others become
a list of divisors, as LongRoPE takes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import RopecliError
from ropecli.models.keys import ORIGINAL
from ropecli.rotary import rope
from ropecli.rotary.factors import mscale

Named = tuple[str, dict[str, Any]]
_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    ORIGINAL: 8192,
}
_STATIC = 1e10  #: A divisor that stops a pair; Gemma 4's is 1e30.


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """The arguments of ggml's rotation for one kind of block."""

    n_rot: int  #: Coordinates that are rotated.
    base: float
    factor: float  #: Divides the frequencies: 1 / freq_scale.
    ext_factor: float  #: Weight of YaRN's ramp, 0 to 1.
    attn_factor: float  #: Multiplies cos and sin, before the rotation's own factor.
    beta_fast: float
    beta_slow: float
    original: int  #: Positions before the frequencies were scaled.

    @property
    def plain(self) -> NDArray[np.float64]:
        """base^(-2i/n) of each pair."""
        return np.power(self.base, -2.0 * np.arange(self.n_rot // 2) / self.n_rot)

    def inv_freq(self, divisors: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the radians per position of each pair."""
        divided = self.plain if divisors is None else self.plain / divisors[: self.n_rot // 2]
        if not self.ext_factor:
            return divided / self.factor
        kept = self.ext_factor * (1.0 - self._ramp())
        return divided / self.factor * (1.0 - kept) + divided * kept

    def _ramp(self) -> NDArray[np.float64]:
        low, high = (
            self.n_rot * math.log(self.original / (beta * 2 * math.pi)) / (2 * math.log(self.base))
            for beta in (self.beta_fast, self.beta_slow)
        )
        low, high = max(0, math.floor(low)), min(self.n_rot - 1, math.ceil(high))
        return np.clip((np.arange(self.n_rot // 2) - low) / max(0.001, high - low), 0.0, 1.0)

    @property
    def attention_factor(self) -> float:
        """The factor on cos and sin in all."""
        return self.attn_factor * (own_factor(self.factor) if self.ext_factor else 1.0)


def own_factor(factor: float) -> float:
    """Return what the rotation itself multiplies cos and sin by, with YaRN's ramp."""
    return 1.0 + 0.1 * math.log(factor)


def loaded_attn_factor(factor: float, log_multiplier: float, *, deepseek2: bool) -> float:
    """Return the attn_factor of YaRN as llama.cpp sets it, whatever the value of its key.

    It divides by the rotation's own factor, and by m(s, log_multiplier) where that key is used.
    The numerator is m(s, 1), except in deepseek2 with another multiplier than 1.
    """
    wanted = mscale(factor)
    if log_multiplier:
        numerator = log_multiplier if deepseek2 and log_multiplier != 1.0 else 1.0
        wanted = mscale(factor, numerator) / mscale(factor, log_multiplier)
    return wanted / own_factor(factor)


def softmax_factor(rotation: Rotation, log_multiplier: float) -> float:
    """Return DeepSeek's factor on the score."""
    logarithm = 0.1 * math.log(rotation.factor)
    scale = rotation.attn_factor * (1.0 + logarithm) * (1.0 + log_multiplier * logarithm)
    return scale**2


def axis_of_pairs(sections: Sequence[int], count: int, *, interleaved: bool) -> tuple[int, ...]:
    """Return the axis of each pair: time, height, width, or a fourth that is 0 for text."""
    ends = np.cumsum(sections)
    sectors = [i % int(ends[-1]) for i in range(count)]
    if not interleaved:
        return tuple(int(np.searchsorted(ends, sector, side="right")) for sector in sectors)
    return tuple(s % 3 if s < 3 * sections[s % 3] else 3 for s in sectors)


@np.errstate(all="ignore")  # for any divisor; the type's own formula refuses a bad one
def name_rope_type(
    rotation: Rotation,
    freqs: NDArray[np.float64] | None,
    long_factors: NDArray[np.float64] | None,
    short_factors: NDArray[np.float64] | None,
) -> Named:
    """Return the rope type that gives the same frequencies, and its parameters without the base."""
    if freqs is None and (long_factors is not None or short_factors is not None):
        return _as_divisors(
            rotation, rotation.inv_freq(short_factors), rotation.inv_freq(long_factors)
        )
    table = rotation.inv_freq(freqs)
    guesses: list[Named] = []
    tolerance = 0.0
    if freqs is None:
        guesses, tolerance = [_from_arguments(rotation)], 1e-12  # one formula, summed in two orders
    elif rotation.factor == 1 and not rotation.ext_factor and rotation.attention_factor == 1:
        # The tensor is float32, off by 6e-8; a wrong guess is off by the divisors' steps.
        tolerance = 1e-6
        turning = int(np.count_nonzero(freqs[: rotation.n_rot // 2] < _STATIC))
        guesses = [
            ("proportional", {"partial_rotary_factor": 2 * turning / rotation.n_rot}),
            ("llama3", {"factor": float(freqs.max()), **_LLAMA3}),
        ]
    for guess in guesses:
        if _reproduces(guess, rotation, table, tolerance=tolerance):
            return guess
    return _as_divisors(rotation, table, table)


def _from_arguments(rotation: Rotation) -> Named:
    """Return the rope type of a file without divisors: the arguments of ggml are its parameters."""
    if rotation.ext_factor:
        parameters = {
            "factor": rotation.factor,
            ORIGINAL: rotation.original,
            "attention_factor": rotation.attention_factor,
            "beta_fast": rotation.beta_fast,
            "beta_slow": rotation.beta_slow,
        }
        return "yarn", parameters
    if rotation.factor == 1:
        return "default", {}
    return "linear", {"factor": rotation.factor}


def _as_divisors(
    rotation: Rotation, short: NDArray[np.float64], long: NDArray[np.float64]
) -> Named:
    parameters = {
        "short_factor": (rotation.plain / short).tolist(),
        "long_factor": (rotation.plain / long).tolist(),
        ORIGINAL: max(rotation.original, 2),  # longrope's least
        "attention_factor": rotation.attention_factor,
    }
    return "longrope", parameters


def _reproduces(
    guess: Named, rotation: Rotation, table: NDArray[np.float64], *, tolerance: float
) -> bool:
    """Return whether a type gives the rotation's attention factor, and this table."""
    name, parameters = guess
    try:
        got = rope(name, head_dim=rotation.n_rot, rope_theta=rotation.base, **parameters)
    except RopecliError:  # a value that the type refuses
        return False
    if abs(got.attention_factor - rotation.attention_factor) > 1e-12:
        return False
    # A static pair has 0 by name, and 1e-30 of its frequency by divisor.
    return bool(np.allclose(got.inv_freq, table, rtol=tolerance, atol=1.0 / _STATIC**2))
