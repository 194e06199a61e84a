"""Everything about one or several models in one result: the page of `report`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ropecli.analyses.base_bound import BaseBound, base_bound
from ropecli.analyses.decay import Decay, decay
from ropecli.analyses.frequencies import FrequencyTable, frequency_table
from ropecli.analyses.precision import Precision, precision
from ropecli.analyses.scale import Scale, scale
from ropecli.errors import ArgumentError, FileError
from ropecli.models.lint.rule import Finding
from ropecli.models.lint.run import lint_description
from ropecli.models.load import check_length, compute, describe, trained_length
from ropecli.models.model import Layer, Model
from ropecli.models.overrides import Overridden, Overrides, override
from ropecli.models.settings import Description
from ropecli.models.source import EXAMPLE, STDIN
from ropecli.results import HtmlResult
from ropecli.rotary import Rotary

MOST_ENCODINGS = 8  #: On one page, which stays below 1 MB and can still be read.
DISTANCE = 1024  #: Positions up to which the bound of decay is shown.
CONTEXT = 4096  #: Positions where the file gives no context length.
FACTOR = 4  #: By which a context that was not scaled is extended.
#: Longer contexts take seconds; the page is about those up to here, with a note.
LONGEST_PRECISION, LONGEST_SCALE = 2**18, 2**20

Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedModel:
    """A file, as a stack reads it and as lint judges it."""

    source: str  #: The file, or "-" for standard input.
    name: str  #: The end of its path that tells it apart; without a path, its model type.
    model: Model | None  #: None where no rotation can be computed from the file.
    problem: str | None  #: Why no rotation can be computed; None where one can.
    findings: tuple[Finding, ...]  #: Of lint, errors first.
    notes: tuple[str, ...]  #: Values that take the place of the file's.


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedEncoding:
    """One rotation of a model, with what each analysis finds; None where it has no answer."""

    name: str  #: Of the model, and of the layer where it has several.
    layer: Layer  #: The first kind of layer that has it.
    decay: Decay | None  #: Up to 1,024 positions.
    coverage: FrequencyTable  #: Within the context, or a sliding window below it.
    base_bound: BaseBound | None  #: For the same length.
    precision: Precision | None  #: Within the context, up to 262,144 positions.
    scale: Scale | None  #: From the length before scaling to the context, or to 4 times it.
    notes: tuple[str, ...]  #: Analyses without an answer, and lengths that were assumed or cut.

    @property
    def rope(self) -> Rotary:
        """The encoding."""
        return self.coverage.rope


@dataclass(frozen=True, kw_only=True, eq=False)
class Report(HtmlResult):
    """Models side by side, with everything that the analyses say about them."""

    models: tuple[ReportedModel, ...]  #: In the order in which they were named.
    encodings: tuple[ReportedEncoding, ...]  #: Each rotation of each model's text part.

    def results(self, analysis: str) -> list[Any]:
        """Return the results of one analysis, of the encodings for which it has an answer.

        Args:
            analysis: Name of a field of `ReportedEncoding`.
        """
        found = (getattr(encoding, analysis) for encoding in self.encodings)
        return [value for value in found if value is not None]


def report(
    *sources: str | os.PathLike[str] | Mapping[str, Any],
    sequence_length: int | None = None,
    layer: str | None = None,
) -> Report:
    """Gather what `lint` and the analyses say about one model, or about several side by side.

    Args:
        *sources: Each a config.json, a folder that holds one, a .gguf file, or "-" for a
            config.json on standard input; or the object of a config.json.
        sequence_length: Positions in use, for dynamic NTK and LongRoPE.
        layer: One kind of layer; by default each rotation of the text part.

    Raises:
        ArgumentError: No source, more than 8 rotations, or no such layer.
        ArgumentTypeError: A source that is neither a path nor an object of keys, or a sequence
            length that is not an integer.
        FileError: A file that cannot be read.
    """
    used = check_length(sequence_length)
    return gather([describe(source) for source in sources], sequence_length=used, layer=layer)


def gather(
    described: Sequence[Description],
    *,
    overrides: Overrides | None = None,
    sequence_length: int | None = None,
    layer: str | None = None,
) -> Report:
    """Make the report of files that have been read."""
    if not described:
        raise ArgumentError("a report needs at least one source, got none")
    models: list[ReportedModel] = []
    rotations: list[tuple[str, Layer, int | None]] = []
    for description, name in zip(described, _names(described), strict=True):
        overridden = override(description, overrides or Overrides(), layer=layer)
        model = _model(overridden, name, sequence_length)
        models.append(model)
        several = model.model is not None and len(model.model.rotations) > 1
        for rotating in _layers(model.model, layer):
            full = f"{name} {rotating.name}" if several else name
            rotations.append((full, rotating, trained_length(rotating, description)))
    if len(rotations) > MOST_ENCODINGS:
        raise ArgumentError(
            f"a report is of at most {MOST_ENCODINGS} rotations, got {len(rotations)}",
            "choose one of each model with `layer`, or name fewer models",
        )
    stretchable = [
        rotating
        for model in models
        if model.model is not None and _layers(model.model, None)
        for rotating in model.model.stretchable_layers()
    ]
    encodings = tuple(
        _encoding(name, rotating, trained, stretches=layer is not None or rotating in stretchable)
        for name, rotating, trained in rotations
    )
    return Report(models=tuple(models), encodings=encodings)


def _names(described: Sequence[Description]) -> list[str]:
    """Return the shortest ends of paths that tell files apart."""
    paths = [_path(description) for description in described]
    for length in range(1, max(map(len, paths)) + 1):
        ends = ["/".join(parts[-length:]) for parts in paths]
        if len({*ends}) == len(ends):
            return ends
    # Objects of configurations have no path of their own.
    count = Counter(ends)
    return [f"{end}, {place}" if count[end] > 1 else end for place, end in enumerate(ends, start=1)]


def _path(described: Description) -> tuple[str, ...]:
    """Return what a reader calls a file: the folder of a config.json, or else its model type."""
    path = Path(described.source.removeprefix(EXAMPLE))
    if path.name not in ("config.json", STDIN):
        return path.parts
    return path.parent.parts or (described.model_type or described.source,)


def _model(overridden: Overridden, name: str, sequence_length: int | None) -> ReportedModel:
    model, problem = None, None
    described = overridden.description
    try:
        model = compute(described, sequence_length=sequence_length)
    except FileError as error:
        problem = str(error).removeprefix(f"{described.source}: ")
    if model is not None and not _layers(model, None):
        problem = "no layer has a rotary position embedding"
    return ReportedModel(
        source=described.source,
        name=name,
        model=model,
        problem=problem,
        findings=lint_description(described),
        notes=overridden.notes,
    )


def _layers(model: Model | None, name: str | None) -> list[Layer]:
    """Return the kinds of layers to report on; none of a model in which nothing rotates."""
    if model is None:
        return []
    if name is None:
        return model.text_layers() if model.rotations else []
    return [model.rotating_layer(name)]


def _encoding(name: str, layer: Layer, trained: int | None, *, stretches: bool) -> ReportedEncoding:
    rope = layer.rotary
    assert rope is not None
    notes = []
    context, reach = layer.context_length, layer.reach
    if reach is None:
        reach = CONTEXT
        notes.append(f"the file has no context length: {reach:,} positions are assumed")

    def attempt(what: str, analyse: Callable[[], Found]) -> Found | None:
        try:
            return analyse()
        except ArgumentError as error:
            notes.append(f"{what} left out: {error}")
            return None

    measured = min(context or reach, LONGEST_PRECISION)
    if context is not None and context > measured:
        notes.append(f"precision: of the first {measured:,} of {context:,} positions")
    before = trained or reach
    wanted = context if context is not None and context > before else FACTOR * before
    if wanted > LONGEST_SCALE:
        notes.append(
            f"extension: to {LONGEST_SCALE:,} instead of {wanted:,} positions; "
            "ropecli scale takes them all"
        )
        wanted = max(LONGEST_SCALE, before)
    scaled = None
    if stretches:
        scaled = attempt(
            "extension",
            lambda: scale(rope, original_length=before, context_length=wanted, name=name),
        )
    else:
        notes.append(f"extension left out: no distance is beyond its window of {reach:,}")
    return ReportedEncoding(
        name=name,
        layer=layer,
        decay=attempt("decay", lambda: decay(rope, max_distance=DISTANCE, name=name)),
        coverage=frequency_table(rope, context_length=reach, trained_length=trained, name=name),
        base_bound=attempt("base bound", lambda: base_bound(rope, context_length=reach, name=name)),
        precision=attempt("precision", lambda: precision(rope, context_length=measured, name=name)),
        scale=scaled,
        notes=tuple(notes),
    )
