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
    return f"dim {rope.head_dim}{partial}, {frequencies(rope)}"


def frequencies(rope: Rotary) -> str:
    """The base and the rope type, with its factor."""
    if rope.base is None:
        return f"{rope.rope_type} frequencies"
    factor = None if rope.formula is None else rope.formula.get("factor")
    is_plain = rope.formula is not None and rope.formula.is_plain
    scaled = "" if is_plain else f", {rope.rope_type}"
    scaled += f" factor {exact(factor)}" if scaled and factor is not None else ""
    return f"base {exact(rope.base)}{scaled}"


def sequences(rope: Rotary) -> str | None:
    """Which sequences the frequencies are for; None where they are for all."""
    if not rope.depends_on_length:
        return None
    used = rope.sequence_length
    return "short sequences" if used is None else f"sequences of {used:,}"


def called(curve: Decay) -> str:
    """What tells one curve from others: its model, and its encoding."""
    named = "" if curve.name is None else f"{curve.name}: "
    return named + label(curve.rope)
