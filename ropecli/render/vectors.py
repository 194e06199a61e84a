"""Page and document of `vectors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.checks.vectors.cases import Case
from ropecli.checks.vectors.folder import README
from ropecli.files.folder import MANIFEST
from ropecli.render.console import visible

if TYPE_CHECKING:
    from ropecli.checks.vectors.folder import VectorFolder
    from ropecli.render.console import Screen


def as_json(result: VectorFolder) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "output": result.output,
        "files": list(result.files),
        "cases": [case.name for case in result.cases],
        "bytes": result.bytes,
    }


def page(result: VectorFolder | Case, screen: Screen) -> list[str]:
    """Return the arrays of a case; or the contents of a folder, and its files to read first."""
    if isinstance(result, Case):
        shapes = (f"  {name} {array.shape}" for name, array in result.arrays.items())
        return [f"{result.name}: {result.kind}", *shapes]
    if screen.brief:
        return []
    rotations = sum(case.kind == "rotation" for case in result.cases)
    return [
        f"{visible(str(result.output))}: {len(result.cases)} cases in {len(result.files)} files, "
        f"{result.bytes / 1000:,.0f} kB, seed {result.seed}",
        "",
        f"  {rotations} rotations: every rope type in both layouts, and conventions",
        f"  {len(result.cases) - rotations} inputs of ONNX's RotaryEmbedding (opset 23)",
        "",
        f"How to read and compare them: {README}    the list of them: {MANIFEST}",
    ]
