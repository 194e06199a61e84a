"""LongRoPE: a searched factor for every pair, one list for short sequences and one for long."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import length, positive
from ropecli.rotary.factors import longrope_factor
from ropecli.rotary.frequencies import Table, finite_table, plain


def longrope(
    *,
    dim: int,
    base: float,
    short_factor: Sequence[float],
    long_factor: Sequence[float],
    original_max_position_embeddings: int,
    max_position_embeddings: int | None = None,
    sequence_length: int | None = None,
    factor: float | None = None,
    attention_factor: float | None = None,
) -> Table:
    """theta_i / e_i (Ding et al. 2024, arXiv:2402.13753), as in Phi-3.

    e is long_factor for sequences longer than the original context, else short_factor; cos and
    sin carry sqrt(1 + ln factor / ln original) at every length.

    Args:
        dim: Denominator of the exponents.
        base: The base.
        short_factor: Positive numbers, one a pair.
        long_factor: As short_factor.
        original_max_position_embeddings: Context length before stretching, above 1.
        max_position_embeddings: Context length now; used if no factor is given.
        sequence_length: Positions in use; the original context by default.
        factor: Context length now over the original.
        attention_factor: Replaces what follows from the factor.
    """
    context = length("original_max_position_embeddings", original_max_position_embeddings)
    used = context if sequence_length is None else length("sequence_length", sequence_length)
    theta = plain(base, dim)
    lists = {"short_factor": short_factor, "long_factor": long_factor}
    factors = {name: finite_table(name, list_, theta.shape) for name, list_ in lists.items()}
    for name, values in factors.items():
        if (values <= 0).any():
            bad = int(np.flatnonzero(values <= 0)[0])
            raise ArgumentError(
                f"{name} must hold numbers above 0, got {values[bad]:g} at index {bad}"
            )
    chosen = factors["long_factor" if used > context else "short_factor"]
    attention = (
        _attention(factor, max_position_embeddings, context)
        if attention_factor is None
        else positive("attention_factor", attention_factor)
    )
    return Table(inv_freq=theta / chosen, attention_factor=attention)


def _attention(factor: float | None, longest: int | None, original: int) -> float:
    if factor is None and longest is None:
        raise ArgumentError(
            "rope type longrope needs factor, max_position_embeddings or attention_factor"
        )
    scale = (
        length("max_position_embeddings", longest) / original
        if factor is None
        else positive("factor", factor)
    )
    return longrope_factor(scale, original)
