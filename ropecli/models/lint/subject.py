"""What rules look at: a file, and the parts of a config.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ropecli.models.keys import ALIASES, ROTARY_KEYS, Keys
from ropecli.models.lint.numbers import attempt, number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ropecli.models.parts import Part as Described
    from ropecli.models.settings import Settings

#: Where a config.json keeps its scaling keys, in the order in which Transformers looks.
HOLDERS = ("rope_scaling", "rope_parameters")


@dataclass(frozen=True, kw_only=True, eq=False)
class File:
    """A file as a whole."""

    format: str  #: "config.json" or "gguf".
    raw: Mapping[str, Any]  #: Its keys.
    settings: tuple[Settings, ...]  #: What was understood; nothing if there is a problem.
    problem: str | None  #: Why no rotation can be computed.
    rotates: bool  #: Whether it speaks of a rotary embedding at all.


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """One transformer that a config.json describes."""

    path: str  #: Where it stands in the file, "" for the top.
    name: str  #: "" for text, else "vision", "audio", ...
    keys: Keys

    @classmethod
    def of(cls, described: Described) -> Part:
        """The part as the reader of configurations found it."""
        return cls(path=described.path, name=described.name, keys=described.keys)

    @property
    def config(self) -> Mapping[str, Any]:
        """Its keys as they stand in the file."""
        return self.keys.config

    @property
    def known(self) -> bool:
        """Whether its model_type is in the table of architectures."""
        return self.keys.architecture.known

    @property
    def speaks(self) -> bool:
        """Whether its model_type or one of its keys says that it has a rotary embedding."""
        return self.known or any(self.config.get(key) is not None for key in ROTARY_KEYS)

    @property
    def counts_positions(self) -> bool:
        """Whether it may have one: a file with sizes alone is of any kind of network."""
        return self.speaks or bool(self.given("max_position_embeddings"))

    def key(self, name: str) -> str:
        """The dotted path of one of its keys."""
        return f"{self.path}.{name}".lstrip(".")

    def given(self, name: str) -> dict[str, Any]:
        """The values of the file under any of a key's names, null left out."""
        names = (name, *ALIASES.get(name, ()))
        return {key: self.config[key] for key in names if self.config.get(key) is not None}

    def integer(self, name: str) -> int | None:
        """A whole number under any of a key's names, from the file or the architecture."""
        return attempt(lambda: self.keys.integer(name))

    def real(self, name: str) -> float | None:
        """A finite number under any of a key's names, from the file or the architecture."""
        return number(attempt(lambda: self.keys.real(name)))

    @property
    def context(self) -> int | None:
        """Positions that the model is meant for."""
        return self.integer("max_position_embeddings")

    @property
    def holder(self) -> str | None:
        """The key that holds its scaling keys."""
        return next((name for name in HOLDERS if self.config.get(name)), None)
