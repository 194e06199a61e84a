"""TeleChat3's YaRN: a smaller factor on attention."""

from __future__ import annotations

from ropecli.numbers import positive
from ropecli.rotary.factors import mscale
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types.yarn import yarn


def telechat3_yarn(
    *,
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> Table:
    """YaRN with 0.07 ln(factor) + 1 on cos and sin where YaRN has 0.1 ln(factor) + 1.

    Args:
        dim: As in `yarn`.
        base: As in `yarn`.
        factor: As in `yarn`.
        original_max_position_embeddings: As in `yarn`.
        beta_fast: As in `yarn`.
        beta_slow: As in `yarn`.
    """
    return yarn(
        dim=dim,
        base=base,
        factor=factor,
        original_max_position_embeddings=original_max_position_embeddings,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        attention_factor=mscale(positive("factor", factor), 0.7),
    )
