"""Page and document of `identify`."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ropecli.checks.identify import Identification, Match
from ropecli.checks.identify.differences import list_differences
from ropecli.checks.identify.parting import Parting
from ropecli.checks.identify.precision import FULL
from ropecli.names import join
from ropecli.render import Table, View, console, fields
from ropecli.render.console import Screen
from ropecli.render.identify_flags import flags
from ropecli.render.labels import axes, frequencies, shortest_repr
from ropecli.render.table import align
from ropecli.rotary import Rotary
from ropecli.rotary.pairs import Pairs, layout_of

Models = Mapping[str, Sequence[str]]  #: Options that describe each candidate, by name.

LAYOUTS = {"interleaved": "interleaved layout", "half": "half-split layout"}
#: Parameters with long names, as a row of the table has them.
SHORT = {
    "low_freq_factor": "low",
    "high_freq_factor": "high",
    "original_max_position_embeddings": "trained on",
    "partial_rotary_factor": "share",
}
#: Fields of the document before those of `as_json`.
DOCUMENT = (
    "recognised", "reason", "dtype", "held_in", "shape", "sequence_axis", "heads", "rows",
    "vectors", "layout", "rotary_dim", "rotary_offset", "direction", "base", "attention_factor",
    "position_offset", "position_step", "found_positions", "rope_type",
    ("parameters", lambda result: dict(result.parameters)), "inv_freq", "uncertainty",
    "undetermined", "positions_needed", "axis", "max_residual", "precision",
    ("parting", ("count", "where", "first")), "notes", "rotary.pairs_in", "rotary.pairs_out",
)  # fmt: skip
LISTED = 3  #: Pairs, frequencies or other formulas that are written out.


def as_json(result: Identification, *, models: Models | None = None, **_: object) -> dict[str, Any]:
    """Return the `result` of the document; arguments as in `page`."""
    return fields(result, *DOCUMENT) | {"flags": flags(result, models), "matches": result.matches}


def table(result: Identification) -> Table:
    """Return a row for each pair; none where the rotation is not known."""
    empty = np.zeros(0)
    inv_freq = empty if result.inv_freq is None else result.inv_freq
    uncertainty = empty if result.uncertainty is None else result.uncertainty
    return {"pair": range(len(inv_freq)), "inv_freq": inv_freq, "uncertainty": uncertainty}


def page(
    result: Identification,
    screen: Screen,
    *,
    candidates: Mapping[str, Rotary] | None = None,
    models: Models | None = None,
) -> list[str]:
    """Return the answer, the evidence, and the options that make the rotation."""
    rope = result.rotary
    if rope is None:
        lines = [f"This is not a rotation by position: {console.visible(result.reason or '')}."]
        if result.parting is not None:
            lines += ["", *_parting(result.parting)]
        lines += ["", f"  {_data_size(result)}"]
    else:
        lines = [_sentence(result, rope) + _other_models(result, candidates or {}), ""]
        lines += [f"  {line}" for line in align(_rows(result, rope), left=2)]
        lines += ["", *_matches(result, rope, candidates or {})]
        if result.notes and not screen.brief:
            notes = (f"    {console.visible(note)}." for note in result.notes)
            lines += ["", "  Not determined by these tensors:", *notes]
    lines = console.wrap_rows(lines, screen.width, hang=2)
    if rope is not None and not screen.brief:
        lines += _as_flags(result, models, screen.width)
    return lines


def _parting(parting: Parting) -> Iterator[str]:
    """Yield what rotates most vectors, and which others part from it."""
    rope = parting.rotary
    others = parting.vectors - parting.count
    yield (
        f"  {others:,} of {parting.vectors:,} vectors are rotated consistently: "
        f"{LAYOUTS.get(rope.layout, 'custom pairs')}, {frequencies(rope)}."
    )
    yield f"  {'This one deviates' if parting.count == 1 else 'These deviate'}: {parting.where}."


def _sentence(result: Identification, rope: Rotary) -> str:
    same = [match.name for match in result.matches if match.matches]
    parts = ["frequencies of no known type"]
    if rope.formula is not None:
        parts = [rope.formula.title]
    elif same:
        parts = [f"the frequencies of {console.visible(same[0])}"]
    if rope.base is not None:
        parts.append(f"base {shortest_repr(rope.base)}")
    parts.append(LAYOUTS.get(rope.layout, "custom pairs"))
    if rope.reorders:
        parts.append("written in another order")
    parts.append(extent(rope) + (f" of {result.heads} heads" if result.heads > 1 else ""))
    if rope.direction == "reversed":
        parts.append("reversed direction")
    if rope.axes > 1:
        parts.append(f"positions with {rope.axes} axes")
    if result.found_positions is not None:
        parts.append(f"positions {result.found_positions}")
    if result.precision not in (None, "exact"):
        parts.append(f"computed with {result.precision}")
    return f"This is RoPE: {', '.join(parts)}."


def _other_models(result: Identification, candidates: Mapping[str, Rotary]) -> str:
    """Return a second sentence if none of the models that were named rotates so."""
    if not candidates or result.matches_any(candidates):
        return ""
    return f" It is not that of {join(map(console.visible, candidates), 'or')}."


def extent(rope: Rotary) -> str:
    """Return how much of a head is rotated, and where that is."""
    if rope.rotary_dim == rope.head_dim:
        return f"all {rope.head_dim} dimensions"
    where = {0: "first ", rope.head_dim - rope.rotary_dim: "last "}
    if rope.layout == "custom":
        where = {}
    return f"the {where.get(rope.rotary_offset, '')}{rope.rotary_dim} of {rope.head_dim} dimensions"


def _rows(result: Identification, rope: Rotary) -> list[list[str]]:
    """Return the table: a name and a value each."""
    rows = [["layout", _pairs(rope.input_pairs)]]
    if result.transposed:
        rows.append(["positions along", f"axis {result.sequence_axis}, not the last but one"])
    if result.heads > 1:
        rows.append(["heads", f"{result.heads} side by side along the last axis"])
    if rope.reorders:
        rows.append(["written", _pairs(rope.output_pairs)])
    if rope.rotary_dim != rope.head_dim:
        rows.append(["rotated", _range(rope)])
    rows.append(["base", "none" if rope.base is None else shortest_repr(rope.base)])
    rows.append(["scaling", _scaling(rope)])
    if rope.axes > 1:
        rows.append(["axes", _axes(rope)])
    rows.append(["direction", rope.direction])
    offset = result.position_offset
    if result.found_positions is not None:
        rows.append(["positions", result.found_positions])
    else:
        differs = "differs by axis" if offset is None else f"{tidy(offset):,.7g}"
        rows.append(["position offset", differs])
    if result.position_step not in (None, 1.0):
        rows.append(["position step", f"{result.position_step:.7g}"])
    rows.append(["attention factor", f"{rope.attention_factor:.7g}"])
    rows.append(["precision", result.precision or "exact"])
    if result.held_in:
        rows.append(["vectors", f"{result.held_in}, saved as {result.dtype}"])
    rows.append(["agreement", _agreement(result)])
    return rows


def _pairs(pairs: Pairs) -> str:
    """Return a layout by name, with its formula, or the first few pairs."""
    (layout, first), count = layout_of(pairs), len(pairs)
    formulas = {
        "interleaved": f"({_shift('2i', first)}, {_shift('2i', first + 1)})",
        "half": f"({_shift('i', first)}, {_shift('i', first + count)})",
    }
    shown = ", ".join(f"({a}, {b})" for a, b in pairs[:LISTED])
    shown += ", ..." if count > LISTED else ""
    return f"{layout}: pairs {formulas.get(layout, shown)}"


def _shift(index: str, first: int) -> str:
    return f"{index} + {first}" if first else index


def _range(rope: Rotary) -> str:
    count = f"{rope.rotary_dim} of {rope.head_dim} dimensions"
    if rope.layout == "custom":
        return count
    return f"{count}, {rope.rotary_offset} to {rope.rotary_offset + rope.rotary_dim - 1}"


def _scaling(rope: Rotary) -> str:
    formula = rope.formula
    if formula is None:
        listed = ", ".join(f"{theta:.6g}" for theta in rope.diagonal_inv_freq[:LISTED])
        return f"of no known type: {listed}, ... radians per position"
    if formula.is_plain:
        return "none"
    scalings = [
        f"{SHORT.get(name, name.replace('_', ' '))} {_value(given)}"
        for name, given in formula.own.items()
        if name != "attention_factor" and given is not None and given != formula.defaults.get(name)
    ]
    return ": ".join([rope.rope_type, *([", ".join(scalings)] if scalings else [])])


def _value(given: Any) -> str:
    """Return a parameter as people write it."""
    if isinstance(given, bool):
        return "yes" if given else "no"
    if isinstance(given, tuple | list):
        return " ".join(map(str, given))
    return shortest_repr(given) if isinstance(given, float | int) else str(given)


def _axes(rope: Rotary) -> str:
    axis = rope.axis or ()
    runs = 1 + sum(a != b for a, b in itertools.pairwise(axis))
    return axes(rope) + (", interleaved" if runs > rope.axes else "")


def tidy(number: float) -> float:
    """Return a number without the last digits, which rounding made."""
    return round(number, 6) + 0.0


def _agreement(result: Identification) -> str:
    worst, dtype = result.max_residual, result.held_in or result.dtype
    if worst is None:
        return _data_size(result)
    number = f"{worst:.2g}" if worst < 10 else f"{worst:,.0f}" if worst < 1e6 else f"{worst:.1g}"
    return f"{number} ulp of {dtype} at worst over {result.rows:,} positions"


def _data_size(result: Identification) -> str:
    return f"seen: {result.vectors:,} vectors at {result.rows:,} positions, {result.dtype}"


def _matches(
    result: Identification, rope: Rotary, candidates: Mapping[str, Rotary]
) -> Iterator[str]:
    by_name = {match.name: match for match in result.matches}
    formulas = [match for name, match in by_name.items() if name not in candidates]
    fitting = [console.visible(match.name) for match in formulas if match.matches]
    furthest = float(np.abs(result.positions).max()) if result.positions is not None else 0.0
    exact = result.precision in FULL
    if fitting:
        yield f"  {'Matches exactly' if exact else 'Frequencies match'}: {fitting[0]}."
    if others := fitting[1 : 1 + LISTED]:
        yield f"  Fits as well: {'; '.join(others)}."
    for name, candidate in candidates.items():
        if by_name[name].matches:
            but = "exactly" if exact else f"but for {result.precision}"
            yield f"  {console.visible(name)} matches {but}."
            continue
        differences = list_differences(rope, candidate, result.uncertainty)
        if np.isfinite(by_name[name].max_phase_error):
            differences.append(_phase_error(by_name[name], furthest))
        reasons = f": {'; '.join(differences)}" if differences else ""
        yield f"  {console.visible(name)} differs{reasons}."
    missed = [match for match in formulas if not match.matches]
    if missed and np.isfinite(missed[0].max_phase_error):
        name = console.visible(missed[0].name)
        yield f"  Next best: {name}, {_phase_error(missed[0], furthest)}."


def _phase_error(match: Match, furthest: float) -> str:
    return f"wrong by {match.max_phase_error:.2g} rad at position {furthest:,.10g}"


def _as_flags(result: Identification, models: Models | None, width: int) -> Iterator[str]:
    """Yield the options for other commands, in lines that a shell reads as one."""
    yield ""
    options = flags(result, models)
    if options is None:
        in_python = "ropecli.identify(before, after).rotary"
        yield from console.wrap_text(
            f"  No options describe this rotation; in Python: {in_python}.", width, indent=4
        )
        return
    lines = console.wrap_text(f"  As flags: {shlex.join(options)}", width - 2, indent=4)
    quoted = False
    for line in lines[:-1]:
        quoted ^= line.count("'") % 2 == 1
        yield line if quoted else f"{line} \\"  # within quotes, a backslash would be kept
    yield lines[-1]
    if positions := _positions_of_encode(result):
        yield f"  encode takes the positions: {positions}"
    if result.transposed:
        yield f"  encode takes the axis: --sequence-axis {result.sequence_axis}"


def _positions_of_encode(result: Identification) -> str:
    """Return the option of `encode` for positions other than those given, or 0, 1, 2, ..."""
    step, offset = result.position_step, result.position_offset
    if result.found_positions is not None:
        return "--positions FILE, with ropecli.identify(before, after).positions"
    if step is None or offset is None or (step == 1 and not tidy(offset)):
        return ""
    if step == 1 and tidy(offset).is_integer():
        return f"--offset {shortest_repr(tidy(offset))}"
    return f"--positions FILE, with {tidy(offset):.7g} + {step:.7g} m for m"


VIEW = View(page=page, document=as_json, table=table)
