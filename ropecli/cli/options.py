"""Options that several commands share, each declared once: the encoding, and the output."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from ropecli.cli.command import flag, option
from ropecli.cli.encoding import (
    BASE,
    LAYOUT,
    NamedRotary,
    length_notes,
    named_notes,
    naming_set,
    of_layer,
    parameters,
    write_configuration,
)
from ropecli.cli.parameters import Parsed
from ropecli.errors import ArgumentError, FileError
from ropecli.names import choices

if TYPE_CHECKING:
    from ropecli.models.model import Model
    from ropecli.models.overrides import Overrides
    from ropecli.models.settings import Description
    from ropecli.render.figure import Look
    from ropecli.results import Result


def _modules(folder: str) -> tuple[str, ...]:
    """Return the names of the modules of a package, which is not imported: that takes NumPy."""
    paths = Path(__file__).parents[1].joinpath(folder).glob("[a-z]*.py")
    return tuple(sorted(path.stem for path in paths))


#: How the help texts say what is taken as a model.
SOURCE = "config.json, its folder, .gguf, example:NAME, or - for stdin"
ENCODINGS = _modules("encodings/types")
ROPE_TYPES = _modules("rotary/types")

Layout = Annotated[
    str | None,
    option(
        "LAYOUT", "Pairing: interleaved (2i, 2i+1) or half (i, i + dim/2). [default: interleaved]"
    ),
]
RotaryOffset = Annotated[int | None, option("N", "First rotated coordinate. [default: 0]")]
Layer = Annotated[str | None, option("TYPE", "Layer type, if the model has several.")]
SequenceLength = Annotated[
    int | None, option("N", "Sequence length, for dynamic NTK and LongRoPE.")
]
Force = Annotated[bool, flag("--force", "Replace an existing output file.", under="Output")]
Seed = Annotated[int, option("N", "Random seed.")]


@dataclass(frozen=True, kw_only=True)
class OverrideOptions:
    """The options that take the place of a model's own values, apart from its base."""

    heading: ClassVar[str] = "Encoding"
    layout: Layout = None
    rope_type: str | None = option(
        "NAME", f"RoPE scaling type: {choices(ROPE_TYPES)}. [default: default]"
    )
    set: list[str] | None = option(
        "KEY=VALUE", "Parameter of the scaling type, named as in config.json; repeatable."
    )
    context: int | None = option("N", "Context length. [default: the model's]")
    layer: Layer = None
    sequence_length: SequenceLength = None
    write: Path | None = option(
        "FILE", "Write the model's config.json with these values to a new file."
    )

    def overrides(self, base: float | None) -> Overrides:
        """Return the values that take the place of a model's."""
        from ropecli.models.overrides import Overrides

        return Overrides(
            base=base,
            rope_type=self.rope_type,
            parameters=parameters(self.set),
            context_length=self.context,
            layout=self.layout,
        )


@dataclass(frozen=True, kw_only=True)
class RotaryOptions(OverrideOptions):
    """The options that describe rotary encodings, apart from head dim, base and model."""

    needs: ClassVar[dict[str, str]] = {"layer": "model", "write": "model"}
    excludes: ClassVar[dict[str, tuple[str, ...]]] = {
        "model": ("dim", "rotary_dim", "rotary_offset")
    }
    layout: Layout = None
    rotary_dim: int | None = option(
        "N", "Number of rotated coordinates, even. [default: all of --dim]"
    )

    @property
    def numbers(self) -> dict[str, Any]:
        """The options that describe the encoding but for a model, by name; None if not given."""
        names = ("dim", "base", "layout", "rotary_dim", "rope_type", "set")
        return {name: getattr(self, name) for name in names}

    def rotating_layers(self, source: str, *, base: float | None = None) -> list[NamedRotary]:
        """Return the encoding of every layer type that rotates, or of the one named."""
        model, notes, _ = self._load(source, base)
        rotating = model.only(self.layer).rotations
        if not rotating:
            which = "" if self.layer is None else f" {self.layer}"
            raise ArgumentError(f"{source} has no layer{which} with a rotary position embedding")
        several = len(model.rotations) > 1
        return [
            replace(
                of_layer(model, layer, notes),
                name=f"{source} ({layer.name})" if several else source,
            )
            for layer in rotating
        ]

    def _load(self, source: str, base: float | None) -> tuple[Model, tuple[str, ...], Description]:
        """Return a model with the values of options in place of its own, notes, and its file."""
        from ropecli.models.load import check_length, compute, describe
        from ropecli.models.overrides import override

        used = check_length(self.sequence_length)
        overrides = self.overrides(base)
        with naming_set(overrides.parameters):
            described = describe(source)
            overridden = override(described, overrides, layer=self.layer)
            model = compute(overridden.description, sequence_length=used)
        notes = (*overridden.notes, *length_notes(model))
        if self.write is None:
            return model, notes, described
        write_configuration(self.write, overridden, model.layers, sequence_length=used)
        return model, (*notes, f"configuration written to {self.write}"), described

    def _of_numbers(
        self, dim: int, base: float | None, *, uses_context: bool, rotary_offset: int | None = None
    ) -> NamedRotary:
        """Return the encoding that numbers describe."""
        from ropecli.numbers import length
        from ropecli.rotary import rope
        from ropecli.rotary.types import PLAIN, canonical, own_parameters

        rope_type = canonical(self.rope_type or PLAIN)
        given, context = parameters(self.set), self.context
        if context is not None:
            context = length("context", context)
            if "max_position_embeddings" in own_parameters(rope_type):
                given["max_position_embeddings"] = context
            elif not uses_context:
                raise ArgumentError(
                    f"--context has no effect on rope type {rope_type}; leave it out"
                )
        if self.sequence_length is not None:
            given["sequence_length"] = self.sequence_length
        with naming_set(parameters(self.set)):
            made = rope(
                rope_type,
                head_dim=dim,
                rope_theta=BASE if base is None else base,
                layout=LAYOUT if self.layout is None else self.layout,
                rotary_dim=self.rotary_dim,
                rotary_offset=rotary_offset or 0,
                **given,
            )
        return NamedRotary(rope=made, context=context)


@dataclass(frozen=True, kw_only=True)
class EncodingOptions(RotaryOptions):
    """The options that describe a rotary encoding: by a model, by its parameters or its table."""

    excludes: ClassVar[dict[str, tuple[str, ...]]] = {
        **RotaryOptions.excludes,
        "inv_freq": (
            *("model", "base", "rotary_dim", "rope_type", "set"),
            *("layer", "sequence_length", "write"),
        ),
    }

    dim: int | None = option("N", "Head dim, even, at least 2. [default: 64]")
    base: float | None = option("B", "Base (theta), above 0. [default: 10000]")
    model: str | None = option("SOURCE", f"Model: {SOURCE}. Options override it.")
    inv_freq: Path | None = option(
        "FILE", "Table of inverse frequencies, (pairs,), or (axes, pairs) of several axes."
    )

    def encoding(
        self, *, dim: int = 64, uses_context: bool = True, rotary_offset: int | None = None
    ) -> NamedRotary:
        """Return the encoding that is described."""
        if self.inv_freq is not None:
            return self._of_table(self.inv_freq, rotary_offset or 0)
        if self.model is None:
            dim = dim if self.dim is None else self.dim
            return self._of_numbers(
                dim, self.base, uses_context=uses_context, rotary_offset=rotary_offset
            )
        model, notes, described = self._load(self.model, self.base)
        named = of_layer(model, model.rotating_layer(self.layer), notes)
        return replace(named, described=described)

    def _of_table(self, path: Path, rotary_offset: int) -> NamedRotary:
        """Return the encoding of a table of frequencies."""
        import numpy as np

        from ropecli.files.load import read_tensor
        from ropecli.rotary import Rotary

        found = Rotary.from_inv_freq(
            read_tensor(path).astype(np.float64),
            head_dim=self.dim,
            layout=self.layout or LAYOUT,
            rotary_offset=rotary_offset,
        )
        return NamedRotary(rope=found)


@dataclass(frozen=True, kw_only=True)
class EncodingListOptions(RotaryOptions):
    """The options that describe rotary encodings to compare: of models, or of dims and bases."""

    dim: list[int] | None = option("N", "Head dim, even; repeatable. [default: 128]")
    base: list[float] | None = option("B", "Base (theta), above 0; repeatable. [default: 10000]")
    model: list[str] | None = option("SOURCE", f"Model: {SOURCE}; repeatable. Options override it.")

    def encodings(self, *, dim: int = 128, uses_context: bool = True) -> list[NamedRotary]:
        """Return the encodings that are described.

        There is one for each layer type of each model's text part, or of --layer, with each
        base that is given; or without a model one for each dim and base.
        """
        if not self.model:
            return [
                self._of_numbers(width, base, uses_context=uses_context)
                for width in dict.fromkeys(self.dim or [dim])
                for base in dict.fromkeys(self.base or [BASE])
            ]
        bases: list[float | None] = list(dict.fromkeys(self.base)) if self.base else [None]
        if self.write is not None and (len({*self.model}) > 1 or len(bases) > 1):
            raise ArgumentError("--write takes one --model and one --base, got several")
        ropes: list[NamedRotary] = []
        for source in dict.fromkeys(self.model):
            for base in bases:
                model, notes, described = self._load(source, base)
                named = self.layer is not None
                layers = [model.rotating_layer(self.layer)] if named else model.text_layers()
                of_model = (of_layer(model, layer, notes) for layer in layers)
                ropes += (replace(rotary, described=described) for rotary in of_model)
        return ropes


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The options of a command that prints a result."""

    heading: ClassVar[str] = "Output"
    parsed: Parsed
    json: bool = flag("--json", "Print one JSON document and nothing else.")
    quiet: bool = flag("-q", "Print only the answer.", "--quiet")

    def parameters(self, *taken: object, omit: Sequence[str] = (), **more: Any) -> dict[str, Any]:
        """Return the `parameters` of the JSON document: the command line as it was parsed.

        An option that was not given has the value that the library took, as results or encodings
        say it.
        """
        left_out = {field.name for field in fields(self)} | {"write", *omit}
        return self.parsed.with_values_of(taken, left_out) | more

    def note(self, *lines: str, kind: str = "note") -> None:
        """Write notes to stderr, unless --quiet is given."""
        from ropecli.render import console

        for line in () if self.quiet else lines:
            console.note(line, kind=kind)

    def note_encodings(self, encodings: list[NamedRotary]) -> None:
        """Write the notes of encodings that are shown side by side."""
        self.note(*named_notes(encodings))

    def working(self) -> AbstractContextManager[object]:
        """Show on a terminal, after a second, that the command is at work."""
        from ropecli.cli.progress import progress_bar

        return progress_bar(self.parsed.command, wanted=not self.quiet, of="seconds", after=1.0)

    def show(self, result: Result, parameters: dict[str, Any], **options: Any) -> None:
        """Write the output if there is one, then print the document or the page of a result."""
        from ropecli import render
        from ropecli.render import console, document

        saved = self._save(result, parameters, options)
        if saved == Path("-"):
            return  # stdout has the file, and nothing else
        if self.json:
            document.show(self.parsed.command, parameters, render.as_json(result, **options))
        else:
            screen = console.Screen.of_stdout(brief=self.quiet, saved=saved)
            page = render.view_of(result).page(result, screen, **options)
            if self.quiet:
                page, screen = [*takewhile(bool, page)], replace(screen, saved=None)
            console.show(page, screen)

    def show_all(
        self, results: Sequence[Result], parameters: dict[str, Any], **options: Any
    ) -> None:
        """Show results of one analysis side by side."""
        from ropecli.results import ResultGroup

        self.show(ResultGroup(results=tuple(results)), parameters, **options)

    def _save(
        self, result: Any, parameters: dict[str, Any], options: dict[str, Any]
    ) -> Path | None:
        """Write the output, and return its path, of a command that has one."""
        return None

    def _sources(self) -> Iterator[Path]:
        """Yield all files that the command line names, apart from the output."""
        for name, value in self.parsed.parameters.items():
            if name != "output":
                for item in value if isinstance(value, list) else [value]:
                    yield from named_files(item)


@dataclass(frozen=True, kw_only=True)
class FileOptions(PageOptions, ABC):
    """The options of a command that prints a result, and may write a file."""

    suffixes: ClassVar[tuple[str, ...]]  #: What the name of the output may end in.
    output: Path | None = option("FILE", "Output file.", "-o", "--output")
    force: Force = False

    def __post_init__(self) -> None:
        """Refuse an output that can't be written before anything is computed."""
        if self.output is None:
            return
        from ropecli.render.save import STDOUT, check_savable

        check_savable(
            self.output,
            force=self.force,
            form=self._form,
            sources=list(self._sources()),
            suffixes=self.suffixes,
        )
        if self.json and self.output == STDOUT:
            raise ArgumentError(
                "--json needs stdout for its document, but -o - writes there; give -o FILE"
            )

    @property
    def _form(self) -> str | None:
        """The form of the output in place of its suffix."""
        return None

    @abstractmethod
    def _content(self, result: Any, parameters: dict[str, Any], options: dict[str, Any]) -> bytes:
        """Return the content of the output."""

    def _save(
        self, result: Any, parameters: dict[str, Any], options: dict[str, Any]
    ) -> Path | None:
        if self.output is not None:
            from ropecli.render.save import write_output

            content = self._content(result, parameters, options)
            write_output(self.output, content, force=self.force)
        return self.output


def raise_last(errors: Sequence[FileError]) -> None:
    """Raise the last of the errors of files that were left out, and write the others."""
    from ropecli.render import console

    for error in errors[:-1]:
        console.note(str(error), kind="error")
    if errors:
        raise errors[-1]


def named_files(value: object) -> Iterator[Path]:
    """Yield the file that a value of the command line names, if there is one."""
    from ropecli.models.source import STDIN, locate

    if isinstance(value, str | Path) and str(value) != STDIN:
        with contextlib.suppress(FileError):
            yield locate(value)


FORM = "Form of -o in place of its suffix, e.g. md."
FIGURE = "Figure"  #: Heading of the options of figures.
LOOK = ("width", "height", "dpi", "log_x", "title", "style")  #: Options that change a figure.


@dataclass(frozen=True, kw_only=True)
class TableOptions(FileOptions):
    """The options of a command that prints a result, and writes its numbers."""

    needs: ClassVar[dict[str, str]] = {"format": "output"}
    output: Path | None = option(
        "FILE", "Table (.csv .md .tex) or .json by suffix; - for stdout.", "-o", "--output"
    )
    force: Force = False
    format: str | None = option("FORM", FORM)
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".md", ".tex", ".json")

    @property
    def _form(self) -> str | None:
        return self.format

    @property
    def _suffix(self) -> str:
        """The suffix that says what is written; none without an output."""
        from ropecli.render.save import suffix_of

        return "" if self.output is None else suffix_of(self.output, self.format)

    @property
    def writes_table(self) -> bool:
        """True if the output is a table."""
        from ropecli.render.save import TABLES

        return self._suffix in TABLES

    def __post_init__(self) -> None:
        if self.output is None:
            return
        write = self.parsed.parameters.get("write")
        if write is not None and os.path.realpath(write) == os.path.realpath(self.output):
            raise ArgumentError(f"-o and --write are the same file: {write}")
        super().__post_init__()

    def _content(self, result: Any, parameters: dict[str, Any], options: dict[str, Any]) -> bytes:
        from ropecli.render.save import content_of

        return content_of(
            result,
            self._suffix,
            self.parsed.command,
            parameters,
            look=self._look,
            arguments=self.parsed.arguments,
            options=options,
        )

    @property
    def _look(self) -> Look:
        from ropecli.render.figure import Look

        return Look()


@dataclass(frozen=True, kw_only=True)
class OutputOptions(TableOptions):
    """The options of a command that prints a result, and writes its figure or its numbers."""

    needs: ClassVar[dict[str, str]] = dict.fromkeys(("format", *LOOK), "output")
    output: Path | None = option(
        "FILE",
        "Figure (.png .svg .pdf), table (.csv .md .tex) or .json by suffix; - for stdout.",
        "-o",
        "--output",
    )
    force: Force = False
    format: str | None = option("FORM", FORM)
    width: float | None = option("INCHES", "Width of the figure.", under=FIGURE)
    height: float | None = option("INCHES", "Height of the figure.", under=FIGURE)
    dpi: float | None = option("N", "Pixels per inch of a .png. [default: 150]", under=FIGURE)
    log_x: bool = flag("--log-x", "Logarithmic horizontal axis.", under=FIGURE)
    title: str | None = option("TEXT", "Title of the figure.", under=FIGURE)
    style: str | None = option(
        "STYLE", "Matplotlib style, e.g. grayscale, or a .mplstyle file.", under=FIGURE
    )
    suffixes: ClassVar[tuple[str, ...]] = (".png", ".svg", ".pdf", *TableOptions.suffixes)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.output is None:
            return
        from ropecli.render.save import FIGURES

        look = [name for name in LOOK if getattr(self, name) not in (None, False)]
        if self._suffix in FIGURES:
            self._look  # noqa: B018  # refuses sizes before anything is computed
        elif look:
            raise ArgumentError(
                f"--{look[-1].replace('_', '-')} applies only to figures, not to {self.output}"
            )

    @property
    def _look(self) -> Look:
        from ropecli.render.figure import Look

        return Look(**{name: getattr(self, name) for name in LOOK})


@dataclass(frozen=True, kw_only=True)
class PictureOptions(OutputOptions):
    """The options of a command that prints a result and draws it."""

    output: Path | None = option(
        "FILE", "Figure by suffix: .png .svg .pdf; - for stdout.", "-o", "--output"
    )
    suffixes: ClassVar[tuple[str, ...]] = (".png", ".svg", ".pdf")
