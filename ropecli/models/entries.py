"""rope_theta and the scaling keys of each kind of layer in a config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import FULL, SHARE, SLIDING, Keys, check_kind_count
from ropecli.names import quote
from ropecli.numbers import number

BASE = 10_000.0  #: Transformers' default.
#: rope_theta and the scaling keys of one kind of layer; None for layers without a rotation.
Entry = dict[str, Any] | None


def entries(keys: Keys) -> dict[str, Entry]:
    """Return the scaling keys of each kind of layer; a single kind is "all"."""
    given = keys.scaling or {}
    usual = keys.architecture.scaling
    if not isinstance(given, dict):
        raise ArgumentError(
            f"rope_parameters (or rope_scaling) must be an object, got {quote(given)}"
        )
    nested = nested_entries(given, keys)
    if nested:
        return {
            name: None if entry is None else _complete(entry, keys)
            for name, entry in _fill_in(nested, usual, keys).items()
        }
    if isinstance(keys.own("rope_theta"), list):
        return _entries_of_listed_bases(given, keys)
    if nested_entries(usual, keys):
        if keys.facts.get("flat") and (given or keys.own("rope_parameters") == {}):
            return {name: _complete(given, keys) for name in usual}
        return {name: _legacy_entry(name, entry, given, keys) for name, entry in usual.items()}
    local = _local_base(keys)
    if local is None:
        empty = keys.own("rope_parameters") == {}  # a value, unlike null and absence
        return {"all": _complete(given if given or empty else usual, keys)}
    full = _complete(given, keys, base_key="global_rope_theta")
    return {FULL: full, SLIDING: _complete({"rope_theta": local}, keys)}


def class_entries(keys: Keys) -> dict[str, Entry]:
    """Return the entries as the class in Transformers reads them.

    One with a single table for all layers reads what is next to the objects of layer types.
    """
    objects = unread_objects(keys)
    if not objects:
        return entries(keys)
    given = keys.scaling
    flat = {key: value for key, value in given.items() if key not in objects}
    if any(name in class_layer_types(keys) for name in objects):  # where the base is put
        flat = {"rope_theta": BASE, **flat}
    return {"all": _complete(flat, keys)}


def unread_objects(keys: Keys) -> dict[str, Entry]:
    """Return the objects of layer types that the class in Transformers does not read."""
    given = keys.scaling
    if not keys.architecture.in_transformers or keys.architecture.has_entry_by_layer_type:
        return {}
    return nested_entries(given, keys) if isinstance(given, dict) else {}


def class_layer_types(keys: Keys) -> list[str]:
    """Return the layer types of a class that has such a key: the file's, or else its own."""
    usual = keys.facts.get("layer_types")
    return [] if usual is None else list(map(str, keys.per_layer("layer_types") or usual))


def nested_entries(given: Mapping[str, Any], keys: Keys) -> dict[str, Entry]:
    """Return the entries of a dictionary that is nested by layer type; none if it is flat."""
    if not any(isinstance(value, dict) for value in given.values()):
        types = keys.config.get("layer_types")
        named = set(map(str, types)) if isinstance(types, list) else set()
        if not given or not all(v is None and k in named for k, v in given.items()):
            return {}
    return {k: v for k, v in given.items() if isinstance(v, dict) or v is None}


def _entries_of_listed_bases(given: Mapping[str, Any], keys: Keys) -> dict[str, Entry]:
    """Return the entries of a file whose rope_theta lists one base for each layer (Step-3.5)."""
    bases, types = keys.own("rope_theta"), keys.own("layer_types")
    shares = keys.own("partial_rotary_factors")
    if not isinstance(types, list) or not 0 < len(types) <= len(bases):
        raise ArgumentError(
            "a list as rope_theta needs layer_types, a list with as many layers or fewer"
        )
    scaled = keys.facts.get("scaled")
    by_name: dict[str, Entry] = {}
    names = list(map(str, types))
    check_kind_count(set(names))
    for name in dict.fromkeys(names):
        place = names.index(name)
        entry: dict[str, Any] = {"rope_theta": number("rope_theta", bases[place])}
        if isinstance(shares, list) and place < len(shares):
            entry["partial_rotary_factor"] = number("partial_rotary_factors", shares[place])
        own = dict(given) if scaled is None or name in scaled else {}
        by_name[name] = _complete(own | entry, keys)
    return by_name


def _fill_in(nested: Mapping[str, Entry], usual: Mapping[str, Any], keys: Keys) -> dict[str, Entry]:
    """Add what the code of some architectures adds to nested entries; null is plain RoPE there."""
    filled = dict(nested)
    bases = keys.facts.get("bases")
    if bases is None:
        return filled
    for name, known in usual.items():
        entry = dict(filled.get(name) or {"rope_type": "default"})
        if entry.get("rope_theta") is None:
            base = keys.real(bases[name]) if name in bases else None
            entry["rope_theta"] = known["rope_theta"] if base is None else base
        if SHARE in known and "share" not in keys.facts:
            entry.setdefault(SHARE, known[SHARE])
        filled[name] = entry
    return filled


def _legacy_entry(name: str, usual: Entry, given: Mapping[str, Any], keys: Keys) -> Entry:
    """Return the entry of one kind of layer from a file that is not nested yet."""
    facts = keys.facts
    entry = dict(usual or {})
    base_key = facts.get("bases", {}).get(name)
    if base_key is not None and keys.config.get(base_key) is not None:
        entry["rope_theta"] = keys.real(base_key)
    if given and name in facts.get("unstretched", ()):  # DeepSeek-V4: the base is the key's
        del entry["rope_type"]
        entry = _complete({**entry, **given, "rope_theta": entry["rope_theta"]}, keys)
        if entry.get("rope_type") == "yarn":
            entry.setdefault("attention_factor", 1.0)
    elif name in facts.get("scaled", ()):
        entry |= keys.own("rope_scaling") or {}
    if usual is not None and "share" in facts:
        entry[SHARE] = _share_of_all(keys, usual)
    return None if usual is None else _complete(entry, keys)


def _share_of_all(keys: Keys, usual: Mapping[str, Any]) -> float | None:
    """Return the share of the head that layers of all kinds rotate (DeepSeek-V4)."""
    if keys.config.get(SHARE) is not None:
        return keys.real(SHARE)
    rotated, head_dim = keys.integer(keys.facts["share"]), keys.integer("head_dim")
    given = keys.config.get(keys.facts["share"]) is not None
    return rotated / head_dim if given and rotated and head_dim else usual[SHARE]


def _local_base(keys: Keys) -> float | None:
    """Return the base of sliding layers where they have their own (Gemma 3, ModernBERT)."""
    if keys.find("rope_local_base_freq") is not None:
        return keys.real("rope_local_base_freq")
    if keys.find("global_rope_theta") is None:
        return None
    local = keys.real("local_rope_theta")
    return keys.real("global_rope_theta") if local is None else local


def _complete(given: Mapping[str, Any], keys: Keys, base_key: str = "rope_theta") -> dict[str, Any]:
    """Complete a layer's own keys with those at the top level of the file."""
    entry = dict(given)
    if entry.get("rope_theta") is not None:
        entry["rope_theta"] = number("rope_theta", entry["rope_theta"])
    if "rope_type" not in entry and "type" in entry:
        entry["rope_type"] = entry["type"]
    for name, meant in keys.facts.get("rope_types", {}).items():
        if entry.get("rope_type") == name:
            entry["rope_type"] = meant
    if entry.get("rope_theta") is None:
        entry["rope_theta"] = keys.real(base_key if keys.find(base_key) else "rope_theta")
        within = keys.config.get(keys.facts.get("base_in", ""))
        if entry["rope_theta"] is None and isinstance(within, dict) and "rope_theta" in within:
            entry["rope_theta"] = number("rope_theta", within["rope_theta"])
            entry["base_in"] = keys.facts["base_in"]
        ratio = keys.real("rope_ratio")
        if ratio is not None and keys.config.get("rope_theta") is None:
            entry["rope_theta"] = BASE * ratio
    return entry


def layer_override(keys: Keys, kind: str) -> Keys:
    """Return the keys as the layers of a kind see them: per_layer_config overrides all others."""
    given = keys.config.get("per_layer_config")
    if not isinstance(given, dict):
        return keys
    by_index = {
        int(i): extra for i, extra in given.items() if str(i).isdecimal() and len(str(i)) < 9
    }
    for i, name in enumerate(keys.per_layer("layer_types")):
        if name == kind and isinstance(extra := by_index.get(i), dict):
            if "head_dim" in extra:
                extra = extra | {"global_head_dim": extra["head_dim"]}
            return Keys(dict(keys.config) | extra, keys.architecture)
    return keys
