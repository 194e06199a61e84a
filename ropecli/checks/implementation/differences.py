"""Where the rotation found and the one expected part, field by field."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation import tolerance
from ropecli.checks.implementation.mistakes import mistaken
from ropecli.checks.implementation.step import in_words

if TYPE_CHECKING:
    from ropecli.checks.identify import Identification
    from ropecli.rotary.rotary import Rotary

#: Relative difference of factors, and of a step, that is worth a sentence. bfloat16, whose unit is
#: 2^-8, shows them to 1e-4 over the 2,304 rows that are looked at; factors of real types are
#: further apart, the least of them 0.07 ln 1.1, 7e-3.
CLOSE = 1e-3


def sentences(expect: Rotary, found: Identification) -> list[str]:
    """What differs, a sentence each; what changes most comes first."""
    rope = found.rotary
    if rope is None:
        return []
    texts = [_coordinates(expect, rope) or _pairs(expect, rope)]
    if rope.direction != expect.direction:
        texts.append(
            f"it turns {_way(rope)}, expected {_way(expect)}: negate the sines, or swap the pairs"
        )
    texts += [_axes(expect, rope), _shift(found), _frequencies(expect, rope, found)]
    if abs(rope.attention_factor - expect.attention_factor) > CLOSE * expect.attention_factor:
        texts.append(
            f"attention factor {rope.attention_factor:.6g}, "
            f"expected {expect.attention_factor:.6g}: multiply cos and sin by it"
        )
    return [text for text in texts if text]


def _coordinates(expect: Rotary, rope: Rotary) -> str | None:
    same_dim = rope.rotary_dim == expect.rotary_dim
    if same_dim and rope.rotary_offset == expect.rotary_offset:
        return None
    where = f"{_layout(rope)}, " if rope.layout != expect.layout else ""
    return (
        f"it rotates {where}{rope.rotary_dim} coordinates from {rope.rotary_offset} on, expected a "
        f"rotary dim of {expect.rotary_dim} from {expect.rotary_offset} on"
        + (f", {_layout(expect)}" if where else "")
        + f" (pairs {rope.input_pairs[0]}, ..., expected {expect.input_pairs[0]}, ...)"
    )


def _pairs(expect: Rotary, rope: Rotary) -> str | None:
    # The two coordinates of a pair may come in either order: that is a direction.
    if {frozenset(pair) for pair in rope.input_pairs} != {
        frozenset(pair) for pair in expect.input_pairs
    }:
        first, wanted = rope.input_pairs[0], expect.input_pairs[0]
        cure = (
            "(2i, 2i+1)" if expect.layout == "interleaved" else f"(i, i + {wanted[1] - wanted[0]})"
        )
        if expect.layout == "custom" or rope.layout == "custom":
            return (
                f"it pairs coordinates {first}, ..., expected pairs {wanted}, ... "
                f"({_layout(expect)})"
            )
        return (
            f"it rotates {_layout(rope)}, expected {_layout(expect)}: permute the q/k weights "
            f"or pair {cure}"
        )
    if rope.reorders != expect.reorders or rope.output_pairs != expect.output_pairs:
        if rope.reorders and not expect.reorders:
            return (
                f"it reads pairs {_layout(rope)} and writes them elsewhere "
                f"({_written(rope)}), expected where they were read"
            )
        return f"it writes pairs {_written(rope)}, expected {_written(expect)}"
    return None


def _written(rope: Rotary) -> str:
    first, second = rope.output_pairs[0]
    if second - first == rope.rotary_dim // 2:
        return "half-split"
    return "interleaved" if second - first == 1 else f"at ({first}, {second}), ..."


def _axes(expect: Rotary, rope: Rotary) -> str | None:
    if len(rope.axis) != len(expect.axis) or rope.axis == expect.axis:
        return None
    pair = next(i for i, (a, b) in enumerate(zip(rope.axis, expect.axis, strict=True)) if a != b)
    return (
        f"pair {pair} follows axis {rope.axis[pair]} of the position, expected {expect.axis[pair]}"
    )


def _shift(found: Identification) -> str | None:
    if found.position_step is not None and abs(found.position_step - 1) > CLOSE:
        return in_words(found.position_step)
    if found.position_offset is not None and abs(found.position_offset) > CLOSE:
        return f"positions have an offset of {found.position_offset:g}, expected 0"
    return None


def _frequencies(expect: Rotary, rope: Rotary, found: Identification) -> str | None:
    here, there = rope.inv_freq, expect.inv_freq
    if len(here) != len(there):
        text = _formula(expect, rope)
        return None if rope.formula is None else text
    allowed = tolerance.phase(there, there) + 1e-5 * np.abs(there)
    if (np.abs(here - there) <= allowed).all():
        return None
    pair = int((np.abs(here - there) / np.maximum(np.abs(there), 1e-300)).argmax())
    text = mistaken(expect, here, found.uncertainty) or _formula(expect, rope)
    return (
        f"other frequencies: {text or 'as measured'}; pair {pair} turns by {here[pair]:.6g} "
        f"per position, expected {there[pair]:.6g}"
    )


def _formula(expect: Rotary, rope: Rotary) -> str | None:
    """Base and rope type, or the parameters of the same type that differ."""
    if rope.formula is not None and rope.rope_type == expect.rope_type:
        ours, theirs = dict(rope.parameters), dict(expect.parameters)
        differ = [
            f"{key} {_short(ours.get(key))}, expected {_short(theirs.get(key))}"
            for key in sorted({*ours, *theirs} - {"dim"})
            if _short(ours.get(key)) != _short(theirs.get(key))
        ]
        return "; ".join(differ) or None
    return f"the frequencies are those of {_named(rope)}, expected {_named(expect)}"


def _named(rope: Rotary) -> str:
    if rope.formula is None:
        return "no known type"
    given = dict(rope.parameters)
    names = ("factor", "original_max_position_embeddings", "truncate")
    own = "".join(f", {key} {_short(given[key])}" for key in names if given.get(key) is not None)
    base = "" if rope.base is None else f", base {rope.base:.10g}"
    return f"{rope.rope_type}{base}{own}"


def _short(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _way(rope: Rotary) -> str:
    return "forward" if rope.direction == "forward" else "reversed, the other way"


def _layout(rope: Rotary) -> str:
    return {"half": "half-split", "custom": "pairs of its own"}.get(rope.layout, rope.layout)
