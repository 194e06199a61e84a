"""Page of `vectors`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ropecli.files.folder import MANIFEST
from ropecli.render import console
from ropecli.render.vectors_files import README

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ropecli.checks.vectors.cases import Case


def as_json(cases: Sequence[Case], files: Mapping[str, bytes], output: Path) -> dict[str, Any]:
    """Return the `result` of the document."""
    return {
        "output": output,
        "files": list(files),
        "cases": [case.name for case in cases],
        "bytes": sum(map(len, files.values())),
    }


def show(cases: Sequence[Case], files: Mapping[str, bytes], output: Path, *, seed: int) -> None:
    """Print what was written, and the files to read first."""
    operators = sum(case.kind == "onnx" for case in cases)
    size = sum(map(len, files.values())) / 1000
    console.out().print(
        f"{console.visible(str(output))}: {len(cases)} cases in {len(files)} files, {size:,.0f} kB,"
        f" seed {seed}\n\n"
        f"  {len(cases) - operators} rotations: every rope type in both layouts, and conventions\n"
        f"  {operators} inputs of ONNX's RotaryEmbedding (opset 23)\n\n"
        f"How to read and compare them: {README}    the list of them: {MANIFEST}",
        markup=False,
    )
