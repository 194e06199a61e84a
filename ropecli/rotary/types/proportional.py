"""Proportional RoPE: the slow pairs of the whole head are not rotated."""

from __future__ import annotations

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import positive
from ropecli.rotary.frequencies import Table, geometric


def proportional(
    *, dim: int, base: float, partial_rotary_factor: float = 1.0, factor: float = 1.0
) -> Table:
    """The first int(p d // 2) pairs have base^(-2i/d), the others 0 (p-RoPE).

    Barbero et al. 2024, arXiv:2410.06205, section 6; Gemma 4. Unlike with a smaller rotary dim,
    exponents and pairs span the whole head.

    Args:
        dim: Denominator of the exponents, and coordinates that are paired.
        base: The base.
        partial_rotary_factor: The share p of pairs that are rotated, 0 to 1.
        factor: Divides every frequency, finite and above 0.

    Raises:
        ArgumentError: A value out of range.
        ArgumentTypeError: A parameter that is not a number.
    """
    share = (
        0.0
        if partial_rotary_factor == 0
        else positive("partial_rotary_factor", partial_rotary_factor)
    )
    if share > 1:
        msg = f"partial_rotary_factor must be from 0 to 1, got {share:g}"
        raise ArgumentError(msg)
    turning = int(share * dim // 2)
    inv_freq = np.zeros(dim // 2)
    inv_freq[:turning] = geometric(base, turning, denominator=dim)
    return Table(inv_freq=inv_freq / positive("factor", factor))
