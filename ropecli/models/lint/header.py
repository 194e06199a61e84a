"""The header of a GGUF file, as rules look at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropecli.models.lint.numbers import number, whole

if TYPE_CHECKING:
    from ropecli.models.gguf import GgufFile, Value
    from ropecli.models.settings import Settings


@dataclass(frozen=True, kw_only=True, eq=False)
class Header:
    """The metadata of one file, keys without the architecture's name."""

    file: GgufFile
    architecture: str
    settings: tuple[Settings, ...]  #: Of each kind of block; nothing if there is a problem.

    def key(self, name: str) -> str:
        """A key in full."""
        return f"{self.architecture}.{name}"

    def get(self, name: str) -> Value | None:
        """A value, or None where there is no such key."""
        return self.file.metadata.get(self.key(name))

    def number(self, name: str) -> float | None:
        """A finite number."""
        return number(self.get(name))

    def integer(self, name: str) -> int | None:
        """A whole number."""
        return whole(self.get(name))

    @property
    def scaling(self) -> str | None:
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
        """Positions before the frequencies were scaled, where the file says."""
        return self.integer("rope.scaling.original_context_length") or None

    @property
    def dim(self) -> int | None:
        """Coordinates that are rotated."""
        for settings in self.settings:
            if settings.rope_type is not None:
                return whole(settings.geometry.get("rotary_dim"))
        return None
