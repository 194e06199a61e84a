"""Proportional RoPE: p-RoPE as Transformers has it, with a factor."""

from __future__ import annotations

from ropecli.numbers import positive
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types.p_rope import highest_frequencies


def proportional(
    *, dim: int, base: float, partial_rotary_factor: float = 1.0, factor: float = 1.0
) -> Table:
    """The first int(p d // 2) pairs have base^(-2i/d) / factor, the others 0 (Gemma 4).

    Args:
        dim: As in `p_rope`.
        base: As in `p_rope`.
        partial_rotary_factor: The share p of pairs that are rotated, 0 to 1.
        factor: Divides every frequency, finite and above 0.
    """
    name = "partial_rotary_factor"
    theta = highest_frequencies(name, partial_rotary_factor, dim=dim, base=base)
    return Table(inv_freq=theta / positive("factor", factor))
