"""Llama 3.1: slow pairs interpolated, fast ones unchanged, a smooth ramp between."""

from __future__ import annotations

import numpy as np

from ropecli.numbers import length, positive
from ropecli.rotary.frequencies import Table, plain


def llama3(
    *,
    dim: int,
    base: float,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: int,
) -> Table:
    """The scaling of Llama 3.1, as in its released code; arXiv:2407.21783 leaves it out.

    With w a pair's wavelength and L0 the original context: unchanged where w < L0 / high,
    divided by the factor where w > L0 / low, and between (1 - s) theta / factor + s theta with
    s = (L0 / w - low) / (high - low). Where high is not above low (Llama 4 Scout has 1 for both)
    there is a step at L0 / low.

    Args:
        dim: Denominator of the exponents.
        base: The base.
        factor: Wanted context length over the original, finite and above 0.
        low_freq_factor: A pair with at most this many turns within L0 is interpolated.
        high_freq_factor: A pair with at least this many turns within L0 is unchanged.
        original_max_position_embeddings: Context length before stretching, L0.
    """
    theta = plain(base, dim)
    low = positive("low_freq_factor", low_freq_factor)
    high = positive("high_freq_factor", high_freq_factor)
    context = length("original_max_position_embeddings", original_max_position_embeddings)
    turns = context * theta / (2 * np.pi)
    if high > low:
        kept = np.clip((turns - low) / (high - low), 0.0, 1.0)
    else:
        kept = np.where(turns >= low, 1.0, 0.0)
    return Table(inv_freq=(1 - kept) * theta / positive("factor", factor) + kept * theta)
