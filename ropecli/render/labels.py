"""What numbers and encodings are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropecli.analyses.decay import Decay
    from ropecli.rotary import Rotary


def exact(number: float) -> str:
    """The shortest digits that mean this very float64, a whole number without its point."""
    return repr(float(number)).removesuffix(".0")


def label(rope: Rotary) -> str:
    """What tells one encoding from others."""
    partial = "" if rope.rotary_dim == rope.head_dim else f", rotary dim {rope.rotary_dim}"
    if rope.base is None:
        return f"dim {rope.head_dim}{partial}, {rope.rope_type} frequencies"
    factor = dict(rope.parameters).get("factor")
    scaled = "" if rope.rope_type == "default" else f", {rope.rope_type}"
    scaled += f" factor {exact(factor)}" if scaled and factor is not None else ""
    return f"dim {rope.head_dim}{partial}, base {exact(rope.base)}{scaled}"


def changes_with_length(rope: Rotary) -> bool:
    """Whether other sequence lengths have other frequencies."""
    fixed = "alpha" in dict(rope.parameters)
    return rope.rope_type in ("dynamic", "longrope") and not fixed


def called(curve: Decay) -> str:
    """What tells one curve from others: its model, and its encoding."""
    named = "" if curve.name is None else f"{curve.name}: "
    return named + label(curve.rope)
