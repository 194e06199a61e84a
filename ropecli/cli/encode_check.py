"""`encode --check`: whether a file is the rotation of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.cli.encode_plan import Asked


def encode_check(input: Path, output: Path, asked: Asked, *, json: bool, quiet: bool) -> None:
    """Compare, and end with exit code 1 where they differ."""
    from ropecli.cli.encode_plan import plan_for
    from ropecli.cli.progress import progress_bar
    from ropecli.files.compare import check_comparable, compare
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.render import document
    from ropecli.render import encode_check as pages
    from ropecli.render.encode import show_notes, show_plan

    plan = plan_for(input, asked)
    job = plan.job(input)
    check_comparable(job, output)
    if not quiet:
        show_notes(plan.notes)
    if not json:
        show_plan(plan.axes, plan.rope, positions=asked.positions, offset=asked.offset)
    with progress_bar(output.name, wanted=not quiet) as progress:
        result = compare(job, output, progress=progress)
    if json:
        document.show("encode", plan.parameters, pages.as_json(result, plan.axes, plan.rope))
    else:
        pages.show(result, plan.rope, None if asked.shape or is_pipe(input) else _beside(asked))
    if not result.passed:
        raise typer.Exit(1)


def _beside(asked: Asked) -> dict[str, object]:
    """Options that `identify` takes alike."""
    return {
        "--sequence-axis": asked.sequence_axis,
        "--positions": asked.positions,
        "--dtype": asked.dtype,
    }
