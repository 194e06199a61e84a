"""`encode` of one file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ropecli.cli.encode_plan import Asked


def encode_one(
    input: Path,
    output: Path | None,
    asked: Asked,
    *,
    force: bool,
    resume: bool,
    scheduler: str | None,
    json: bool,
    quiet: bool,
) -> None:
    """Rotate a file, and say what was done."""
    from ropecli.analyses.float32_tables import float32_error
    from ropecli.cli.encode_plan import plan_for
    from ropecli.cli.inputs import files
    from ropecli.cli.progress import kept, progress_bar
    from ropecli.cli.streams import check_streams, words_beside
    from ropecli.files.encode import check_encodable, default_output, encode_file
    from ropecli.files.formats.pipe import as_path, is_pipe
    from ropecli.files.target import check_place
    from ropecli.render import document
    from ropecli.render import encode as pages

    target = default_output(input) if output is None else output
    check_streams(input, target, model=asked.model, json=json)
    models = [] if asked.model is None else [asked.model]
    plan = plan_for(input, asked)
    check_place(target, force=force, sources=files(as_path(input), asked.positions, models=models))
    check_encodable(plan.job(input), target, scheduler=scheduler, resume=resume)
    if not quiet:
        pages.show_notes(plan.notes)
    silent = json or (quiet and is_pipe(target))
    if not silent:
        with words_beside(target):
            pages.show_plan(plan.axes, plan.rope, positions=asked.positions, offset=asked.offset)
    with (
        progress_bar(plan.axes.stored.path.name, wanted=not quiet) as progress,
        kept(resume=resume, quiet=quiet),
    ):
        result = encode_file(
            input,
            target,
            plan.rope,
            force=force,
            resume=resume,
            scheduler=scheduler,
            progress=progress,
            **plan.options,
        )
    furthest = max(array.furthest for array in result.arrays)
    tables = None if asked.model is None else float32_error(plan.rope, (0, furthest))
    later = pages.later_notes([result], plan.notes)
    if not quiet:
        pages.show_later_notes(later)
        pages.show_warnings(result)
        pages.show_tables(tables)
    if json:
        parameters = {**plan.parameters, "resume": resume, "scheduler": scheduler}
        document.show("encode", parameters, pages.as_json(result, plan.notes + later, tables))
    elif not silent:
        with words_beside(target):
            pages.show(result)
