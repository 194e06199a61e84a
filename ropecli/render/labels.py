"""What numbers and encodings are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.rotary import Rotary


def exact(number: float) -> str:
    """The shortest digits that mean this very float64, a whole number without its point."""
    return repr(float(number)).removesuffix(".0")


def label(rope: Rotary) -> str:
    """What tells one encoding from others."""
    partial = "" if rope.rotary_dim == rope.head_dim else f", rotary dim {rope.rotary_dim}"
    if rope.base is None:
        return f"dim {rope.head_dim}{partial}, {rope.rope_type} frequencies"
    return f"dim {rope.head_dim}{partial}, base {exact(rope.base)}"
