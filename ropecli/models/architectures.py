"""Facts about architectures that no key of a config.json gives, from architectures.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from ropecli.models.tables import read_table

table = partial(read_table, __file__)  #: As it is written.

_NO_KEYS: Mapping[str, Any] = MappingProxyType({})
_TABLES = ("other", "parts", "released", "shapes")  #: Tables that are not entries.
BASES = ("rope_theta", "rope_scaling", "rope_parameters")  #: Keys that may hold a base.


@dataclass(frozen=True, kw_only=True, eq=False)
class Architecture:
    """One model_type of config.json."""

    model_type: str | None  #: As the file has it.
    known: bool  #: True where the table has it.
    facts: Mapping[str, Any]  #: layout, offset, ... as in the table.
    defaults: Mapping[str, Any]  #: Values of keys that a file may leave out.

    @property
    def fixes_base(self) -> bool:
        """True where its code has a base that no key changes."""
        return set(BASES) <= set(self.facts.get("ignores", ()))

    @property
    def in_transformers(self) -> bool:
        """True where Transformers has its code, which no file replaces."""
        return self.known and not self.facts.get("outside")

    @property
    def scaling(self) -> Mapping[str, Any]:
        """The scaling keys of a file that leaves them out, or their objects by layer type."""
        keys: Mapping[str, Any] = self.defaults.get("rope_parameters", _NO_KEYS)
        return keys

    @property
    def scaling_is_nested(self) -> bool:
        """True where these are objects by layer type."""
        return any(isinstance(value, dict) for value in self.scaling.values())

    @property
    def has_entry_by_layer_type(self) -> bool:
        """True where its code takes an object of scaling keys for each layer type."""
        return self.scaling_is_nested or bool(self.facts.get("by_layer_type"))

    def unread(self, of_some: frozenset[str]) -> frozenset[str]:
        """Return the keys that its code does not read."""
        ignored = frozenset(self.facts.get("ignores", ()))
        if not self.in_transformers:
            return ignored
        read = {*self.defaults, *self.facts.get("reads", ()), *self.facts.get("bases", {}).values()}
        return ignored | (of_some - read)


def architecture(model_type: object, config: Mapping[str, Any] = _NO_KEYS) -> Architecture:
    """Return the facts of a model_type; none where the table does not have it."""
    name = model_type if isinstance(model_type, str) else None
    known = name is not None and name not in _TABLES and isinstance(table().get(name), dict)
    facts = _entry(name) if known and name is not None else {}
    for key, variant in facts.pop("variants", {}).items():
        facts = _entry(variant) if config.get(key) is True else facts
    defaults = facts.pop("defaults", {})
    return Architecture(
        model_type=name,
        known=known,
        facts=MappingProxyType(facts),
        defaults=MappingProxyType(defaults),
    )


def released_values(model_type: str | None) -> tuple[Mapping[str, Any], ...]:
    """Return what every released file of a model_type has: `has`, and where, `when` and `layer`."""
    return tuple(table()["released"].get(model_type, ()))


def _entry(name: str) -> dict[str, Any]:
    """Return an entry with the facts of the one that it is `like`."""
    own = dict(table().get(name, {}))
    parent = own.pop("like", None)
    if parent is None:
        return own
    facts = _entry(parent)
    defaults = facts.get("defaults", {}) | own.get("defaults", {})
    return facts | own | ({"defaults": defaults} if defaults else {})
