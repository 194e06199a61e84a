"""Labels of numbers, encodings and curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ropecli.names import join
from ropecli.render.console import visible

if TYPE_CHECKING:
    from ropecli.checks.expectation import Expectation
    from ropecli.rotary import Rotary

#: Fields of an encoding in a document.
ROPE_FIELDS = (
    *("rope_type", "base", "head_dim", "rotary_dim", "rotary_offset", "layout", "direction"),
    *("attention_factor", "softmax_factor", "compact_inv_freq as inv_freq", "wavelength", "axis"),
    *("pairs_in", "pairs_out"),
)


def axes(rope: Rotary) -> str:
    """Return the number of axes of a position, and how many pairs follow each."""
    if rope.axis is None:
        return f"{rope.axes}, which rotate a pair together"
    counts = [rope.axis.count(axis) for axis in range(rope.axes)]
    return f"{rope.axes}, with {', '.join(map(str, counts))} pairs"


def shortest_repr(number: float) -> str:
    """Return the fewest digits that give this float64 again, a whole number without its point."""
    return repr(float(number)).removesuffix(".0")


def quantity(count: int, noun: str) -> str:
    """Return a number of things: 1 pair, 2 pairs."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def with_unit(number: float, units: Sequence[str]) -> str:
    """Return a number with three digits, in the unit that fits, each 1000 times the one before."""
    for unit in units[:-1]:
        if number < 999.5:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} {units[-1]}" if number < 999.5 else f"{number:,.0f} {units[-1]}"


def label(rope: Rotary) -> str:
    """Return the dims, base and rope type of an encoding."""
    partial = "" if rope.rotary_dim == rope.head_dim else f", rotary dim {rope.rotary_dim}"
    return f"dim {rope.head_dim}{partial}, {frequencies(rope)}"


def expected_words(expected: Expectation) -> str:
    """Return what is expected, with its grounds, and what may be any; "" for nothing."""
    rope, grounds = expected.rope, expected.grounds
    shown: list[tuple[str, str]] = []  # words, and their ground
    free: list[str] = []
    if rope is not None and grounds:
        texts = {
            "frequencies": ("rope_type", frequencies(rope)),
            "layout": ("layout", f"layout {rope.layout}"),
            "rotary dim": ("rotary_dim", f"rotary dim {rope.rotary_dim}"),
        }
        shown = [(text, grounds[name]) for name, text in texts.values() if name in grounds]
        free = [word for word, (name, _) in texts.items() if name not in grounds]
        if expected.is_whole and len({*grounds.values()}) == 1:
            shown = [(f"{label(rope)}, {rope.layout}", grounds["layout"])]
    if expected.offset:
        shown.append((f"positions that start at {expected.offset:g}", expected.offset_ground))
    said = [
        f"{', '.join(text for text, own in shown if own == ground)} ({ground})"
        for ground in dict.fromkeys(ground for _, ground in shown)
    ]
    return "; ".join([*said, *([f"any {join(free)}"] if free else [])])


def expected_as_json(expected: Expectation) -> dict[str, Any]:
    """Return the value and the ground of each property that is expected."""
    values = {
        name: (getattr(expected.rope, name), ground) for name, ground in expected.grounds.items()
    }
    values["offset"] = expected.offset, expected.offset_ground
    return {name: {"value": value, "ground": ground} for name, (value, ground) in values.items()}


def frequencies(rope: Rotary) -> str:
    """Return the base and the rope type, with its factor."""
    if rope.base is None:
        return f"{rope.rope_type} frequencies"
    factor = None if rope.formula is None else rope.formula.get("factor")
    is_plain = rope.formula is not None and rope.formula.is_plain
    scaled = "" if is_plain else f", {rope.rope_type}"
    scaled += f" factor {shortest_repr(factor)}" if scaled and factor is not None else ""
    return f"base {shortest_repr(rope.base)}{scaled}"


def sequences(rope: Rotary) -> str | None:
    """Return which sequences the frequencies are for; None where they are for all."""
    if not rope.depends_on_length:
        return None
    used = rope.sequence_length
    return "short sequences" if used is None else f"sequences of {used:,}"


class NamedResult(Protocol):
    """A result of one encoding."""

    @property
    def name(self) -> str | None:
        """Return the name in front of the encoding's, such as a model's."""

    @property
    def rope(self) -> Rotary:
        """Return the encoding."""


def curve_label(curve: NamedResult) -> str:
    """Return the model of a curve, if it has one, and its encoding."""
    named = "" if curve.name is None else f"{visible(curve.name)}: "
    return named + label(curve.rope)


#: What tells an encoding apart in a document: fields of a result that has one.
ENCODING = (("label", curve_label), "rope.head_dim as dim", "rope.base", "rope.rope_type")
