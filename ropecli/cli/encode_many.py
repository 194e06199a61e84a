"""`encode` of several files in one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.cli.encode_plan import Asked, EncodePlan


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
    from ropecli.cli.progress import kept, progress_bar
    from ropecli.files.many import encode_files, targets
    from ropecli.render import document
    from ropecli.render import encode_many as pages
    from ropecli.render.encode import later_notes, show_later_notes, show_notes, show_plan

    plan = _first_plan(inputs, folder, asked, scheduler=scheduler, resume=resume)
    targets(inputs, folder)  # what is wrong with them is said before anything else
    if not quiet:
        show_notes(plan.notes)
    if not json:
        show_plan(plan.axes, plan.rope, positions=asked.positions, offset=asked.offset)
        pages.show_others(len(inputs) - 1, positions_continue=positions_continue)
    with (
        progress_bar(f"{len(inputs):,} files", wanted=not quiet) as progress,
        kept(resume=resume, quiet=quiet),
    ):
        result = encode_files(
            inputs,
            plan.rope,
            folder=folder,
            positions_continue=positions_continue,
            force=force,
            resume=resume,
            scheduler=scheduler,
            progress=progress,
            **plan.options,
        )
    later = later_notes(result.files, plan.notes)
    if not quiet:
        show_later_notes(later)
        pages.show_warnings(result)
    if json and not result.failures:
        parameters = {
            **plan.parameters,
            "positions_continue": positions_continue,
            "resume": resume,
            "scheduler": scheduler,
        }
        document.show("encode", parameters, pages.as_json(result, plan.notes + later))
    elif not json:
        pages.show(result, folder)
    pages.show_failures(result.failures)
    if result.failures:
        raise typer.Exit(2)


def _first_plan(
    inputs: list[Path], folder: Path | None, asked: Asked, *, scheduler: str | None, resume: bool
) -> EncodePlan:
    """That of the first file that fits, since what is wrong with one keeps no other from it.

    Raises:
        RopecliError: What is wrong with all of them.
        typer.Exit: None fits; it is said what is wrong with each.
    """
    from ropecli.cli.encode_plan import plan_for
    from ropecli.errors import RopecliError
    from ropecli.files.encode import check_encodable, default_output
    from ropecli.files.many import Failure
    from ropecli.render.encode_many import show_failures

    asked.read_model()
    failures = []
    for path in inputs:
        target = default_output(path) if folder is None else folder / path.name
        try:
            plan = plan_for(path, asked)
            check_encodable(plan.job(path), target, scheduler=scheduler, resume=resume)
        except RopecliError as error:
            failures.append(Failure(input=path, message=str(error)))
            if len(failures) == len(inputs) and len({each.message for each in failures}) == 1:
                raise
        else:
            return plan
    show_failures(failures)
    raise typer.Exit(2)
