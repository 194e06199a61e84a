"""Runs of `encode`: of one file, of many, and of a check."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary
    from ropecli.files.plan import Plan
    from ropecli.files.session import Job, Session
    from ropecli.rotary import Rotary


@dataclass(kw_only=True)
class EncodeOptions:
    """Options of `encode`."""

    tensor: str | None
    rope: dict[str, Any]  #: Those of an encoding, by name.
    model: str | None
    layer: str | None
    sequence_length: int | None
    sequence_axis: int | None
    positions: Path | None
    offset: int
    inverse: bool
    dtype: str | None
    shape: tuple[int, ...] | None
    force: bool
    resume: bool
    scheduler: str | None
    json: bool
    quiet: bool
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
        from ropecli.cli.encoding import chosen

        if self.model is not None:
            return self._of_model
        return chosen(None, self.layer, self.sequence_length, self.rope, dim=self.width)

    @cached_property
    def _of_model(self) -> NamedRotary:
        """That of the model, which is read once: standard input gives it but once."""
        from ropecli.cli.encoding import chosen

        return chosen(self.model, self.layer, self.sequence_length, self.rope, dim=0)

    @property
    def of_job(self) -> dict[str, Any]:
        """Those that `Job` takes."""
        return {
            "tensor": self.tensor,
            "positions": self.positions,
            "offset": self.offset,
            "sequence_axis": self.sequence_axis,
            "inverse": self.inverse,
            "dtype": self.dtype,
            "shape": self.shape,
        }

    @property
    def of_run(self) -> dict[str, Any]:
        """Those of the run, for its JSON."""
        return {"resume": self.resume, "scheduler": self.scheduler}

    def job(self, input: Path) -> Job:
        """Return the job of a file."""
        from ropecli.files.session import Job

        return Job(input=input, rope=self.rope_for, **self.of_job)

    def notes(self, session: Session) -> tuple[str, ...]:
        """Return notes on guesses about the first file that may silently be wrong."""
        from ropecli.files.axes import axis_notes

        given = {
            "axis_given": self.sequence_axis is not None,
            "dim_given": self.rope["dim"] is not None or self.model is not None,
        }
        notes = axis_notes(session.axes, **given) + self.encoding.notes
        if session.rope.axes > 1 and self.positions is None:
            alike = (
                f"positions have {session.rope.axes} axes, alike without --positions, as in text"
            )
            notes += (alike,)
        return notes

    def parameters(self, session: Session) -> dict[str, Any]:
        """Return the parameters of the run, for its JSON."""
        rope = session.rope
        return {
            "tensor": self.tensor,
            "dim": session.axes.head_dim,
            "base": rope.base if self.rope["base"] is None else self.rope["base"],
            "layout": rope.layout,
            "rotary_dim": rope.rotary_dim,
            "rotary_offset": rope.rotary_offset,
            "rope_type": rope.rope_type,
            "set": self.rope["set"],
            "model": self.model,
            "layer": self.layer,
            "sequence_length": self.sequence_length,
            "sequence_axis": session.axes.sequence_axis,
            "positions": self.positions,
            "offset": self.offset,
            "inverse": self.inverse,
            "dtype": self.dtype,
            "shape": self.shape,
        }


def encode_one(input: Path, output: Path | None, options: EncodeOptions) -> None:
    """Rotate a file, and show the result."""
    from ropecli.analyses.float32_tables import float32_error
    from ropecli.cli.encoding import named_files
    from ropecli.cli.progress import kept, progress_bar
    from ropecli.cli.streams import check_streams, messages_to_stderr
    from ropecli.files.encode import default_output, plan_output
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.session import opened
    from ropecli.render import document
    from ropecli.render import encode as pages

    target = default_output(input) if output is None else output
    check_streams(input, target, model=options.model, json=options.json)
    silent = options.json or (options.quiet and is_pipe(target))
    with opened(options.job(input)) as session:
        notes = options.notes(session)
        plan = plan_output(
            session,
            target,
            force=options.force,
            resume=options.resume,
            scheduler=options.scheduler,
            sources=list(named_files(options.model)),
        )
        if not options.quiet:
            pages.show_notes(notes)
        if not silent:
            with messages_to_stderr(target):
                _show_plan(plan, options)
        with (
            progress_bar(session.source.path.name, wanted=not options.quiet) as progress,
            kept(resume=options.resume, quiet=options.quiet),
        ):
            result = plan.run(progress)
    furthest = max(array.furthest for array in result.arrays)
    tables = None if options.model is None else float32_error(session.rope, (0, furthest))
    later = pages.later_notes([result], notes)
    if not options.quiet:
        pages.show_later_notes(later)
        pages.show_warnings(result)
        pages.show_tables(tables)
    if options.json:
        parameters = options.parameters(session) | options.of_run
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
    from ropecli.cli.progress import kept, progress_bar
    from ropecli.files.many import encode_files
    from ropecli.render import document
    from ropecli.render import encode as pages

    if options.model is not None:
        _ = options.encoding  # the message is that of the model, and not of every file
    notes: tuple[str, ...] = ()
    parameters: dict[str, Any] = {}

    def start(plan: Plan) -> None:
        nonlocal notes, parameters
        notes, parameters = options.notes(plan.session), options.parameters(plan.session)
        if not options.quiet:
            pages.show_notes(notes)
        if not options.json:
            _show_plan(plan, options)
            pages.show_others(len(inputs) - 1, positions_continue=positions_continue)

    with (
        progress_bar(f"{len(inputs):,} files", wanted=not options.quiet) as progress,
        kept(resume=options.resume, quiet=options.quiet),
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
    later = pages.later_notes(result.files, notes)
    if not options.quiet:
        pages.show_later_notes(later)
        pages.show_warnings_of(array for each in result.files for array in each.arrays)
    if options.json and not result.failures:
        parameters |= {"positions_continue": positions_continue} | options.of_run
        document.show("encode", parameters, pages.many_as_json(result, notes + later))
    elif not options.json and parameters:
        pages.show_many(result, folder)
    pages.show_failures(result.failures, _option)
    if result.failures:
        raise typer.Exit(2)


def encode_check(input: Path, output: Path, options: EncodeOptions) -> None:
    """Compare a file with the rotation of another; exit code 1 where they differ."""
    from ropecli.checks.rotated_file import comparison
    from ropecli.cli.progress import progress_bar
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.session import opened
    from ropecli.render import document
    from ropecli.render import encode as plans
    from ropecli.render import encode_check as pages

    with opened(options.job(input)) as session, comparison(session, output) as compare:
        notes = options.notes(session)
        if not options.quiet:
            plans.show_notes(notes)
        if not options.json:
            plans.show_plan(
                session.axes, session.rope, positions=options.positions, offset=options.offset
            )
        with progress_bar(output.name, wanted=not options.quiet) as progress:
            result = compare(progress)
    if options.json:
        page = pages.as_json(result, session.axes, session.rope)
        document.show("encode", options.parameters(session), page)
    else:
        unread = options.shape is not None or is_pipe(input)
        pages.show(result, session.rope, None if unread else _for_identify(options))
    if not result.passed:
        raise typer.Exit(1)


def _show_plan(plan: Plan, options: EncodeOptions) -> None:
    from ropecli.render.encode import show_plan

    session = plan.session
    show_plan(session.axes, session.rope, positions=options.positions, offset=options.offset)


def _for_identify(options: EncodeOptions) -> dict[str, object]:
    """Return the options that `identify` takes too."""
    return {
        "--sequence-axis": options.sequence_axis,
        "--positions": options.positions,
        "--dtype": options.dtype,
    }


def _option(parameter: str) -> str:
    """Return the option of a parameter of the library."""
    return "--dim" if parameter == "head_dim" else f"--{parameter.replace('_', '-')}"
