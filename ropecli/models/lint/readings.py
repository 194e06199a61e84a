"""Two readings of a file compared: by two stacks, or by one stack before and after a change.

Every sentence about a stack in a finding comes from here, so that it says what the readings in
`ropecli.models.stacks` compute today.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from ropecli.errors import NoRotaryError, RopecliError
from ropecli.models.diff import LayerDifference, diff
from ropecli.models.lint.values import shown, value_or_none
from ropecli.models.load import compute, describe_config
from ropecli.models.model import Model
from ropecli.models.settings import Description, Settings
from ropecli.models.stacks import STACKS
from ropecli.names import join

FIRST = "transformers"  #: The stack that a config.json is made for.
#: The stacks whose readings were measured.
MEASURED = tuple(stack.name for stack in STACKS.values() if stack.version is not None)
_SAME_ANGLE = 2e-6  #: Radians per position; less is rounding of a file's numbers.
_SAME_FACTOR = 5e-4  #: Relative; files round to four digits.


class FileReadings:
    """A file as each stack reads it, each reading computed once."""

    def __init__(self, described: Description) -> None:
        self.described = described
        self._models: dict[tuple[str | None, int | None], Model | str] = {}

    def read_as(self, stack: str | None, *, length: int | None = None) -> Model | str:
        """Return the text model as a stack reads it, or why the stack refuses the file.

        Without a stack it is the one that the file is made for.
        """
        if (stack, length) not in self._models:
            self._models[stack, length] = self._compute(stack, length)
        return self._models[stack, length]

    def _compute(self, stack: str | None, length: int | None) -> Model | str:
        try:
            model = compute(self.described, sequence_length=length, reading=stack)
        except (RopecliError, ArithmeticError) as error:
            return str(error).removeprefix(f"{self.described.source}: ").replace("\n", " ")
        text = [layer for layer in model.layers if layer.settings.part == ""]
        if any(layer.settings.layers for layer in text):  # a kind without any is of no consequence
            text = [x for x in text if x.settings.layers is not None or x.settings.is_indexer]
        return replace(model, layers=tuple(text) or model.layers)

    @cached_property
    def layers(self) -> tuple[Settings, ...]:
        """The settings of each kind of layer of all parts; none of a file that is refused."""
        return value_or_none(lambda: self.described.settings) or ()

    @property
    def has_none(self) -> bool:
        """True if the file says that its model has no rotary embedding."""
        try:
            return not self.layers and not self.described.settings
        except RopecliError as error:
            return isinstance(error, NoRotaryError)

    @property
    def problem(self) -> str | None:
        """Why no rotation can be computed; None where one can."""
        model = self.read_as(None)
        return model if isinstance(model, str) else None

    @property
    def models(self) -> dict[str, Model | str]:
        """The text model as each stack reads it, or why the stack refuses the file."""
        return {stack: self.read_as(stack) for stack in MEASURED}

    def changed(self, changes: Mapping[str, object]) -> FileReadings:
        """Return the readings of the file with other values, by dotted path; `...` removes."""
        return FileReadings(describe_config("", with_changes(self.described.raw, changes)))

    def value(self, path: str) -> Any:
        """Return the value at a dotted path; None where the file has none."""
        place: Any = self.described.raw
        for name in path.split("."):
            place = place.get(name) if isinstance(place, Mapping) else None
        return place

    def effects(self, changes: Mapping[str, object], length: int | None) -> dict[str, str]:
        """Return by stack what a change of keys, by dotted path, does to its reading.

        It is empty where a stack does not read the keys. Stacks that refuse the file both ways are
        left out.
        """
        other = self.changed(changes)
        pairs = {
            stack: (self.read_as(stack, length=length), other.read_as(stack, length=length))
            for stack in MEASURED
        }
        return {
            stack: difference(*pair)
            for stack, pair in pairs.items()
            if not all(isinstance(reading, str) for reading in pair)
        }

    def partings(self, length: int | None) -> dict[str, str]:
        """Return by stack how its reading differs from Transformers'.

        Stacks that refuse the file are left out.
        """
        first = self.read_as(FIRST, length=length)
        if isinstance(first, str):
            return {}
        others = {s: self.read_as(s, length=length) for s in MEASURED if s != FIRST}
        return {
            s: difference(first, reading)
            for s, reading in others.items()
            if isinstance(reading, Model)
        }

    @property
    def refusals(self) -> dict[str, str]:
        """The stacks that refuse the file, and why."""
        return {stack: text for stack, text in self.models.items() if isinstance(text, str)}


def with_changes(raw: Mapping[str, Any], changes: Mapping[str, object]) -> dict[str, Any]:
    """Return the keys of a file with other values."""
    result = dict(raw)
    copied: dict[str, dict[str, Any]] = {}
    for path, value in changes.items():
        *outer, last = path.split(".")
        place, around = result, ""
        for name in outer:
            inner, around = place.get(name), f"{around}.{name}"
            if around not in copied:
                copied[around] = place[name] = dict(inner) if isinstance(inner, dict) else {}
            place = copied[around]
        if value is ...:
            place.pop(last, None)
        else:
            place[last] = value
    return result


def same(a: Model | str, b: Model | str) -> bool:
    """True if two readings rotate alike, or both refuse the file."""
    if isinstance(a, str) or isinstance(b, str):
        return isinstance(a, str) and isinstance(b, str)
    return diff(a, b).same


def difference(a: Model | str, b: Model | str) -> str:
    """Describe what b does differently from a; nothing if they do the same, or both refuse."""
    if isinstance(b, str):
        return "" if isinstance(a, str) else f"the file is refused ({b})"
    if isinstance(a, str):
        return "the file is not refused"
    differences = diff(a, b).layers
    encodings = [
        field for layer in differences for field in layer.fields if field.name == "encoding"
    ]
    if encodings:
        return f"the encoding is {encodings[0].b}"
    said = [
        _describe_angles(differences),
        _describe_factors(differences),
        _describe_layers(a, b, differences),
    ]
    fields = {field.name for layer in differences for field in layer.fields if field.matters}
    if "axis" in fields:
        said.append("pairs belong to other axes")
    if fields & {"layout", "rotary_offset", "direction", "output"}:
        said.append("coordinates rotate in other pairs")
    return ", ".join(filter(None, said))


def _describe_angles(found: Iterable[LayerDifference]) -> str:
    worst = [max(layer.phase, key=lambda phase: phase.position) for layer in found if layer.phase]
    if not worst:
        return ""
    phase = max(worst, key=lambda phase: phase.max_radians)
    if phase.max_radians <= _SAME_ANGLE * max(phase.position, 1):
        return ""
    return f"angles differ by up to {phase.max_radians:.3g} rad at position {phase.position:,}"


def _describe_factors(found: Iterable[LayerDifference]) -> str:
    """Describe the factors on cos and sin, and on the whole score, where they are farthest off."""
    said = []
    for name, what in (("attention_factor", "cos and sin"), ("softmax_factor", "scores")):
        pairs = [(f.a, f.b) for layer in found for f in layer.fields if f.name == name]
        pairs = [pair for pair in pairs if abs(pair[1] / pair[0] - 1) > _SAME_FACTOR]
        if pairs:
            a, b = max(pairs, key=lambda pair: abs(math.log(pair[1] / pair[0])))
            said.append(f"{what} are multiplied by {shown(b)} instead of {shown(a)}")
    return ", ".join(said)


def _describe_layers(a: Model, b: Model, found: Iterable[LayerDifference]) -> str:
    """Describe layers that rotate in one of the two only, or another share of their head."""
    none = {(f.a, f.b) for layer in found for f in layer.fields if f.name == "rope_type"}
    if any("none" in pair for pair in none) or _static(a) != _static(b):
        return "other layers rotate"
    sizes = [f for layer in found for f in layer.fields if f.name == "rotary_dim"]
    return f"{sizes[0].b} coordinates rotate instead of {sizes[0].a}" if sizes else ""


def _static(model: Model) -> set[int]:
    return {
        i for layer in model.layers if layer.rotary is None for i in layer.settings.layers or ()
    }


def name(stack: str) -> str:
    """Return a stack as a sentence names it."""
    return "Transformers" if stack == FIRST else stack


def join_stacks(stacks: Iterable[str]) -> str:
    """Join the names of stacks."""
    return join(map(name, stacks))


def without_it(texts: Mapping[str, str]) -> str:
    """Return a sentence on what the `effects` of a removed key are, and where it has none.

    Nothing where every stack refuses the file both ways.
    """
    unread, read = ignoring(texts), by_stack(texts)
    said = [f"it has no effect in {join_stacks(unread)}"] if unread else []
    said += [f"without it, {read}"] if read else []
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def ignoring(texts: Mapping[str, str]) -> list[str]:
    """Return the stacks without a difference."""
    return [stack for stack, text in texts.items() if not text]


def sentence(when: str, texts: Mapping[str, str]) -> str:
    """Return a sentence, with a blank before it, on what differs when; nothing without any."""
    said = by_stack(texts)
    return f" {when}, {said}." if said else ""


def by_stack(texts: Mapping[str, str]) -> str:
    """Return one clause per difference, with the stacks that have it; nothing without any."""
    stacks: dict[str, list[str]] = {}
    for stack, text in texts.items():
        if text:
            stacks.setdefault(text, []).append(stack)
    return "; ".join(f"in {join_stacks(some)} {text}" for text, some in stacks.items())
