"""NTK-aware scaling: a larger base, so that only the slowest pair is stretched in full."""

from __future__ import annotations

from ropecli.numbers import positive, stretched_base
from ropecli.rotary.frequencies import Table, plain


def ntk(*, dim: int, base: float, factor: float) -> Table:
    """base * factor^(d/(d-2)) (bloc97 2023; Peng et al., arXiv:2309.00071, Eq. 16).

    The fastest pair keeps its frequency, the slowest is divided by the factor.

    Args:
        dim: Denominator of the exponents, at least 4.
        base: The base before stretching.
        factor: Wanted context length over the trained one, finite and above 0.
    """
    larger = stretched_base(base, positive("factor", factor), dim)
    return Table(inv_freq=plain(larger, dim), base=larger)
