"""p-RoPE: only the share p of pairs with the highest frequencies rotates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.numbers import not_negative
from ropecli.rotary.frequencies import Table, geometric


def p_rope(*, dim: int, base: float, p: float) -> Table:
    """The first int(p d // 2) pairs have base^(-2i/d), the others 0.

    Barbero et al. 2024, arXiv:2410.06205, section 6. p = 1 is RoPE, p = 0 is NoPE. Unlike with a
    smaller rotary dim, exponents and pairs span the whole head.

    Args:
        dim: Denominator of the exponents, and coordinates that are paired.
        base: The base.
        p: Share of pairs that rotate, 0 to 1: those of the highest frequencies.
    """
    return Table(inv_freq=highest_frequencies("p", p, dim=dim, base=base))


def highest_frequencies(name: str, share: float, *, dim: int, base: float) -> NDArray[np.float64]:
    """The geometric table of a whole head, 0 for all but a share of its pairs, rounded down."""
    if not_negative(name, share) > 1:
        raise ArgumentError(f"{name} must be from 0 to 1, got {share:g}")
    rotated = int(share * dim // 2)
    inv_freq = np.zeros(dim // 2)
    inv_freq[:rotated] = geometric(base, rotated, denominator=dim)
    return inv_freq
