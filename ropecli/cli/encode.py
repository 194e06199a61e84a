"""The encode command: of one file, of many, and of a check."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ropecli.cli.command import Help, argument, command, flag, option
from ropecli.cli.options import EncodingOptions, Force, PageOptions, RotaryOffset, named_files

if TYPE_CHECKING:
    from ropecli.cli.encoding import NamedRotary
    from ropecli.files.encoded import Encoded
    from ropecli.files.opened import OpenInput
    from ropecli.rotary import Rotary


@command()
def encode(
    input: list[str] = argument(
        "INPUT", "Files of vectors, folders or globs; - for .npy on stdin."
    ),
    output: str | None = option(
        "PATH",
        "Output file, or folder for several. [default: INPUT.rope.npy]",
        "-o",
        "--output",
        under="Output",
    ),
    check: Path | None = option("OUT", "File to compare with the rotation of INPUT."),
    tensor: str | None = option("NAME", "Tensors to rotate, if INPUT holds several: name or glob."),
    *,
    rope: Annotated[EncodingOptions, Help(dim="Head dim, even. [default: all of the last axis]")],
    rotary_offset: RotaryOffset = None,
    sequence_axis: int | None = option(
        "AXIS", "Axis of the positions. [default: the last but one]"
    ),
    positions: Path | None = option(
        "FILE", "Positions: (sequence,) or (batch, sequence); several axes last."
    ),
    offset: int = option(
        "N", "Number added to every position; the position of a single vector.", default=0
    ),
    positions_continue: bool = flag(
        "--positions-continue", "Continue positions from one file to the next."
    ),
    inverse: bool = flag("--inverse", "Apply the inverse rotation."),
    dtype: str | None = option("DTYPE", "Dtype of a raw input, or of 2-byte void elements."),
    shape: str | None = option("N,N,...", "Shape of a raw (headerless) input; needs --dtype."),
    scheduler: str | None = option(
        "ADDRESS", "Dask scheduler whose workers rotate: tcp://HOST:PORT."
    ),
    dry_run: bool = flag(
        "--dry-run",
        "Write nothing; show what would be written: names, bytes, time, memory.",
        under="Output",
    ),
    force: Force = False,
    page: PageOptions,
) -> bool:
    """\b
    Examples:
      ropecli encode input.npy
      ropecli encode queries.npy --dim 128 --layout half --base 500000
      ropecli encode queries.rope.npy --dim 128 --inverse -o back.npy
      ropecli encode queries.npy --model config.json
      ropecli encode 'dump/*.safetensors' --tensor '*.q' -o out/
      ropecli encode queries.npy --check engine_output.npy
      ropecli encode big.npy --dry-run
      ropecli encode vector.npy --offset 5

    Rotate a file of embeddings by their positions. The file may be larger than memory; the output
    has its shape, dtype and memory order, and appears whole or not at all. Exit code 1 if OUT of
    --check is not the rotation of INPUT.
    """
    # First, because CPython 3.11 maps and unmaps memory for each of the many calls in which Numba
    # is loaded, where modules that load each other stand between it and this one.
    import ropecli.rotary.apply  # noqa: F401  # isort: split
    from ropecli.files.formats.raw import parse_shape
    from ropecli.files.many import expand_inputs

    inputs = expand_inputs(input)
    run = _Run(
        rope=rope,
        rotary_offset=rotary_offset,
        rotation={
            "tensor": tensor,
            "positions": positions,
            "offset": offset,
            "sequence_axis": sequence_axis,
            "inverse": inverse,
            "dtype": dtype,
            "shape": None if shape is None else parse_shape(shape),
        },
        writing={"force": force, "scheduler": scheduler},
        page=page,
    )
    if check is not None:
        writing: dict[str, object] = {
            "-o": output,
            "--scheduler": scheduler,
            "--dry-run": dry_run,
            "--force": force,
        }
        _refuse_with_check(inputs, writing, positions_continue=positions_continue)
        return run.check(inputs[0], check)
    target = None if output is None else Path(output)
    several = _several(input, inputs, output)
    if dry_run:
        run.dry(inputs, target, several=several)
    elif several:
        run.many(inputs, target, positions_continue=positions_continue)
    else:
        run.one(inputs[0], target)
    return True


def _several(given: list[str], inputs: list[Path], output: str | None) -> bool:
    """Return whether outputs go into a folder, or next to each of several files.

    One file that a pattern or a folder stands for is treated as several would be.
    """
    from ropecli.errors import ArgumentError
    from ropecli.files.formats.pipe import is_pipe
    from ropecli.files.many import is_plain_folder, names_folder

    several = len(inputs) > 1 or inputs != [Path(name) for name in given]
    if several and any(map(is_pipe, inputs)):
        raise ArgumentError("- is one file, got it among several")
    if several and output is None and any(is_plain_folder(Path(name)) for name in given):
        raise ArgumentError("a folder as INPUT needs another for the outputs: give -o FOLDER")
    return several or (output is not None and names_folder(output))


def _refuse_with_check(
    inputs: list[Path], writing: dict[str, object], *, positions_continue: bool
) -> None:
    from ropecli.errors import ArgumentError

    for name, given in writing.items():
        if given:
            raise ArgumentError(f"--check writes nothing: leave {name} out")
    if len(inputs) > 1:
        raise ArgumentError(f"--check compares one file with one, got {len(inputs)}")
    if positions_continue:
        raise ArgumentError("--check compares one file with one: leave --positions-continue out")


def _check_streams(input: Path, target: Path, *, model: str | None, json: bool) -> None:
    """Refuse that two things share a stream."""
    from ropecli.errors import ArgumentError
    from ropecli.files.formats.pipe import is_pipe

    if json and is_pipe(target):
        raise ArgumentError(
            "--json needs stdout for its document, but the data go there; give -o FILE"
        )
    if model is not None and is_pipe(model) and is_pipe(input):
        raise ArgumentError("INPUT and --model can't both be -, which is stdin")


@contextlib.contextmanager
def _messages_off_stdout(target: Path, *, quiet: bool) -> Iterator[None]:
    """Send messages to stderr where data go to stdout, if wanted and possible."""
    from ropecli.files.formats.pipe import is_pipe

    if not is_pipe(target):
        yield
        return
    words = io.StringIO()
    with contextlib.redirect_stdout(words):
        yield
    if sys.stderr is not None and not quiet:
        with contextlib.suppress(OSError):
            sys.stderr.write(words.getvalue())


@dataclass(kw_only=True)
class _Run:
    """A run of the command."""

    rope: EncodingOptions
    rotary_offset: int | None
    rotation: dict[str, Any]  #: Options that `open_rotation` takes.
    writing: dict[str, Any]  #: Options that `write_rotated` takes.
    page: PageOptions
    encoding: NamedRotary | None = None  #: Of the model, or of the last input that was opened.

    def one(self, input: Path, output: Path | None) -> None:
        """Rotate a file, and show the result."""
        from ropecli.analyses.float32_tables import float32_error
        from ropecli.files.encode import copy_notes, default_output, write_rotated
        from ropecli.files.opened import open_rotation
        from ropecli.render.encode import (
            float32_notes,
            later_notes,
            left_out_notes,
            left_over_notes,
        )

        target = default_output(input) if output is None else output
        model = self.rope.model
        _check_streams(input, target, model=model, json=self.page.json)
        notes: tuple[str, ...] = ()

        def start(opened: OpenInput) -> None:
            nonlocal notes
            notes = self._notes(opened) + copy_notes(opened, target)
            self.page.note(*notes, *left_over_notes(target))
            with _messages_off_stdout(target, quiet=self.page.quiet):
                self._show_plan(opened, target)

        with open_rotation(input, self._rope_for, **self.rotation) as opened:
            with self._progress(opened.source.path.name) as progress:
                result = write_rotated(
                    opened,
                    target,
                    sources=list(named_files(model)),
                    start=start,
                    progress=progress,
                    **self.writing,
                )
            result = _spell_notes(result)
        furthest = max(array.furthest for array in result.arrays)
        tables = None if model is None else float32_error(opened.rope, furthest)
        later = later_notes([result], notes)
        self._note_results([result], later)
        self.page.note(*left_out_notes(result), *float32_notes(tables))
        with _messages_off_stdout(target, quiet=self.page.quiet):
            parameters = self._parameters(opened, "positions_continue")
            self.page.show(result, parameters, notes=notes + later, tables=tables)

    def many(self, inputs: list[Path], folder: Path | None, *, positions_continue: bool) -> None:
        """Rotate files one after another, and show at the end which could not be rotated."""
        from ropecli.files.encode import copy_notes, default_output
        from ropecli.files.many import encode_files, outputs_of
        from ropecli.render.encode import first_of_files, later_notes, show_failures
        from ropecli.render.labels import quantity

        if self.rope.model is not None:
            self._rope_for(0)  # the message is that of the model, and not of every file
        notes: tuple[str, ...] = ()
        parameters: dict[str, Any] = {}

        def start(opened: OpenInput) -> None:
            nonlocal notes, parameters
            target = default_output(opened.input) if folder is None else folder / opened.input.name
            notes = self._notes(opened) + copy_notes(opened, target)
            parameters = self._parameters(opened)
            self.page.note(*notes)
            outputs = outputs_of(inputs, folder)
            files = first_of_files(inputs, outputs, positions_continue=positions_continue)
            self._show_plan(opened, target, *files)

        with self._progress(quantity(len(inputs), "file")) as progress:
            result = encode_files(
                inputs,
                self._rope_for,
                folder=folder,
                positions_continue=positions_continue,
                progress=progress,
                start=start,
                **self.writing,
                **self.rotation,
            )
        if not result.files and len({failure.message for failure in result.failures}) == 1:
            raise result.failures[0].error  # it is not about a file
        result = replace(result, files=tuple(map(_spell_notes, result.files)))
        later = later_notes(result.files, notes)
        self._note_results(result.files, later)
        where = " next to the inputs" if folder is None else f" to {folder}"
        if parameters and not (self.page.json and result.failures):
            self.page.show(result, parameters, notes=notes + later, where=where)
        show_failures(result.failures, _option)
        if result.failures:
            raise typer.Exit(2)

    def dry(self, inputs: list[Path], target: Path | None, *, several: bool) -> None:
        """Show what the outputs would be, and what they would cost."""
        from ropecli.files.dry_run import dry_run
        from ropecli.files.encode import default_output
        from ropecli.files.many import outputs_of

        one = [default_output(inputs[0]) if target is None else target]
        outputs = outputs_of(inputs, target) if several else one
        parameters: dict[str, Any] = {}
        plan: list[str] = []

        def start(opened: OpenInput) -> None:
            nonlocal parameters, plan
            self.page.note(*self._notes(opened))
            parameters = self._parameters(opened)
            plan = self._plan(opened)

        result = dry_run(
            list(zip(inputs, outputs, strict=True)),
            self._rope_for,
            sources=list(named_files(self.rope.model)),
            start=start,
            makes_folder=several and target is not None,
            **self.writing,
            **self.rotation,
        )
        self.page.show(result, parameters, plan=plan)

    def check(self, input: Path, output: Path) -> bool:
        """Compare a file with the rotation of another; return whether it is that."""
        from ropecli.checks.encode_check import comparison
        from ropecli.files.formats.pipe import is_pipe
        from ropecli.files.opened import open_rotation

        with (
            open_rotation(input, self._rope_for, **self.rotation) as opened,
            comparison(opened, output) as compare,
        ):
            self.page.note(*self._notes(opened))
            plan = self._plan(opened)
            with self._progress(output.name) as progress:
                result = compare(progress)
        unread = self.rotation["shape"] is not None or is_pipe(input)
        accepted = ("sequence_axis", "positions", "dtype")
        options = {f"--{name.replace('_', '-')}": self.rotation[name] for name in accepted}
        free = {"base": self.rope.base, "layout": self.rope.layout, "head dim": self.rope.dim}
        known = self.rope.model is not None or self.rope.inv_freq is not None
        assumed = [] if known else [name for name, value in free.items() if value is None]
        self.page.show(
            result,
            self._parameters(opened, "positions_continue", "scheduler"),
            axes=opened.axes,
            rope=opened.rope,
            plan=plan,
            assumed=", ".join(assumed),
            options=None if unread else {"--dim": self.rope.dim, **options},
        )
        return result.passed

    def _rope_for(self, width: int) -> Rotary:
        """Return the encoding of vectors of a length.

        That of a model is read once: standard input gives it but once.
        """
        if self.encoding is None or self.rope.model is None:
            self.encoding = self.rope.encoding(
                dim=width, uses_context=False, rotary_offset=self.rotary_offset
            )
        return self.encoding.rope

    def _notes(self, opened: OpenInput) -> tuple[str, ...]:
        """Return notes on guesses about the first file that may silently be wrong."""
        from ropecli.files.array_axes import axis_notes

        notes = _with_options(
            axis_notes(
                opened.axes,
                axis_given=self.rotation["sequence_axis"] is not None,
                dim_given=self.rope.dim is not None or self.rope.model is not None,
            )
        )
        if self.encoding is not None:
            notes += self.encoding.notes
        axes = opened.rope.axes
        if axes > 1 and self.rotation["positions"] is None:
            notes += (f"positions have {axes} axes, alike without --positions, as in text",)
        return notes

    def _parameters(self, opened: OpenInput, *omitted: str) -> dict[str, Any]:
        """Return the parameters of the run, for its JSON, without those that have no effect."""
        return self.page.parameters(
            *(opened.axes, opened.rope),
            omit=("input", "output", "check", "force", *omitted),
            shape=self.rotation["shape"],
        )

    def _show_plan(self, opened: OpenInput, target: Path, *before: str) -> None:
        """Show lines, the axes and the encoding of an input, unless --json or --quiet is given."""
        from ropecli.render.console import Screen, show

        if not (self.page.json or self.page.quiet):
            show([*before, *self._plan(opened, target)], Screen())

    def _plan(self, opened: OpenInput, target: Path | None = None) -> list[str]:
        """Return the axes and the encoding of an input, and where it is written."""
        from ropecli.render.encode import plan_lines

        positions, offset = self.rotation["positions"], self.rotation["offset"]
        return plan_lines(
            opened.axes,
            opened.rope,
            target=target,
            positions=positions,
            offset=offset,
            model=self.rope.model,
            inverse=self.rotation["inverse"],
        )

    def _progress(self, name: str) -> contextlib.AbstractContextManager[Any]:
        from ropecli.cli.progress import progress_bar

        return progress_bar(name, wanted=not self.page.quiet)

    def _note_results(self, files: Sequence[Encoded], notes: tuple[str, ...]) -> None:
        """Write notes on later files and tensors, and warnings of what is not finite."""
        from ropecli.render.encode import shorten, warnings

        arrays = [array for file in files for array in file.arrays]
        self.page.note(*shorten(notes))
        self.page.note(*warnings(arrays), kind="warning")


def _spell_notes(result: Encoded) -> Encoded:
    """Return the result with options in place of the parameters that its notes name."""
    arrays = tuple(replace(array, notes=_with_options(array.notes)) for array in result.arrays)
    return replace(result, arrays=arrays, notes=_with_options(result.notes))


def _with_options(notes: tuple[str, ...]) -> tuple[str, ...]:
    from ropecli.errors import spell_parameters

    return tuple(spell_parameters(note, _option) for note in notes)


def _option(parameter: str) -> str:
    from ropecli.cli.app import option_of

    return option_of("encode", parameter)
