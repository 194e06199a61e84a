"""DeepSeek's YaRN: the same frequencies, and a factor on the score as well."""

from __future__ import annotations

from dataclasses import replace

from ropecli.numbers import positive
from ropecli.rotary.factors import mscale as m
from ropecli.rotary.factors import softmax_factor
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types.yarn import yarn


def deepseek_yarn(
    *,
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float = 1.0,
    mscale_all_dim: float = 0.0,
) -> Table:
    """YaRN as DeepSeek-V2 and V3 were released with (arXiv:2405.04434).

    cos and sin carry m(factor, mscale) / m(factor, mscale_all_dim), the score carries
    m(factor, mscale_all_dim)^2, with m(s, k) = 0.1 k ln s + 1.

    Args:
        dim: Denominator of the exponents.
        base: The base, above 1.
        factor: Wanted context length over the original, finite and above 0.
        original_max_position_embeddings: Context length before stretching.
        beta_fast: As in `yarn`.
        beta_slow: As in `yarn`.
        mscale: k of the numerator.
        mscale_all_dim: k of the denominator and of the softmax factor; 0 leaves both at 1.
    """
    scale = positive("factor", factor)
    table = yarn(
        dim=dim,
        base=base,
        factor=scale,
        original_max_position_embeddings=original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        attention_factor=m(scale, mscale) / m(scale, mscale_all_dim),
    )
    return replace(table, softmax_factor=softmax_factor(scale, mscale_all_dim))
