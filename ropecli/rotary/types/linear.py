"""Position interpolation: every frequency divided by one factor."""

from __future__ import annotations

from ropecli.numbers import positive
from ropecli.rotary.frequencies import Table, plain


def linear(*, dim: int, base: float, factor: float) -> Table:
    """RoPE for a context `factor` times longer (Chen et al. 2023, arXiv:2306.15595, Eq. 4).

    The paper divides positions; dividing frequencies is the same rotation.

    Args:
        dim: Denominator of the exponents.
        base: The base.
        factor: Wanted context length over the trained one, finite and above 0.
    """
    return Table(inv_freq=plain(base, dim) / positive("factor", factor))
