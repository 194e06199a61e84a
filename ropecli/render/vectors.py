"""Page and document of `vectors`."""

from __future__ import annotations

from typing import Any

from ropecli.checks.vectors.case import Case
from ropecli.checks.vectors.folder import README, VectorFolder
from ropecli.files.atomic import MANIFEST
from ropecli.render.console import Screen, visible
from ropecli.render.labels import quantity


def as_json(result: VectorFolder) -> dict[str, Any]:
    """Return the `result` of the document."""
    own = [case for case in result.cases if case.kind == "qk"]
    return {
        "output": result.output,
        "files": [*result.files],
        "cases": [case.name for case in result.cases],
        "bytes": result.bytes,
        "tolerances": {case.name: case.facts["tolerance"] for case in own},
    }


def page(result: VectorFolder | Case, screen: Screen) -> list[str]:
    """Return the arrays of a case; or the contents of a folder, and its files to read first."""
    if isinstance(result, Case):
        shapes = (f"  {name} {array.shape}" for name, array in result.arrays.items())
        return [f"{result.name}: {result.kind}", *shapes]
    if screen.brief:
        return []
    own = [case for case in result.cases if case.kind == "qk"]
    lines = [
        f"{visible(str(result.output))}: {quantity(len(result.cases), 'case')} in "
        f"{len(result.files)} files, {result.bytes / 1000:,.0f} kB, seed {result.seed}",
        "",
    ]
    for case in own:
        lines += _own(case)
    if not own:
        count = len(result.cases)
        lines += [f"  {count} rotations: every rope type in both layouts, and conventions", ""]
    return [*lines, f"How to read and compare them: {README}    the list of them: {MANIFEST}"]


def _own(case: Case) -> list[str]:
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
