"""The subjects of rules: a file, its parts, their scaling keys, and the header of a GGUF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from ropecli.errors import RopecliError
from ropecli.models.architectures import Architecture, architecture
from ropecli.models.gguf import GgufFile, TensorInfo
from ropecli.models.keys import (
    CONTEXT,
    FULL,
    HOLDERS,
    LARGEST_HEAD,
    ORIGINAL,
    ROTARY_KEYS,
    SHARE,
    Keys,
    names_of,
)
from ropecli.models.lint.readings import FileReadings
from ropecli.models.lint.values import number, positive, value_or_none, whole
from ropecli.models.parts import Part
from ropecli.models.settings import Description, Settings
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types import canonical, formula, own_parameters

#: Real files have up to five parts and three layer types; more would only take time.
MOST_PARTS = 32
MOST_LAYER_TYPES = 32
_NO_KEYS = Keys({}, architecture(None))


@dataclass(frozen=True, kw_only=True, eq=False)
class Subject:
    """A file, one of its parts, the scaling keys of a kind of layer, or a GGUF, under a rule."""

    of: str  #: "file", "part", "scaling" or "gguf".
    readings: FileReadings  #: Of the whole file.
    values: Mapping[str, Any]  #: Its keys; of a GGUF those of the architecture, without its name.
    path: str = ""  #: Dotted path of its keys in the file; of a GGUF the architecture.
    rotates: bool = True  #: True if the file is about a rotary embedding at all.
    text: bool = False  #: True of the text model.
    keys: Keys = _NO_KEYS  #: Of its part.
    outer: str = ""  #: Dotted path of its part.
    layers: tuple[Settings, ...] = ()  #: Each kind of layer of its part; none if refused.
    settings: Settings | None = None  #: Its kind of layer as the reader understood it.
    layer: str = "all"  #: The layer type that its scaling keys are for.
    nested: bool = False  #: True where the scaling keys are objects by layer type.
    gguf: GgufFile | None = None
    rope_type: str | None = None  #: As the stack reads it that the file is made for.
    factor: float | None = None
    base: float | None = None  #: Before scaling.
    context: int | None = None  #: Positions that the model is meant for.
    original: int | None = None  #: The original length in use, where the file gives one.
    head_dim: int | None = None  #: Coordinates of a head.
    dim: int | None = None  #: The denominator of the exponents.

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """Its keys that are finite numbers."""
        return {k: n for k, value in self.values.items() if (n := number(value)) is not None}

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Facts that a rule may require, by name: fields, and keys that are finite numbers.

        Fields that are None or False are missing.
        """
        types = self.config.get("layer_types")
        facts = {
            **self.numbers,
            **{field.name: getattr(self, field.name) for field in fields(self)},
            "known": self.architecture.known,
            "flat": not self.nested,
            "held": self.held or None,
            "holder": self.holder,
            "layer_types": types if isinstance(types, list) else None,
            "no_rope_layers": _flags(self.config.get("no_rope_layers")),
            "config_json": self.gguf is None,
            "problem": self.readings.problem,
            "share": self.share,
        }
        return {k: value for k, value in facts.items() if value is not None and value is not False}

    def key(self, name: str) -> str:
        """Return the dotted path of one of its keys."""
        return f"{self.path}.{name}".lstrip(".")

    def outer_key(self, name: str) -> str:
        """Return the dotted path of a key of its part."""
        return f"{self.outer}.{name}".lstrip(".")

    def has(self, name: str) -> bool:
        """True if it has a key whose value is not null."""
        return self.values.get(name) is not None

    def key_in_use(self, name: str) -> str:
        """Return the dotted path of a key: among its own where it has it, or else its part's."""
        return self.key(name) if self.has(name) else self.outer_key(name)

    # What stacks do.

    def partings(self, length: int | None) -> dict[str, str]:
        """Return by stack how its reading of the text model differs from Transformers'."""
        return self.readings.partings(length) if self.text else {}

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why stacks refuse the text model."""
        return self.readings.refusals if self.text else {}

    def effects_at(
        self, changes: Mapping[str, object], *, length: int | None = None
    ) -> dict[str, str]:
        """Return by stack what a change of the text model's keys, by dotted path, does to it."""
        return self.readings.effects(changes, length) if self.text else {}

    def effects(self, /, **changes: object) -> dict[str, str]:
        """Return by stack what other values of its own keys do to it; `...` removes a key."""
        return self.effects_at({self.key(name): value for name, value in changes.items()})

    # The part of a config.json.

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The keys of its part as the file has them."""
        return self.keys.config

    @cached_property
    def architecture(self) -> Architecture:
        """The facts of its part's model_type."""
        return self.keys.architecture

    @property
    def rotating(self) -> list[Settings]:
        """The kinds of layers with a rotation."""
        return [layer for layer in self.layers if layer.rotates]

    def get_all(self, name: str) -> dict[str, Any]:
        """Return the values of its part under all of a key's names, without null."""
        return {k: self.config[k] for k in names_of(name) if self.config.get(k) is not None}

    def integer(self, name: str) -> int | None:
        """Return an integer under any of a key's names, from the part or its architecture."""
        return value_or_none(lambda: self.keys.integer(name))

    @cached_property
    def holder(self) -> str | None:
        """The key that holds the scaling keys of its part."""
        return next((name for name in HOLDERS if self.config.get(name)), None)

    @cached_property
    def held(self) -> dict[str, Any]:
        """The scaling keys of its part, or their objects by layer type."""
        given = self.config.get(self.holder or "")
        return given if isinstance(given, dict) else {}

    # Scaling keys.

    @property
    def written_type(self) -> object:
        """rope_type as the file has it, or else `type`."""
        return self.values.get("rope_type", self.values.get("type"))

    @property
    def type_key(self) -> str:
        """The dotted path of its rope type."""
        return self.key("rope_type" if "rope_type" in self.values else "type")

    @property
    def written_original(self) -> int | None:
        """The original length as the file has it."""
        return whole(self.values.get(ORIGINAL)) or whole(self.config.get(ORIGINAL))

    @cached_property
    def share(self) -> tuple[str, Any] | None:
        """The key of the share of the head, and its value, if the file has one."""
        if self.has(SHARE):
            return self.key(SHARE), self.values[SHARE]
        given = self.get_all(SHARE).items()
        return next(((self.outer_key(name), value) for name, value in given), None)

    # A GGUF.

    @property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """The tensors of a GGUF."""
        return {} if self.gguf is None else self.gguf.tensors

    def tensor(self, name: str) -> list[float]:
        """Return the elements of a tensor; none where there are none, or they can't be read."""
        gguf = self.gguf
        if gguf is None or name not in gguf.tensors:
            return []
        return value_or_none(lambda: gguf.tensor(name).ravel().tolist()) or []

    # The formula.

    def table(self, **changes: Any) -> Table | None:
        """Compute the frequencies, with changed values if given; None if that is impossible."""
        if self.rope_type is None or self.dim is None or not 2 <= self.dim <= LARGEST_HEAD:
            return None
        parameters = own_parameters(self.rope_type)
        given = {k: self.values[k] for k in parameters if self.has(k)}
        given |= {CONTEXT: self.context, ORIGINAL: self.original} | changes
        given = {k: v for k, v in given.items() if k in parameters and v is not None}
        try:
            with np.errstate(all="ignore"):
                return formula(self.rope_type)(dim=self.dim, base=self.base or 10_000.0, **given)
        except (RopecliError, ArithmeticError, TypeError, ValueError):
            return None


def subjects(described: Description, gguf: GgufFile | None = None) -> list[Subject]:
    """Return everything in a file that rules judge: itself first, then its parts.

    Args:
        described: The file.
        gguf: Its header, if it is a GGUF.
    """
    readings = FileReadings(described)
    file = Subject(
        of="file", readings=readings, values=described.raw, layers=readings.layers, gguf=gguf
    )
    if described.format != "config.json":
        rotates = any(layer.rotates for layer in readings.layers) or readings.problem is not None
        rotates = rotates and not readings.has_none
        below = [] if gguf is None else _gguf_subjects(file)
    else:
        parts = [_part_subject(file, part) for part in value_or_none(lambda: described.parts) or ()]
        # Sizes alone may be of any kind of network.
        parts = [part for part in parts if _is_rotary(part) or part.get_all(CONTEXT)][:MOST_PARTS]
        rotates = any(map(_is_rotary, parts)) or (bool(parts) and readings.problem is None)
        below = [*parts, *(entry for part in parts for entry in _scaling_subjects(part))]
    return [replace(file, rotates=rotates), *(below if rotates else ())]


def _flags(given: object) -> list[bool] | None:
    """Return no_rope_layers where every entry is 0 or 1."""
    if not isinstance(given, list) or not given:
        return None
    return [bool(flag) for flag in given] if {*map(whole, given)} <= {0, 1} else None


def _is_rotary(part: Subject) -> bool:
    """True if its model_type or one of its keys is one of rotary embeddings."""
    given = (part.config.get(key) for key in ROTARY_KEYS)
    return part.architecture.known or any(value is not None for value in given)


def _part_subject(file: Subject, part: Part) -> Subject:
    subject = replace(
        file,
        of="part",
        path=part.path,
        outer=part.path,
        text=part.name == "",
        keys=part.keys,
        values=part.keys.config,
        layers=tuple(layer for layer in file.layers if layer.part == part.name),
        context=value_or_none(lambda: part.keys.integer(CONTEXT)),
    )
    return replace(subject, nested=any(isinstance(v, dict) for v in subject.held.values()))


def _scaling_subjects(part: Subject) -> list[Subject]:
    """Return the scaling keys of each kind of layer of a part; empty ones if it has none."""
    given: Any = {} if part.holder is None else part.config[part.holder]
    if not isinstance(given, dict):
        return []
    path = part.path if part.holder is None else part.key(part.holder)
    if not part.nested:
        full = [settings for settings in part.rotating if settings.name.endswith(FULL)]
        # DeepSeek-V4 scales other layers than the first.
        scaled = [settings for settings in part.rotating if settings.rope_type != "default"]
        usual = next(iter((*full, *scaled, *part.rotating)), None)
        return [_scaling_subject(part, path, given, usual)]
    by_layer = {settings.kind: settings for settings in part.rotating}
    nested = {layer: value for layer, value in given.items() if isinstance(value, dict)}
    return [
        replace(_scaling_subject(part, f"{path}.{layer}", entry, by_layer.get(layer)), layer=layer)
        for layer, entry in islice(nested.items(), MOST_LAYER_TYPES)
    ]


def _scaling_subject(
    part: Subject, path: str, values: Mapping[str, Any], settings: Settings | None
) -> Subject:
    subject = replace(part, of="scaling", path=path, values=values, settings=settings)
    original = subject.written_original
    if settings is None:
        rope_type, base, head_dim = subject.written_type, values.get("rope_theta"), None
    else:
        rope_type, base = settings.rope_type, settings.scaling.get("rope_theta")
        original = original and settings.original_context_length
        head_dim = whole(settings.geometry.get("head_dim"))
    name = value_or_none(lambda: canonical(rope_type)) if isinstance(rope_type, str) else None
    return replace(
        subject,
        rope_type=name,
        factor=number(values.get("factor")),
        base=positive(base),
        original=original,
        head_dim=head_dim,
        dim=_dim(settings, head_dim, name),
    )


def _dim(settings: Settings | None, head_dim: int | None, rope_type: str | None) -> int | None:
    """Return the denominator of the exponents."""
    placed = {} if settings is None else settings.geometry
    rotary_dim, share = whole(placed.get("rotary_dim")), placed.get(SHARE)
    if rotary_dim is not None or head_dim is None or rope_type == "proportional":
        return rotary_dim or head_dim
    if share is None:
        return head_dim
    coordinates = head_dim * (number(share) or 0)
    return int(coordinates) if 0 <= coordinates <= head_dim else None


def _gguf_subjects(file: Subject) -> list[Subject]:
    """Return the header of a GGUF, with its keys as llama.cpp reads them."""
    name = file.readings.described.model_type
    if name is None:
        return []
    prefix, layers = f"{name}.", file.layers
    values = {k.removeprefix(prefix): v for k, v in file.values.items() if k.startswith(prefix)}
    rope_type, factor = values.get("rope.scaling.type"), number(values.get("rope.scaling.factor"))
    rotating = next((layer for layer in layers if layer.rotates), None)
    header = replace(
        file,
        of="gguf",
        path=name,
        values=values,
        settings=rotating,
        rope_type=rope_type if isinstance(rope_type, str) else None,
        factor=number(values.get("rope.scale_linear")) if factor is None else factor,
        context=whole(values.get("context_length")),
        original=whole(values.get("rope.scaling.original_context_length")) or None,
        base=None if rotating is None else positive(rotating.scaling.get("rope_theta")),
        dim=None if rotating is None else whole(rotating.geometry.get("rotary_dim")),
    )
    return [header]
