"""Encodings and files that the options of a command describe."""

from __future__ import annotations

import ast
import contextlib
import json
import keyword
import os
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ropecli.errors import ArgumentError, FileError, RopecliError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.files.load import Vector
    from ropecli.models.model import Layer, Model
    from ropecli.models.overrides import Overridden
    from ropecli.models.settings import Description
    from ropecli.rotary import Rotary

BASE = 10_000.0
LAYOUT = "interleaved"
#: Parameters of `ropecli.rope` that options of their own set.
OPTIONS = {
    "rope_type": "--rope-type",
    "head_dim": "--dim",
    "rope_theta": "--base",
    "layout": "--layout",
    "rotary_dim": "--rotary-dim",
    "rotary_offset": "--rotary-offset",
    "sequence_length": "--sequence-length",
    "max_position_embeddings": "--context",
}


@dataclass(frozen=True, kw_only=True)
class NamedRotary:
    """A rotary encoding, and the model that it came from."""

    rope: Rotary
    name: str | None = None  #: Of the model, and of the layer where it has several.
    layer: Layer | None = None
    model: Model | None = None
    described: Description | None = None  #: The model's file, without what options override.
    context: int | None = None  #: Context length: of --context, or else of the model.
    overrides: tuple[str, ...] = ()  #: Notes on values that take the place of the model's.

    @property
    def reach(self) -> int | None:
        """Longest distance that the layer sees: the context, or a sliding window below it."""
        return self.context if self.layer is None else self.layer.reach

    @property
    def notes(self) -> tuple[str, ...]:
        """Overrides and assumptions, and what a table depends on or does not tell apart."""
        return (*self.overrides, *self._notes_of_rope)

    @property
    def _notes_of_rope(self) -> tuple[str, ...]:
        table = self.rope.diagonal_inv_freq.tolist()
        one = self.rope.base == 1 and len(set(table)) == 1 < len(table)
        alike = ("base 1 rotates all pairs alike: its powers are all 1",) if one else ()
        return (*alike, *self._notes_of_layer)

    @property
    def _notes_of_layer(self) -> tuple[str, ...]:
        if self.model is None or self.layer is None:
            return ()
        assumed = tuple(f"assumed: {sentence}" for sentence in self.layer.settings.assumed)
        from ropecli.render.labels import sequences

        fitting = sequences(self.rope)
        if self.model.sequence_length is not None or fitting is None:
            return assumed
        return (
            *assumed,
            f"{self.rope.rope_type} changes with the length of the sequence: this is its table "
            f"for {fitting}; --sequence-length N chooses",
        )


def named_notes(encodings: list[NamedRotary]) -> list[str]:
    """Return the notes of encodings, each once, with the name of its model or layer."""
    found = [
        (name, note)
        for encoding in encodings
        for name, notes in (
            (encoding.model and source_name(encoding.model), encoding.overrides),
            (encoding.name, encoding._notes_of_rope),
        )
        for note in notes
    ]
    return [f"{name}: {note}" if name else note for name, note in dict.fromkeys(found)]


def length_notes(model: Model) -> tuple[str, ...]:
    """Return a note if a sequence length was given that changes nothing in a model."""
    ropes = [layer.rotary for layer in model.layers if layer.rotary is not None]
    # One position is the start of every sequence, and `scale` asks for its table.
    if model.sequence_length in (None, 1) or not all(map(_is_of_short_sequences, ropes)):
        return ()
    if any(rope.depends_on_length for rope in ropes):
        shown = f"--sequence-length {model.sequence_length}"
        return (f"{shown} is too short to change anything: all shorter sequences have this table",)
    types = ", ".join(dict.fromkeys(rope.rope_type for rope in ropes))
    return (f"--sequence-length has no effect on rope type {types}",)


def _is_of_short_sequences(rope: Rotary) -> bool:
    """Tell whether a table is that of the shortest sequence."""
    short = rope.at_length(1)
    same = rope.attention_factor == short.attention_factor
    return same and bool((rope.diagonal_inv_freq == short.inv_freq).all())


def write_configuration(
    target: Path, overridden: Overridden, layers: Sequence[Layer], *, sequence_length: int | None
) -> None:
    """Write a configuration to a new file, indented as Transformers does it."""
    from ropecli.files.atomic import replacing
    from ropecli.models.read_back import check_read_back

    if overridden.unwritable is not None:
        refuse_to_write(target, overridden.unwritable)
    try:
        check_read_back(overridden.description, layers, sequence_length=sequence_length)
    except RopecliError as error:
        refuse_to_write(target, error.problem)
    if target.suffix.lower() != ".json":
        raise ArgumentError(f"--write must end in .json, got {target.name!r}")
    if os.path.lexists(target):
        raise FileError(f"{target} exists; --write never replaces a file")
    content = json.dumps(overridden.description.raw, indent=2) + "\n"
    with replacing(target, force=False) as stream:
        stream.write(content.encode())


def refuse_to_write(target: Path, why: str, advice: str = "") -> NoReturn:
    """Raise the error for a configuration that is not written."""
    raise ArgumentError(f"cannot write {target}: {why}", advice)


def source_name(model: Model) -> str:
    """Return the name of a model in labels: its file as it was given."""
    from ropecli.models.source import STDIN

    return "stdin" if model.source == STDIN else model.source


def of_layer(model: Model, layer: Layer, notes: tuple[str, ...]) -> NamedRotary:
    """Return the encoding of a layer that rotates, with the name of its model."""
    assert layer.rotary is not None
    several = len(model.rotations) > 1 and layer.name != "all"
    name = source_name(model)
    return NamedRotary(
        rope=layer.rotary,
        name=f"{name} {layer.name}" if several else name,
        layer=layer,
        model=model,
        context=layer.context_length,
        overrides=notes,
    )


def parameters(words: list[str] | None) -> dict[str, Any]:
    """Parse the words of --set as parameters of an encoding."""
    values = key_values("--set", words)
    for key in values:
        if key in OPTIONS:
            raise ArgumentError(f"--set {key}: give it with {OPTIONS[key]}")
    return values


@contextlib.contextmanager
def naming_set(given: Container[str]) -> Iterator[None]:
    """Have an error that begins with a parameter given by --set begin with the option."""
    try:
        yield
    except RopecliError as error:
        if error.problem.partition(" ")[0] in given:
            error.problem = f"--set {error.problem}"
        raise


def key_values(option: str, words: list[str] | None, *, python: bool = False) -> dict[str, Any]:
    """Parse KEY=VALUE words of an option; values are JSON, or else plain words."""
    pairs: dict[str, Any] = {}
    for word in words or []:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise ArgumentError(f"{option} must be KEY=VALUE, got {word!r}")
        if key in pairs:
            raise ArgumentError(f"{option} {key} was given twice")
        try:
            pairs[key] = json.loads(value)
        except (ValueError, RecursionError):
            pairs[key] = _python_value(f"{option} {key}", value) if python else value
    return pairs


def _python_value(name: str, text: str) -> Any:
    """Return the value of a literal of Python, or an identifier as it is."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if text.isidentifier() and not keyword.iskeyword(text):
            return text
    raise ArgumentError(
        f"{name} must be a literal of Python or a plain word, got {text!r}",
        "write a text in quotes within the quotes of the shell",
    )


def encoding_names(words: list[str]) -> list[str]:
    """Return the names of positional encodings, each once: of "rope,t5", "all" or several such."""
    from ropecli.encodings import ENCODINGS
    from ropecli.names import one_of

    names = [name.strip() for word in words for name in word.split(",")]
    if "all" in names:
        return list(ENCODINGS)
    return [one_of("encoding", name, ENCODINGS) for name in dict.fromkeys(names)]


def encoding_options(words: list[str] | None, names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the options that words of --set, NAME.KEY=VALUE, give to each of the encodings."""
    from ropecli.encodings.by_name import class_of

    options, unassigned = by_encoding(parameters(words), names)
    if unassigned:
        raise ArgumentError(
            f"--set {unassigned[0]}: must be NAME.KEY, NAME one of {', '.join(names)}"
        )
    for name, chosen in options.items():
        for key in chosen if name != "rope" else ():  # of RoPE they are parameters of its type
            # An option whose default is not a plain value has no spelling on a command line.
            if not isinstance(getattr(class_of(name), key, 0), bool | int | float | str):
                raise ArgumentError(f"--set {name}.{key}: only the Python API takes it")
    return options


def by_encoding(
    named: dict[str, Any], names: list[str]
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Sort NAME.KEY, or KEY where there is one encoding, by name; and return the other keys."""
    from ropecli.encodings import ENCODINGS

    options: dict[str, dict[str, Any]] = {name: {} for name in names}
    unassigned = []
    for full, value in named.items():
        name, dot, key = full.partition(".")
        if dot and name in ENCODINGS:
            if name in options:  # one file of weights may serve several runs
                options[name][key] = value
        elif len(names) == 1:
            options[names[0]][full] = value
        else:
            unassigned.append(full)
    return options, unassigned


def read_positions(path: Path) -> NDArray[Any]:
    """Return the only array of a file of positions."""
    from ropecli.files.arrays import choose, read_whole
    from ropecli.files.formats.registry import open_source
    from ropecli.files.formats.stored import check_numeric

    with open_source(path) as source:
        names = list(source.arrays)
        if len(names) > 1:
            some = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
            raise ArgumentError(
                f"--positions must be a file of one array, got {path} with {len(names)}: {some}"
            )
        (name,) = choose(source, None)
        return read_whole(source.reader(check_numeric(source.arrays[name])))


def read_vector(name: str, text: str, row: int | None = None, *, option: str = "--row") -> Vector:
    """Return the numbers that were typed, or those of the file."""
    import numpy as np

    from ropecli.files.load import Vector, load_vector

    words = [word for word in re.split(r"[\s,;\[\]()]+", text) if word]
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        if "," not in text or Path(text).exists():
            return load_vector(Path(text), row)
        raise ArgumentError(
            f"{name} must be numbers with commas, or a file, got {text!r}"
        ) from None
    if row is not None:
        raise ArgumentError(f"{option} needs a file, got row {row} of numbers that were typed")
    if len(numbers) < 2 or len(numbers) % 2:
        raise ArgumentError(
            f"{name} must have an even number of coordinates, at least 2, got {len(numbers)}"
        )
    return Vector(values=np.array(numbers))
