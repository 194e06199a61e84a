"""The subjects of rules: a file, its parts, their scaling keys, and the header of a GGUF."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from ropecli.errors import RopecliError
from ropecli.models.architectures import Architecture
from ropecli.models.gguf import GgufFile, Value
from ropecli.models.keys import FULL, LARGEST_HEAD, ORIGINAL, ROTARY_KEYS, names_of
from ropecli.models.lint.readings import effects, partings, refusals
from ropecli.models.lint.values import number, positive, value_or_none, whole
from ropecli.models.parts import Part
from ropecli.models.settings import Settings
from ropecli.rotary.frequencies import Table
from ropecli.rotary.types import canonical, formula, own_parameters

#: Keys that hold the scaling keys of a config.json, in the order in which Transformers looks.
HOLDERS = ("rope_scaling", "rope_parameters")
MOST_LAYER_TYPES = 32


@dataclass(frozen=True, kw_only=True, eq=False)
class File:
    """A file as a whole."""

    format: str  #: "config.json" or "gguf".
    raw: Mapping[str, Any]  #: Its keys.
    settings: tuple[Settings, ...]  #: Of each kind of layer; nothing if there is a problem.
    problem: str | None  #: Why no rotation can be computed.
    rotates: bool  #: True if it is about a rotary embedding at all.


@dataclass(frozen=True, kw_only=True, eq=False)
class ConfigPart(Part):
    """One transformer that a config.json describes, with its settings."""

    raw: Mapping[str, Any]  #: The keys of the whole file.
    settings: tuple[Settings, ...]  #: Of each kind of layer; nothing if there is a problem.

    def partings(self, length: int | None) -> dict[str, str]:
        """Return by stack how its reading of the text model differs from Transformers'."""
        return {} if self.name else partings(self.raw, length=length)

    @cached_property
    def refusals(self) -> Mapping[str, str]:
        """Why stacks refuse the text model."""
        return {} if self.name else refusals(self.raw)

    def effects(
        self, changes: Mapping[str, object], *, length: int | None = None
    ) -> dict[str, str]:
        """Return by stack what a change of the text model's keys, by dotted path, does to it."""
        return {} if self.name else effects(self.raw, changes, length=length)

    @property
    def config(self) -> Mapping[str, Any]:
        """Its keys as the file has them."""
        return self.keys.config

    @property
    def architecture(self) -> Architecture:
        """The facts of its model_type."""
        return self.keys.architecture

    @property
    def rotating_layers(self) -> list[Settings]:
        """The kinds of layers with a rotation."""
        return [each for each in self.settings if each.rotates]

    @property
    def is_rotary(self) -> bool:
        """True if its model_type or one of its keys is one of rotary embeddings."""
        return self.architecture.known or any(
            self.config.get(key) is not None for key in ROTARY_KEYS
        )

    def key(self, name: str) -> str:
        """Return the dotted path of one of its keys."""
        return f"{self.path}.{name}".lstrip(".")

    def get_all(self, name: str) -> dict[str, Any]:
        """Return the values of the file under all of a key's names, without null."""
        return {k: self.config[k] for k in names_of(name) if self.config.get(k) is not None}

    def integer(self, name: str) -> int | None:
        """Return an integer under any of a key's names, from the file or the architecture."""
        return value_or_none(lambda: self.keys.integer(name))

    @property
    def context(self) -> int | None:
        """Positions that the model is meant for."""
        return self.integer("max_position_embeddings")

    @property
    def holder(self) -> str | None:
        """The key that holds its scaling keys."""
        return next((name for name in HOLDERS if self.config.get(name)), None)

    @property
    def held(self) -> dict[str, Any]:
        """Its scaling keys, or their objects by layer type."""
        given = self.config.get(self.holder or "")
        return given if isinstance(given, dict) else {}

    @property
    def is_nested(self) -> bool:
        """True if its scaling keys are objects by layer type."""
        return any(isinstance(value, dict) for value in self.held.values())


@dataclass(frozen=True, eq=False)
class ScalingKeys:
    """rope_scaling or rope_parameters, or its object for one layer type."""

    part: ConfigPart
    path: str  #: Dotted path in the file.
    layer: str  #: "all", or the layer type.
    values: Mapping[str, Any]
    nested: bool
    settings: Settings | None  #: As the reader understood it; None where it could not.

    def key(self, name: str) -> str:
        """Return the dotted path of one of its keys."""
        return f"{self.path}.{name}".lstrip(".")

    def key_in_use(self, name: str) -> str:
        """Return the dotted path of a key: among its own where it has it, or else its part's."""
        return (self if self.has(name) else self.part).key(name)

    def effects(self, **changes: object) -> dict[str, str]:
        """Return by stack what other values of its own keys do to it; `...` removes a key."""
        return self.part.effects({self.key(name): value for name, value in changes.items()})

    def number(self, name: str) -> float | None:
        """Return a finite number among its own keys."""
        return number(self.values.get(name))

    def has(self, name: str) -> bool:
        """True if it has a key whose value is not null."""
        return self.values.get(name) is not None

    @property
    def written_type(self) -> object:
        """rope_type as the file has it, or else `type`."""
        return self.values.get("rope_type", self.values.get("type"))

    @property
    def type_key(self) -> str:
        """The dotted path of its rope type."""
        return self.key("rope_type" if "rope_type" in self.values else "type")

    @property
    def rope_type(self) -> str | None:
        """The rope type as Transformers reads it; None if unknown."""
        name = self.written_type if self.settings is None else self.settings.rope_type
        return value_or_none(lambda: canonical(name)) if isinstance(name, str) else None

    @property
    def base(self) -> float | None:
        """The base before scaling."""
        given = self.values if self.settings is None else self.settings.scaling
        return positive(given.get("rope_theta"))

    @property
    def written_original(self) -> int | None:
        """The original length as the file has it."""
        return whole(self.values.get(ORIGINAL)) or whole(self.part.config.get(ORIGINAL))

    @property
    def original(self) -> int | None:
        """The original length in use, where the file gives one."""
        own = self.written_original
        return own if self.settings is None else own and self.settings.original_context_length

    @property
    def head_dim(self) -> int | None:
        """Coordinates of a head."""
        return None if self.settings is None else whole(self.settings.geometry.get("head_dim"))

    @property
    def dim(self) -> int | None:
        """The denominator of the exponents."""
        placed = {} if self.settings is None else self.settings.geometry
        rotary_dim, share = whole(placed.get("rotary_dim")), placed.get("partial_rotary_factor")
        if rotary_dim is not None or self.head_dim is None or self.rope_type == "proportional":
            return rotary_dim or self.head_dim
        if share is None:
            return self.head_dim
        coordinates = self.head_dim * (number(share) or 0)
        return int(coordinates) if 0 <= coordinates <= self.head_dim else None

    def table(self, **changes: Any) -> Table | None:
        """Compute the frequencies, with changed values if given; None if that is impossible."""
        name, dim, base = self.rope_type, self.dim, self.base
        if name is None or dim is None or not 2 <= dim <= LARGEST_HEAD:
            return None
        own = own_parameters(name)
        given = {k: self.values[k] for k in own if self.has(k)}
        given |= {"max_position_embeddings": self.part.context, ORIGINAL: self.original} | changes
        given = {k: v for k, v in given.items() if k in own and v is not None}
        try:
            with np.errstate(all="ignore"):
                return formula(name)(dim=dim, base=base or 10_000.0, **given)
        except (RopecliError, ArithmeticError, TypeError, ValueError):
            return None


def scaling_keys(part: ConfigPart) -> list[ScalingKeys]:
    """Return the scaling keys of each kind of layer of a part; empty ones if it has none."""
    holder = part.holder
    given = {} if holder is None else part.config.get(holder)
    if not isinstance(given, dict):
        return []
    path = part.path if holder is None else part.key(holder)
    nested = {layer: value for layer, value in given.items() if isinstance(value, dict)}
    if not nested:
        full = [each for each in part.rotating_layers if each.name.endswith(FULL)]
        usual = next(iter((*full, *part.rotating_layers)), None)
        return [ScalingKeys(part, path, "all", given, nested=False, settings=usual)]
    by_layer = {each.kind: each for each in part.rotating_layers}
    return [
        ScalingKeys(
            part, f"{path}.{layer}", layer, value, nested=True, settings=by_layer.get(layer)
        )
        for layer, value in islice(nested.items(), MOST_LAYER_TYPES)
    ]


@dataclass(frozen=True, kw_only=True, eq=False)
class GgufHeader:
    """The metadata of one file, keys without the architecture's name."""

    file: GgufFile
    architecture: str
    settings: tuple[Settings, ...]  #: Of each kind of block; nothing if there is a problem.

    def key(self, name: str) -> str:
        """Return a key with the architecture's name."""
        return f"{self.architecture}.{name}"

    def get(self, name: str) -> Value | None:
        """Return a value; None without such a key."""
        return self.file.metadata.get(self.key(name))

    def number(self, name: str) -> float | None:
        """Return a finite number, or None."""
        return number(self.get(name))

    def integer(self, name: str) -> int | None:
        """Return an integer, or None."""
        return whole(self.get(name))

    @property
    def rope_type(self) -> str | None:
        """rope.scaling.type."""
        value = self.get("rope.scaling.type")
        return value if isinstance(value, str) else None

    @property
    def factor(self) -> float | None:
        """The factor, under its name or its old one."""
        own = self.number("rope.scaling.factor")
        return self.number("rope.scale_linear") if own is None else own

    @property
    def context(self) -> int | None:
        """Positions that the model is meant for."""
        return self.integer("context_length")

    @property
    def original(self) -> int | None:
        """Positions before the frequencies were scaled, where the file gives them."""
        return self.integer("rope.scaling.original_context_length") or None

    @property
    def dim(self) -> int | None:
        """Coordinates that are rotated."""
        for settings in self.settings:
            if settings.rotates:
                return whole(settings.geometry.get("rotary_dim"))
        return None
