"""NTK by parts: fast pairs unchanged, slow ones interpolated, a ramp between."""

from __future__ import annotations

import numpy as np

from ropecli.numbers import increasing, length, positive
from ropecli.rotary.frequencies import Table, plain


def ntk_by_parts(
    *,
    dim: int,
    base: float,
    factor: float,
    original_max_position_embeddings: int,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
) -> Table:
    """(1 - g) theta / factor + g theta (Peng et al. 2023, arXiv:2309.00071, Eq. 17-20).

    g rises from 0 to 1 as a pair's turns within the original context go from beta_slow (the
    paper's alpha) to beta_fast (its beta), linearly in turns. YaRN's released code has its ramp
    linear in the index of the pair instead: see `yarn`.

    Args:
        dim: Denominator of the exponents.
        base: The base.
        factor: Wanted context length over the original, finite and above 0.
        original_max_position_embeddings: Context length before stretching.
        beta_fast: A pair with at least this many turns is unchanged; above beta_slow.
        beta_slow: A pair with at most this many turns is interpolated; above 0.
    """
    theta = plain(base, dim)
    context = length("original_max_position_embeddings", original_max_position_embeddings)
    slow, fast = increasing("beta_slow", beta_slow, "beta_fast", beta_fast)
    turns = context * theta / (2 * np.pi)
    kept = np.clip((turns - slow) / (fast - slow), 0.0, 1.0)
    return Table(inv_freq=(1 - kept) * theta / positive("factor", factor) + kept * theta)
