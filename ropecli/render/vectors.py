"""Page and document of `vectors`."""

from __future__ import annotations

from ropecli.checks.vectors.case import Case
from ropecli.checks.vectors.folder import README, VectorFolder
from ropecli.files.atomic import MANIFEST
from ropecli.render import View
from ropecli.render.console import Screen, visible
from ropecli.render.labels import quantity


def _given_cases(result: VectorFolder) -> list[Case]:
    """Return the cases of the model or the options that were given."""
    return [case for case in result.cases if case.kind == "qk"]


def page(result: VectorFolder, screen: Screen) -> list[str]:
    """Return the contents of a folder, and its files to read first."""
    if screen.brief:
        return []
    given = _given_cases(result)
    cases = _encoding(given[0]) if len(given) == 1 else quantity(len(result.cases), "case")
    lines = [
        f"{visible(str(result.output))} written: {cases}, {len(result.files)} files, "
        f"{result.bytes / 1000:,.0f} kB, seed {result.seed}",
        "",
    ]
    for case in given:
        lines += _shapes(case)
    if not given:
        count = len(result.cases)
        lines += [f"  {count} rotations: every rope type in both layouts, and conventions", ""]
    return [*lines, f"How to read and compare them: {README}    the list of them: {MANIFEST}"]


def _encoding(case: Case) -> str:
    """Return what the queries and keys of a case are rotated by."""
    said = case.facts["parameters"]
    base = said.get("rope_theta")
    return ", ".join(
        (
            f"head dim {said['head_dim']}",
            said["layout"],
            said["rope_type"],
            *(() if base is None else (f"base {base:g}",)),
        )
    )


def _shapes(case: Case) -> list[str]:
    """Return the shapes of a case, and the tolerance in each dtype."""
    tolerance = case.facts["tolerance"]
    queries, keys = (case.arrays[f"{role}.{next(iter(tolerance))}"].shape for role in ("q", "k"))
    allowed = (f"{dtype} {bound:.2g}" for dtype, bound in tolerance.items())
    return [
        f"  {case.name}",
        f"    queries {queries}, keys {keys}: (batch, heads, length, head_dim)",
        f"    tolerance {', '.join(allowed)}",
        "",
    ]


def page_of_case(result: Case, _: Screen) -> list[str]:
    """Return the arrays of a case."""
    shapes = (f"  {name} {array.shape}" for name, array in result.arrays.items())
    return [f"{result.name}: {result.kind}", *shapes]


CASE = View(page=page_of_case)
VIEW = View(
    page=page,
    document=(
        *("output", ("files", lambda result: [*result.files])),
        ("cases", lambda result: [case.name for case in result.cases]),
        "bytes",
        (
            "tolerances",
            lambda it: {case.name: case.facts["tolerance"] for case in _given_cases(it)},
        ),
    ),
)
