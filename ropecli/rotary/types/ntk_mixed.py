"""NTK mixed: every pair is stretched by its own factor, and all together by the one wanted."""

from __future__ import annotations

import math

import numpy as np

from ropecli.numbers import positive
from ropecli.rotary.frequencies import Table, plain


def ntk_mixed(*, dim: int, base: float, factor: float, mixed_b: float = 1.0) -> Table:
    """theta_i / exp(a (i+1)^b), a = ln(factor) / (d/2)^b (Su 2023, kexue.fm/archives/9706).

    b = 1 stretches every pair by factor^(2/d) more than the one before ("NTK fixed"); Su
    recommends 0.625. In vLLM it is the rope type "ntk" with `mixed_b`.

    Args:
        dim: Denominator of the exponents.
        base: The base.
        factor: Wanted context length over the trained one, finite and above 0.
        mixed_b: The exponent b, finite and above 0.
    """
    exponent = positive("mixed_b", mixed_b)
    table = plain(base, dim)
    share = (np.arange(1, len(table) + 1) / (dim / 2)) ** exponent
    return Table(inv_freq=table / np.exp(math.log(positive("factor", factor)) * share))
