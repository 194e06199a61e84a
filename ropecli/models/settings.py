"""The content of a model's file, before any rotation is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ropecli.models.parts import Part, parts

if TYPE_CHECKING:
    from ropecli.rotary.factors import Temperature

INDEXER = "indexer"  #: Heads next to those of attention, which choose the keys that it sees.


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """One kind of layer as its file describes it."""

    name: str  #: "all", or the kind, such as "full_attention" or "vision".
    rope_type: str | None  #: As the file names it; None on layers without position.
    geometry: Mapping[str, Any] = field(default_factory=dict)  #: Place in a head, as `rope` has it.
    scaling: Mapping[str, Any] = field(default_factory=dict)  #: rope_theta, factor, ... as given.
    context_length: int | None = None  #: Positions that the model is meant for.
    original_context_length: int | None = None  #: Positions before its frequencies were scaled.
    window: int | None = None  #: Positions that a sliding layer sees, where the file says.
    nested: bool = False  #: True where the file has the scaling keys under a layer type.
    softmax: str | None = None  #: "mscale_all_dim" where the score carries DeepSeek's factor.
    temperature: Temperature | None = None  #: A factor on queries that grows with position.
    layers: tuple[int, ...] | None = None  #: Indices of the layers, where the file says.
    encoding: str | None = None  #: Another encoding in place of a rotation, with its values.
    assumed: tuple[str, ...] = ()  #: A sentence for each value that no key gives.
    notes: tuple[tuple[str, str], ...] = ()  #: What the rotation does not show: label, sentence.
    part: str = ""  #: Of the file; "" for text, else "vision", "audio", ...
    facts: Mapping[str, Any] = field(default_factory=dict)  #: Of the architecture, as in its table.
    unread: frozenset[str] = frozenset()  #: Keys that the architecture's code does not read.
    refused: str | None = None  #: Why Transformers refuses the file; None where it does not.
    fails: str | None = None  #: Why its model fails, where it reads the file; None where not.

    @property
    def rotates(self) -> bool:
        """True of layers with a rotation."""
        return self.rope_type is not None

    @property
    def undecided(self) -> frozenset[str]:
        """Properties of the encoding that an unknown architecture decides, and no key."""
        starts = {sentence.partition(" ")[0] for sentence in self.assumed}
        if not starts & {"layout", "an"}:
            return frozenset()
        shares = {"rotary_dim", "partial_rotary_factor"} & self.geometry.keys()
        return frozenset({*(starts & {"layout", "base"}), *([] if shares else ["rotary_dim"])})

    @cached_property
    def kind(self) -> str:
        """Its name within its part."""
        return self.name.removeprefix(self.part).removeprefix(".")

    @property
    def is_indexer(self) -> bool:
        """True of the heads that choose the keys which attention sees."""
        return self.kind == INDEXER


@dataclass(frozen=True, kw_only=True, eq=False)
class Description:
    """A file: its keys, and the settings of each kind of layer, which are read when asked for."""

    source: str  #: The file, or "-".
    format: str  #: "config.json", "gguf" or "diffusers".
    model_type: str | None  #: Or the architecture that a GGUF names.
    raw: Mapping[str, Any]  #: The keys of the file.
    read: Callable[[Description], tuple[Settings, ...]]  #: Reads the settings below.

    @cached_property
    def settings(self) -> tuple[Settings, ...]:
        """The settings of each kind of layer, as the stack reads them that the file is made for."""
        return self.read(self)

    @cached_property
    def readings(self) -> dict[str, tuple[Settings, ...]]:
        """The settings as each stack reads them, kept by `read_settings`."""
        return {}

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of a config.json that have a rotary embedding, text first."""
        return parts(self.raw) if self.format == "config.json" else []
