"""The facts about architectures that no key of a file says, from architectures.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ropecli.models.keys import ALIASES

if TYPE_CHECKING:
    from collections.abc import Mapping

BASES = ("rope_theta", "rope_scaling", "rope_parameters")  #: Where a file may have its base.


@dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """One model_type of config.json."""

    model_type: str | None  #: As the file has it.
    known: bool  #: Whether the table has it.
    facts: Mapping[str, Any]  #: layout, offset, ... as in the table.
    defaults: Mapping[str, Any]  #: Values of keys that a file may leave out.

    @property
    def ignored(self) -> tuple[str, ...]:
        """Keys that its code does not read."""
        ignored = tuple(self.facts.get("ignores", ()))
        return (*ignored, *ALIASES["rope_theta"]) if self.fixes_base else ignored

    @property
    def fixes_base(self) -> bool:
        """Whether its code has a base that no key changes."""
        return set(BASES) <= set(self.facts.get("ignores", ()))


@cache
def table() -> Mapping[str, Any]:
    """The table as it is written."""
    text = resources.files("ropecli.models").joinpath("architectures.toml").read_text("utf-8")
    return MappingProxyType(tomllib.loads(text))


def architecture(model_type: object) -> Architecture:
    """The facts of a model_type; none where the table does not have it."""
    name = model_type if isinstance(model_type, str) else None
    known = name is not None and (name in table()["plain"] or isinstance(table().get(name), dict))
    facts = _inherited(name) if known and name is not None else {}
    defaults = facts.pop("defaults", {})
    return Architecture(
        model_type=name,
        known=known,
        facts=MappingProxyType(facts),
        defaults=MappingProxyType(defaults),
    )


def _inherited(name: str) -> dict[str, Any]:
    """An entry with what it takes over from the one it is `like`."""
    own = dict(table().get(name, {}))
    parent = own.pop("like", None)
    if parent is None:
        return own
    facts = _inherited(parent)
    defaults = facts.get("defaults", {}) | own.get("defaults", {})
    return facts | own | ({"defaults": defaults} if defaults else {})
