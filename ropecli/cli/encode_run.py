"""Runs of `encode`: of one file, of many, and of a check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary
    from ropecli.cli.options import EncodingOptions, PageOptions
    from ropecli.files.encoded import Encoded
    from ropecli.files.plan import Plan
    from ropecli.files.session import Job, Session
    from ropecli.rotary import Rotary


@dataclass(kw_only=True)
class EncodeOptions:
    """Options of `encode`."""

    rope: EncodingOptions
    rotary_offset: int | None
    of_job: dict[str, Any]  #: Those that `Job` takes.
    force: bool
    resume: bool
    scheduler: str | None
    page: PageOptions
    width: int = 0  #: Length of the last axis of the input.

    def rope_for(self, width: int) -> Rotary:
        """Return the encoding of vectors of a length."""
        self.width = width
        return self.encoding.rope

    @property
    def encoding(self) -> NamedRotary:
        """The encoding: that of the model, or that of the other options.

        Raises:
            ArgumentError: A value out of range.
            FileError: A model that cannot be read.
        """
        return self._of_model if self.rope.model is not None else self._encoding()

    @cached_property
    def _of_model(self) -> NamedRotary:
        """The encoding of the model, which is read once: standard input gives it but once."""
        return self._encoding()

    def _encoding(self) -> NamedRotary:
        return self.rope.encoding(dim=self.width, rotary_offset=self.rotary_offset)

    def job(self, input: Path) -> Job:
        """Return the job of a file."""
        from ropecli.files.session import Job

        return Job(input=input, rope=self.rope_for, **self.of_job)

    def notes(self, session: Session) -> tuple[str, ...]:
        """Return notes on guesses about the first file that may silently be wrong."""
        from ropecli.files.array_axes import axis_notes

        notes = axis_notes(
            session.axes,
            axis_given=self.of_job["sequence_axis"] is not None,
            dim_given=self.rope.dim is not None or self.rope.model is not None,
        )
        notes = _with_options(notes) + self.encoding.notes
        axes = session.rope.axes
        if axes > 1 and self.of_job["positions"] is None:
            notes += (f"positions have {axes} axes, alike without --positions, as in text",)
        return notes

    def parameters(self, session: Session, *omitted: str) -> dict[str, Any]:
        """Return the parameters of the run, for its JSON, without those that have no effect."""
        rope = session.rope
        return self.page.parameters(
            "input",
            "output",
            "check",
            "force",
            *omitted,
            dim=session.axes.head_dim,
            base=rope.base if self.rope.base is None else self.rope.base,
            layout=rope.layout,
            rotary_dim=rope.rotary_dim,
            rotary_offset=rope.rotary_offset,
            rope_type=rope.rope_type,
            sequence_axis=session.axes.sequence_axis,
            shape=self.of_job["shape"],
        )

    def show_plan(self, session: Session) -> None:
        """Show the axes and the encoding of an input, unless JSON is printed."""
        from ropecli.render.encode import show_plan

        if not self.page.json:
            show_plan(
                session.axes,
                session.rope,
                positions=self.of_job["positions"],
                offset=self.of_job["offset"],
            )


def encode_one(input: Path, output: Path | None, options: EncodeOptions) -> None:
    """Rotate a file, and show the result."""
    from ropecli.analyses.float32_tables import float32_error
    from ropecli.cli.encoding import named_files
    from ropecli.cli.progress import note_how_to_resume, progress_bar
    from ropecli.cli.streams import check_streams, messages_to_stderr
    from ropecli.files.encode import default_output, plan_output
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.session import opened
    from ropecli.render import document
    from ropecli.render import encode as pages

    target = default_output(input) if output is None else output
    check_streams(input, target, model=options.rope.model, json=options.page.json)
    silent = options.page.json or (options.page.quiet and is_pipe(target))
    with opened(options.job(input)) as session:
        notes = options.notes(session)
        plan = plan_output(
            session,
            target,
            force=options.force,
            resume=options.resume,
            scheduler=options.scheduler,
            sources=list(named_files(options.rope.model)),
        )
        if not options.page.quiet:
            pages.show_notes(notes)
        if not silent:
            with messages_to_stderr(target):
                options.show_plan(session)
        with (
            progress_bar(session.source.path.name, wanted=not options.page.quiet) as progress,
            note_how_to_resume(resume=options.resume, quiet=options.page.quiet),
        ):
            result = _spell_notes(plan.run(progress))
    furthest = max(array.furthest for array in result.arrays)
    tables = None if options.rope.model is None else float32_error(session.rope, (0, furthest))
    later = pages.later_notes([result], notes)
    if not options.page.quiet:
        pages.show_later_notes(later)
        pages.show_warnings(result)
        pages.show_tables(tables)
    if options.page.json:
        parameters = options.parameters(session, "positions_continue")
        document.show("encode", parameters, pages.as_json(result, notes + later, tables))
    elif not silent:
        with messages_to_stderr(target):
            pages.show(result)


def encode_many(
    inputs: list[Path],
    folder: Path | None,
    options: EncodeOptions,
    *,
    positions_continue: bool,
) -> None:
    """Rotate files one after another, and show at the end which could not be rotated."""
    from ropecli.cli.progress import note_how_to_resume, progress_bar
    from ropecli.files.many import encode_files
    from ropecli.render import document
    from ropecli.render import encode as pages

    if options.rope.model is not None:
        _ = options.encoding  # the message is that of the model, and not of every file
    notes: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}

    def start(plan: Plan) -> None:
        nonlocal notes, parameters
        notes, parameters = options.notes(plan.session), options.parameters(plan.session)
        if not options.page.quiet:
            pages.show_notes(notes)
        options.show_plan(plan.session)
        if not options.page.json:
            pages.show_others(len(inputs) - 1, positions_continue=positions_continue)

    with (
        progress_bar(f"{len(inputs):,} files", wanted=not options.page.quiet) as progress,
        note_how_to_resume(resume=options.resume, quiet=options.page.quiet),
    ):
        result = encode_files(
            inputs,
            options.rope_for,
            folder=folder,
            positions_continue=positions_continue,
            force=options.force,
            resume=options.resume,
            scheduler=options.scheduler,
            progress=progress,
            start=start,
            **options.of_job,
        )
    if not result.files and len({each.message for each in result.failures}) == 1:
        raise result.failures[0].error  # it is not about a file
    result = replace(result, files=tuple(map(_spell_notes, result.files)))
    later = pages.later_notes(result.files, notes)
    if not options.page.quiet:
        pages.show_later_notes(later)
        pages.show_warnings_of(array for each in result.files for array in each.arrays)
    if options.page.json and not result.failures:
        document.show("encode", parameters, pages.many_as_json(result, notes + later))
    elif not options.page.json and parameters:
        pages.show_many(result, folder)
    pages.show_failures(result.failures, _option)
    if result.failures:
        raise typer.Exit(2)


def encode_check(input: Path, output: Path, options: EncodeOptions) -> None:
    """Compare a file with the rotation of another; exit code 1 where they differ."""
    from ropecli.checks.encode_check import comparison
    from ropecli.cli.progress import progress_bar
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.session import opened
    from ropecli.render import document
    from ropecli.render import encode as plans
    from ropecli.render import encode_check as pages

    with opened(options.job(input)) as session, comparison(session, output) as compare:
        notes = options.notes(session)
        if not options.page.quiet:
            plans.show_notes(notes)
        options.show_plan(session)
        with progress_bar(output.name, wanted=not options.page.quiet) as progress:
            result = compare(progress)
    if options.page.json:
        page = pages.as_json(result, session.axes, session.rope)
        omitted = ("positions_continue", "resume", "scheduler")
        document.show("encode", options.parameters(session, *omitted), page)
    else:
        unread = options.of_job["shape"] is not None or is_pipe(input)
        pages.show(result, session.rope, None if unread else _for_identify(options))
    if not result.passed:
        raise typer.Exit(1)


def _for_identify(options: EncodeOptions) -> dict[str, object]:
    """Return the options that `identify` takes too."""
    return {
        "--sequence-axis": options.of_job["sequence_axis"],
        "--positions": options.of_job["positions"],
        "--dtype": options.of_job["dtype"],
    }


def _spell_notes(result: Encoded) -> Encoded:
    """Return the result with options in place of the parameters that its notes name."""
    arrays = tuple(replace(each, notes=_with_options(each.notes)) for each in result.arrays)
    return replace(result, arrays=arrays, notes=_with_options(result.notes))


def _with_options(notes: tuple[str, ...]) -> tuple[str, ...]:
    from ropecli.errors import spell_parameters

    return tuple(spell_parameters(note, _option) for note in notes)


def _option(parameter: str) -> str:
    from ropecli.cli.app import option_of

    return option_of("encode", parameter)
