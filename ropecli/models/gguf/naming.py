"""The rope type of `ropecli.rope` that gives what ggml computes.

A GGUF has numbers, not names: the divisors of Llama 3.1 are a tensor. A type is named only where
its own formula gives the same frequencies; else they are given as a list of divisors, which is
what LongRoPE takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.errors import RopecliError
from ropecli.rotary import rope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.models.gguf.ggml import Rotation

    Named = tuple[str, dict[str, Any]]

_LLAMA3 = {
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_SILENT = 1e10  #: A divisor that stops a pair; Gemma 4's is 1e30.


@np.errstate(all="ignore")  # a divisor may be anything; the type's own formula then refuses it
def named(
    rotation: Rotation,
    freqs: NDArray[np.float64] | None,
    long_factors: NDArray[np.float64] | None,
    short_factors: NDArray[np.float64] | None,
) -> Named:
    """A rope type and its parameters, without the base.

    Args:
        rotation: What ggml is handed.
        freqs: The tensor rope_freqs.weight, which counts before the others.
        long_factors: The tensor rope_factors_long.weight.
        short_factors: The tensor rope_factors_short.weight.
    """
    if freqs is None and (long_factors is not None or short_factors is not None):
        return _divided(rotation, rotation.inv_freq(short_factors), rotation.inv_freq(long_factors))
    table = rotation.inv_freq(freqs)
    if freqs is None:
        # The same formula, summed in another order.
        if _same(rotation, found := _without_divisors(rotation), table, tolerance=1e-12):
            return found
    elif rotation.factor == 1 and not rotation.ext_factor and rotation.attention_factor == 1:
        for found in (_proportional(freqs, rotation), _llama3(freqs)):
            # The tensor is float32, off by 6e-8; a wrong guess is off by the divisors' steps.
            if _same(rotation, found, table, tolerance=1e-6):
                return found
    return _divided(rotation, table, table)


def _without_divisors(rotation: Rotation) -> Named:
    if rotation.ext_factor:
        parameters = {
            "factor": rotation.factor,
            "original_max_position_embeddings": rotation.original,
            "attention_factor": rotation.attention_factor,
            "beta_fast": rotation.beta_fast,
            "beta_slow": rotation.beta_slow,
        }
        return "yarn", parameters
    if rotation.factor == 1:
        return "default", {}
    return "linear", {"factor": rotation.factor}


def _proportional(freqs: NDArray[np.float64], rotation: Rotation) -> Named:
    turning = int(np.count_nonzero(freqs[: rotation.n_rot // 2] < _SILENT))
    return "proportional", {"partial_rotary_factor": 2 * turning / rotation.n_rot}


def _llama3(freqs: NDArray[np.float64]) -> Named:
    return "llama3", {"factor": float(freqs.max()), **_LLAMA3}


def _divided(rotation: Rotation, short: NDArray[np.float64], long: NDArray[np.float64]) -> Named:
    parameters = {
        "short_factor": (rotation.plain / short).tolist(),
        "long_factor": (rotation.plain / long).tolist(),
        "original_max_position_embeddings": max(rotation.original, 2),  # the least it takes
        "attention_factor": rotation.attention_factor,
    }
    return "longrope", parameters


def _same(
    rotation: Rotation, candidate: Named, table: NDArray[np.float64], *, tolerance: float
) -> bool:
    """Whether a type gives a table, and the rotation's attention factor."""
    name, parameters = candidate
    try:
        got = rope(name, head_dim=rotation.n_rot, rope_theta=rotation.base, **parameters)
    except RopecliError:  # a value that the type does not take
        return False
    if abs(got.attention_factor - rotation.attention_factor) > 1e-12:
        return False
    # A pair that stands still has 0 by name and 1e-30 of its frequency by divisor.
    return bool(np.allclose(got.inv_freq, table, rtol=tolerance, atol=1.0 / _SILENT**2))
