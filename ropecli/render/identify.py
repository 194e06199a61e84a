"""Words and tables for `identify`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.render import console
from ropecli.render.identify_flags import flags
from ropecli.render.identify_table import rows, seen, tidy, value
from ropecli.render.labels import shortest_repr
from ropecli.render.table import aligned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ropecli.checks.identify import Identification, Match
    from ropecli.rotary import Rotary

LAYOUTS = {"interleaved": "interleaved layout", "half": "half-split layout"}
#: Fields of the result that are not in the document: arrays as long as the data, and objects.
LEFT_OUT = ("positions", "rotary")
LISTED = 3  #: Other formulas that are written out.


def as_json(result: Identification, models: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The result of `--json`.

    Args:
        result: Of `identify`.
        models: The options for each of the candidates, by name.
    """
    rope = result.rotary
    fields = {
        name: getattr(result, name)
        for name in result.__dataclass_fields__
        if name not in LEFT_OUT and name != "matches"
    }
    return fields | {
        "parameters": dict(result.parameters),
        "pairs_in": None if rope is None else rope.pairs_in,
        "pairs_out": None if rope is None else rope.pairs_out,
        "flags": flags(result, models),
        "matches": [
            {
                "name": match.name,
                "max_phase_error": match.max_phase_error,
                "matches": match.matches,
            }
            for match in result.matches
        ],
    }


def show(
    result: Identification,
    candidates: Mapping[str, Rotary],
    models: Mapping[str, Sequence[str]],
    *,
    brief: bool,
) -> None:
    """Print the answer, the evidence, and what to do with it.

    Args:
        result: Of `identify`.
        candidates: What it was asked to compare with.
        models: The options for each of them.
        brief: Leave out what can't be told, and the options.
    """
    out = console.out()
    if result.rotary is None:
        lines = [f"This is not a rotation by position: {console.visible(result.reason or '')}."]
        lines += ["", f"  {seen(result)}"]
    else:
        rope = result.rotary
        lines = [_sentence(result, rope), ""]
        lines += [f"  {line}" for line in aligned(rows(result, rope), left=2)]
        lines += ["", *_matches(result, rope, candidates)]
        if not brief:
            lines += _open_questions(result)
    for line in lines:
        for part in console.wrapped(line, out.width, indent=_hanging(line)) or [""]:
            out.print(part, markup=False)
    if result.rotary is not None and not brief:
        for part in _as_flags(result, result.rotary, models, out.width):
            out.print(part, markup=False)


def _hanging(line: str) -> int:
    """Where a row's value begins, so that what is broken off stands under it."""
    words = line.lstrip()
    before = len(line) - len(words)
    name, gap, _ = words.partition("  ")
    return before + len(words) - len(words[len(name) :].lstrip()) if gap else before + 2


def _sentence(result: Identification, rope: Rotary) -> str:
    same = [match.name for match in result.matches if match.matches]
    parts = ["frequencies of no known type"]
    if rope.formula is not None:
        parts = [rope.formula.title]
    elif same:
        parts = [f"the frequencies of {console.visible(same[0])}"]
    parts.append(LAYOUTS.get(rope.layout, "pairs of its own"))
    if rope.reorders:
        parts.append("written in another order")
    parts.append(_extent(rope))
    if rope.direction == "reversed":
        parts.append("turned backwards")
    if rope.axes > 1:
        parts.append(f"positions with {rope.axes} axes")
    if result.precision not in (None, "exact"):
        parts.append(f"computed with {result.precision}")
    return f"This is RoPE: {', '.join(parts)}."


def _extent(rope: Rotary) -> str:
    if rope.rotary_dim == rope.head_dim:
        return f"all {rope.head_dim} dimensions"
    where = {0: "first ", rope.head_dim - rope.rotary_dim: "last "}
    if rope.layout == "custom":
        where = {}
    return f"the {where.get(rope.rotary_offset, '')}{rope.rotary_dim} of {rope.head_dim} dimensions"


def _matches(
    result: Identification, rope: Rotary, candidates: Mapping[str, Rotary]
) -> Iterator[str]:
    formulas = [match for match in result.matches if match.name not in candidates]
    exact_ones = [match.name for match in formulas if match.matches]
    furthest = float(np.abs(result.positions).max()) if result.positions is not None else 0.0
    if exact_ones:
        yield f"  Matches exactly: {exact_ones[0]}."
    others = exact_ones[1 : 1 + LISTED]
    if others:
        yield f"  Fits as well: {'; '.join(others)}."
    by_name = {match.name: match for match in result.matches}
    for name, candidate in candidates.items():
        said = "matches exactly" if by_name[name].matches else "is another"
        unlike = [] if by_name[name].matches else _unlike(rope, candidate)
        if not by_name[name].matches and np.isfinite(by_name[name].max_phase_error):
            unlike.append(_wrong(by_name[name], furthest))
        yield f"  {console.visible(name)} {': '.join([said, *filter(None, [', '.join(unlike)])])}."
    missed = [match for match in formulas if not match.matches]
    if missed and np.isfinite(missed[0].max_phase_error):
        yield f"  Next best: {missed[0].name}, {_wrong(missed[0], furthest)}."


def _wrong(match: Match, furthest: float) -> str:
    return f"wrong by {match.max_phase_error:.2g} rad at position {furthest:,.10g}"


def _unlike(rope: Rotary, candidate: Rotary) -> list[str]:
    """Fields in which a candidate differs, its value first."""
    names = ("head_dim", "rotary_dim", "rotary_offset", "layout", "direction", "attention_factor")
    unlike = [
        f"{name.replace('_', ' ')} {value(mine)}, not {value(found)}"
        for name in names
        if _differ(mine := getattr(candidate, name), found := getattr(rope, name))
    ]
    if unlike:
        return unlike
    others = {
        "other pairs": candidate.input_pairs != rope.input_pairs,
        "written in another order": candidate.output_pairs != rope.output_pairs,
        "other axes": rope.axes > 1 and candidate.axis != rope.axis,
        "lengths that grow": candidate.grows,
    }
    return [name for name, so in others.items() if so]


def _differ(mine: Any, found: Any) -> bool:
    if isinstance(mine, str):
        return bool(mine != found)
    return bool(abs(mine - found) > 1e-6 * abs(found))


def _open_questions(result: Identification) -> Iterator[str]:
    if result.notes:
        yield ""
        yield "  What these tensors leave open:"
        for note in result.notes:
            yield f"    {console.visible(note)}."


def _as_flags(
    result: Identification, rope: Rotary, models: Mapping[str, Sequence[str]], width: int
) -> Iterator[str]:
    """The options for other commands, in lines that a shell takes as one."""
    yield ""
    words = flags(result, models)
    if words is None:
        words_of_api = "ropecli.identify(before, after).rotary"
        yield from console.wrapped(
            f"  No flags say this; in Python it is {words_of_api}.", width, indent=4
        )
        return
    lines = console.wrapped(f"  As flags: {shlex.join(words)}", width - 2, indent=4)
    quoted = False
    for line in lines[:-1]:
        quoted ^= line.count("'") % 2 == 1
        yield line if quoted else f"{line} \\"  # in a list, a line may end as it is
    yield lines[-1]
    if moved := _moved(result):
        yield f"  encode takes the positions: {moved}"


def _moved(result: Identification) -> str:
    """How positions that are not those given, or 0, 1, 2, ..., are told to `encode`."""
    step, offset = result.position_step, result.position_offset
    if step is None or offset is None or (step == 1 and not tidy(offset)):
        return ""
    if step == 1 and tidy(offset).is_integer():
        return f"--offset {shortest_repr(tidy(offset))}"
    return f"--positions FILE, with {tidy(offset):.7g} + {step:.7g} m for m"
