"""`encode` of several files in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.cli.encode_plan import Asked


def encode_many(
    inputs: list[Path],
    folder: Path | None,
    asked: Asked,
    *,
    positions_continue: bool,
    force: bool,
    resume: bool,
    scheduler: str | None,
    json: bool,
    quiet: bool,
) -> None:
    """Rotate files one after another, and say at the end which could not be rotated."""
    from ropecli.cli.encode_plan import plan_for
    from ropecli.cli.progress import progress_bar
    from ropecli.files.many import encode_files, targets
    from ropecli.render import document
    from ropecli.render import encode_many as pages
    from ropecli.render.encode import show_notes, show_plan

    plan = plan_for(_readable(inputs, asked), asked)
    plan.check_positions()
    targets(inputs, folder)  # what is wrong with them is said before anything else
    if not quiet:
        show_notes(plan.notes)
    if not json:
        show_plan(plan.axes, plan.rope, positions=asked.positions, offset=asked.offset)
        pages.show_others(len(inputs) - 1, positions_continue=positions_continue)
    with progress_bar(f"{len(inputs):,} files", wanted=not quiet) as progress:
        result = encode_files(
            inputs,
            plan.rope,
            folder=folder,
            positions_continue=positions_continue,
            offset=asked.offset,
            force=force,
            resume=resume,
            scheduler=scheduler,
            progress=progress,
            **plan.job,
        )
    if not quiet:
        pages.show_warnings(result)
    if json and not result.failures:
        parameters = {
            **plan.parameters,
            "positions_continue": positions_continue,
            "resume": resume,
            "scheduler": scheduler,
        }
        document.show("encode", parameters, pages.as_json(result, plan.notes))
    elif not json:
        pages.show(result, folder)
    pages.show_failures(result)
    if result.failures:
        raise typer.Exit(2)


def _readable(inputs: list[Path], asked: Asked) -> Path:
    """The first file that can be read, since what is wrong with one keeps no other from it."""
    from ropecli.cli.encode_plan import plan_for
    from ropecli.errors import FileError

    for path in inputs[:-1]:
        try:
            plan_for(path, asked)
        except FileError:
            continue
        return path
    return inputs[-1]
