"""Plain RoPE: base^(-2i/rotary_dim) for pair i (RoFormer Eq. 15)."""

from __future__ import annotations

from ropecli.rotary.frequencies import Table, plain


def default(*, dim: int, base: float) -> Table:
    """The encoding of the paper (Su et al. 2021, arXiv:2104.09864, Eq. 15)."""
    return Table(inv_freq=plain(base, dim))
