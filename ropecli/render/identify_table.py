"""The table of what `identify` found: layout, frequencies, positions, agreement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.render.labels import shortest_repr
from ropecli.rotary.layout import named_pairs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification
    from ropecli.rotary import Rotary

#: Parameters whose names are long, as a row of the table has them.
SHORT = {
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "original_max_position_embeddings": "trained on",
    "partial_rotary_factor": "share",
}
LISTED = 3  #: Pairs, or frequencies, that are written out.


def rows(result: Identification, rope: Rotary) -> list[list[str]]:
    """A name and a value each."""
    found = [["layout", _pairs(rope.pairs_in)]]
    if rope.reorders:
        found.append(["written", _pairs(rope.pairs_out)])
    if rope.rotary_dim != rope.head_dim:
        found.append(["rotated", _range(rope)])
    found.append(["base", "none" if rope.base is None else shortest_repr(rope.base)])
    found.append(["scaling", _scaling(rope)])
    if rope.axes > 1:
        found.append(["axes", _axes(rope)])
    found.append(["direction", rope.direction])
    found.append(["position offset", _offset(result)])
    if result.position_step not in (None, 1.0):
        found.append(["position step", f"{result.position_step:.7g}"])
    found.append(["attention factor", f"{rope.attention_factor:.7g}"])
    found.append(["precision", "exact" if result.precision is None else result.precision])
    found.append(["agreement", _agreement(result)])
    return found


def _pairs(pairs: NDArray[np.int64]) -> str:
    """A layout by name, with its formula; or the first few pairs."""
    first, count = int(pairs.min()), len(pairs)
    listed = tuple((a, b) for a, b in pairs.tolist())
    formulas = {
        "interleaved": f"({_shifted('2i', first)}, {_shifted('2i', first + 1)})",
        "half": f"({_shifted('i', first)}, {_shifted('i', first + count)})",
    }
    for name, formula in formulas.items():
        if listed == named_pairs(name, rotary_dim=2 * count, rotary_offset=first):
            return f"{name}: pairs {formula}"
    shown = ", ".join(f"({a}, {b})" for a, b in listed[:LISTED])
    return f"its own: pairs {shown}{', ...' if count > LISTED else ''}"


def _shifted(index: str, first: int) -> str:
    return f"{index} + {first}" if first else index


def _range(rope: Rotary) -> str:
    said = f"{rope.rotary_dim} of {rope.head_dim} dimensions"
    if rope.layout == "custom":
        return said
    return f"{said}, {rope.rotary_offset} to {rope.rotary_offset + rope.rotary_dim - 1}"


def _scaling(rope: Rotary) -> str:
    formula = rope.formula
    if formula is None:
        listed = ", ".join(f"{theta:.6g}" for theta in rope.inv_freq[:LISTED])
        return f"none that is known: {listed}, ... radians per position"
    if formula.is_plain:
        return "none"
    told = [
        f"{SHORT.get(name, name.replace('_', ' '))} {value(given)}"
        for name, given in formula.own.items()
        if name != "attention_factor" and given is not None and given != formula.defaults.get(name)
    ]
    return ": ".join([rope.rope_type, *([", ".join(told)] if told else [])])


def value(given: Any) -> str:
    """A parameter, as people write it."""
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, tuple | list):
        return " ".join(map(str, given))
    return shortest_repr(given) if isinstance(given, float | int) else str(given)


def _axes(rope: Rotary) -> str:
    counts = [rope.axis.count(axis) for axis in range(rope.axes)]
    runs = 1 + sum(a != b for a, b in zip(rope.axis, rope.axis[1:], strict=False))
    said = f"{rope.axes}, with {', '.join(map(str, counts))} pairs"
    return said + (" that take turns" if runs > rope.axes else "")


def _offset(result: Identification) -> str:
    if result.position_offset is None:
        return "another on each axis"
    return f"{tidy(result.position_offset):,.7g}"


def tidy(number: float) -> float:
    """Without the last digits, which rounding made."""
    return round(number, 6) + 0.0


def _agreement(result: Identification) -> str:
    if result.max_residual is None:
        return seen(result)
    worst = (
        f"{result.max_residual:.2g}" if result.max_residual < 10 else _whole(result.max_residual)
    )
    return f"{worst} ulp of {result.dtype} at worst over {result.rows:,} positions"


def _whole(number: float) -> str:
    return f"{number:,.0f}" if number < 1e6 else f"{number:.1g}"


def seen(result: Identification) -> str:
    """How much there was to look at."""
    return f"seen: {result.vectors:,} vectors at {result.rows:,} positions, {result.dtype}"
