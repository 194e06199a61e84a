"""YaRN: NTK by parts with a ramp over pairs, and a factor on attention."""

from __future__ import annotations

import math

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.numbers import length, positive
from ropecli.rotary.factors import mscale_ratio
from ropecli.rotary.frequencies import Table, plain
from ropecli.rotary.types.ntk_by_parts import ntk_by_parts

RAMPS = ("code", "paper")


def yarn(
    *,
    dim: int,
    base: float,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
    truncate: bool = True,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    ramp: str = "code",
) -> Table:
    """YaRN (Peng et al. 2023, arXiv:2309.00071) as its authors' code computes it and models use it.

    The ramp runs from the index of the pair that turns beta_fast times within the original
    context to that of the pair that turns beta_slow times: d ln(L0 / (2 pi beta)) / (2 ln base).

    Args:
        dim: Denominator of the exponents.
        base: The base, above 1.
        original_max_position_embeddings: Context length before stretching, L0.
        factor: Wanted context length over the original; max_position_embeddings / L0 by default.
        max_position_embeddings: Used if no factor is given.
        beta_fast: Turns of the last unchanged pair; 32 by default.
        beta_slow: Turns of the first fully interpolated pair; 1 by default.
        truncate: Round the ramp's ends outward to whole pairs; the paper's ramp has no such ends.
        attention_factor: Replaces what follows from the factor and both mscales.
        mscale: Used only together with mscale_all_dim: the attention factor is then
            m(factor, mscale) / m(factor, mscale_all_dim). On its own it has no effect.
        mscale_all_dim: As mscale.
        ramp: "code", or "paper" for a ramp linear in turns (Eq. 18), see `ntk_by_parts`.
    """
    context = length("original_max_position_embeddings", original_max_position_embeddings)
    scale = _factor(factor, max_position_embeddings, context)
    # 0 counts as not given, and the last pair as dim - 1, as in the released code.
    fast = positive("beta_fast", beta_fast or 32.0)
    slow = positive("beta_slow", beta_slow or 1.0)
    one_of("ramp", ramp, RAMPS)
    attention = (
        mscale_ratio(scale, mscale, mscale_all_dim)
        if attention_factor is None
        else positive("attention_factor", attention_factor)
    )
    if ramp == "paper":
        by_parts = ntk_by_parts(
            dim=dim,
            base=base,
            factor=scale,
            original_max_position_embeddings=context,
            beta_fast=fast,
            beta_slow=slow,
        )
        return Table(inv_freq=by_parts.inv_freq, attention_factor=attention)
    theta = plain(base, dim)
    if base <= 1:
        raise ArgumentError(f"base must be above 1 for the ramp of yarn, got {base:g}")
    low, high = (
        dim * math.log(context / (2 * math.pi * b)) / (2 * math.log(base)) for b in (fast, slow)
    )
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    if low == high:
        high += 0.001
    stretched_share = np.clip((np.arange(len(theta)) - low) / (high - low), 0.0, 1.0)
    inv_freq = theta / scale * stretched_share + theta * (1 - stretched_share)
    return Table(inv_freq=inv_freq, attention_factor=attention)


def _factor(factor: float | None, longest: int | None, original: int) -> float:
    if factor is not None:
        return positive("factor", factor)
    if longest is None:
        raise ArgumentError(
            "rope type yarn needs factor, or max_position_embeddings to take it from"
        )
    return length("max_position_embeddings", longest) / original
