"""The kinds of layers in a config.json: their scaling keys, and the indices of their layers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import Keys, check_kind_count, real
from ropecli.models.settings import Settings
from ropecli.numbers import number, positive, quote
from ropecli.rotary.factors import Temperature

if TYPE_CHECKING:
    from collections.abc import Mapping

BASE = 10_000.0  #: Transformers' default.
FULL, SLIDING = "full_attention", "sliding_attention"
ROPE, NOPE = "rope", "nope"
MOST_LAYERS = 65_536
#: rope_theta and the scaling keys of one kind of layer; None for layers without a rotation.
Entry = dict[str, Any] | None


def layer_override(keys: Keys, kind: str) -> Keys:
    """Return the keys as the layers of a kind see them: per_layer_config overrides all others."""
    given = keys.config.get("per_layer_config")
    if not isinstance(given, dict):
        return keys
    own = {int(i): extra for i, extra in given.items() if str(i).isdecimal() and len(str(i)) < 9}
    for i, name in enumerate(_list(keys, "layer_types")):
        if name == kind and isinstance(extra := own.get(i), dict):
            if "head_dim" in extra:
                extra = extra | {"global_head_dim": extra["head_dim"]}
            return Keys(dict(keys.config) | extra, keys.architecture)
    return keys


# rope_theta and the scaling keys of each kind.


def entries(keys: Keys) -> dict[str, Entry]:
    """Return the scaling keys of each kind of layer; a single kind is "all".

    Raises:
        ArgumentError: A value that cannot be used.
    """
    given = keys.own("rope_scaling") or keys.own("rope_parameters") or {}
    usual = keys.architecture.defaults.get("rope_parameters", {})
    if not isinstance(given, dict):
        msg = f"rope_parameters (or rope_scaling) must be an object, got {quote(given)}"
        raise ArgumentError(msg)
    nested = _nested_entries(given, keys)
    if nested:
        return {
            name: None if entry is None else _complete(entry, keys)
            for name, entry in _fill_in(nested, usual, keys).items()
        }
    if isinstance(keys.own("rope_theta"), list):
        return _entries_of_listed_bases(given, keys)
    if _nested_entries(usual, keys):
        return {name: _legacy_entry(name, entry, given, keys) for name, entry in usual.items()}
    local = _local_base(keys)
    if local is None:
        empty = keys.own("rope_parameters") == {}  # a value, unlike null and absence
        return {"all": _complete(given if given or empty else usual, keys)}
    full = _complete(given, keys, base_key="global_rope_theta")
    return {FULL: full, SLIDING: _complete({"rope_theta": local}, keys)}


def _nested_entries(given: Mapping[str, Any], keys: Keys) -> dict[str, Entry]:
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
        msg = "a list as rope_theta needs layer_types, a list with as many layers or fewer"
        raise ArgumentError(msg)
    scaled = keys.architecture.facts.get("scaled")
    found: dict[str, Entry] = {}
    names = list(map(str, types))
    check_kind_count(set(names))
    for name in dict.fromkeys(names):
        place = names.index(name)
        entry: dict[str, Any] = {"rope_theta": real("rope_theta", bases[place])}
        if isinstance(shares, list) and place < len(shares):
            entry["partial_rotary_factor"] = real("partial_rotary_factors", shares[place])
        own = dict(given) if scaled is None or name in scaled else {}
        found[name] = _complete(own | entry, keys)
    return found


def _fill_in(nested: Mapping[str, Entry], usual: Mapping[str, Any], keys: Keys) -> dict[str, Entry]:
    """Add the kinds and bases that the code of some architectures adds to nested entries.

    Where it knows the base of a kind, null is plain RoPE, and not a layer without a rotation.
    """
    found = dict(nested)
    bases = keys.architecture.facts.get("bases")
    if bases is None:
        return found
    for name, known in usual.items():
        entry = dict(found.get(name) or {"rope_type": "default"})
        if entry.get("rope_theta") is None:
            own = keys.real(bases[name]) if name in bases else None
            entry["rope_theta"] = known["rope_theta"] if own is None else own
        found[name] = entry
    return found


def _legacy_entry(name: str, usual: Entry, given: Mapping[str, Any], keys: Keys) -> Entry:
    """Return the entry of one kind of layer from a file that is not nested yet.

    The table names the key that held its base, and the kinds that rope_scaling was for.
    """
    facts = keys.architecture.facts
    entry = dict(usual or {})
    base_key = facts.get("bases", {}).get(name)
    if base_key is not None and keys.config.get(base_key) is not None:
        entry["rope_theta"] = keys.real(base_key)
    if given and name in facts.get("unstretched", ()):  # DeepSeek-V4: the base is the key's
        del entry["rope_type"]
        entry = _complete(
            {"attention_factor": 1.0, **entry, **given, "rope_theta": entry["rope_theta"]}, keys
        )
    elif name in facts.get("scaled", ()):
        entry |= keys.own("rope_scaling") or {}
    return None if usual is None else _complete(entry, keys)


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
        entry["rope_theta"] = real("rope_theta", entry["rope_theta"])
    if "rope_type" not in entry and "type" in entry:
        entry["rope_type"] = entry["type"]
    for name, meant in keys.architecture.facts.get("rope_types", {}).items():
        if entry.get("rope_type") == name:
            entry["rope_type"] = meant
    if entry.get("rope_theta") is None:
        entry["rope_theta"] = keys.real(base_key if keys.find(base_key) else "rope_theta")
        ratio = keys.real("rope_ratio")
        if ratio is not None and keys.config.get("rope_theta") is None:
            entry["rope_theta"] = BASE * ratio
    return entry


# The layers of each kind, and layers without position (NoPE).


def split_by_layer(keys: Keys, found: list[Settings]) -> list[Settings]:
    """Add the indices of layers to settings, and a kind for layers without position.

    Raises:
        ArgumentError: A key whose value should be a list of layers.
    """
    if len(found) != 1 or found[0].rope_type is None:
        return [_add_indices(keys, settings) for settings in found]
    rotating = found[0]
    scaled = _list(keys, "rope_scaling_layers")
    if scaled and rotating.rope_type != "default":
        return _split_scaled(keys, rotating, scaled)
    bases = _bases(keys, rotating)
    if bases is None or (len(set(bases)) == 1 and all(bases)):
        return [rotating]
    check_kind_count(set(bases))
    kinds = [
        replace(
            rotating,
            name=ROPE if len(set(bases) - {0.0}) == 1 else f"{ROPE}-{base:g}",
            scaling=dict(rotating.scaling) | {"rope_theta": base},
            layers=tuple(i for i, own in enumerate(bases) if own == base),
        )
        for base in dict.fromkeys(bases)
        if base
    ]
    without = tuple(i for i, base in enumerate(bases) if not base)
    if without:
        context = rotating.context_length
        kinds.append(
            Settings(
                name=NOPE,
                rope_type=None,
                context_length=context,
                layers=without,
                temperature=_nope_temperature(keys),
            )
        )
    return kinds


def _split_scaled(keys: Keys, rotating: Settings, scaled: list[Any]) -> list[Settings]:
    """Split layers that rope_scaling is for from those with plain RoPE (Molmo 2)."""
    count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
    own = tuple(i for i in range(count) if i in scaled)
    rest = tuple(i for i in range(count) if i not in scaled)
    return [
        replace(rotating, name="scaled", layers=own),
        replace(rotating, name="unscaled", rope_type="default", layers=rest),
    ]


def _bases(keys: Keys, rotating: Settings) -> list[float] | None:
    """Return the base of each layer, 0 where it does not rotate; None where all are the same."""
    thetas = _list(keys, "layer_rope_theta")
    if thetas:
        return [real("layer_rope_theta", theta or 0) for theta in thetas]
    rotates = _rotating_layers(keys)
    if rotates is None:
        return None
    base = real("rope_theta", rotating.scaling["rope_theta"])
    return [base if each else 0.0 for each in rotates]


def _rotating_layers(keys: Keys) -> list[bool] | None:
    """Return for each layer if it rotates; None where no key distinguishes them.

    no_rope_layers has a 1 for a layer that DOES rotate (Llama 4, SmolLM3).
    """
    flags = _list(keys, "no_rope_layers")
    if flags:
        return [bool(flag) for flag in flags]
    rule = keys.architecture.facts.get("no_rope")
    count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
    if rule is None:
        return None
    if rule == "interval":
        step = keys.integer("no_rope_layer_interval") or 4
        return [(i + 1) % step != 0 for i in range(count)]
    needed = keys.architecture.facts.get("no_rope_needs")
    if needed is not None and keys.config.get(needed, 0) is None:
        return None
    dense = _dense_layers(keys) if keys.architecture.facts.get("rope_on_dense") else 0
    kinds = _list(keys, "layer_types") or _layer_pattern(keys, count)
    return [kind != rule or i < dense for i, kind in enumerate(kinds)] or None


def _layer_pattern(keys: Keys, count: int) -> list[str]:
    """Return layer types by sliding_window_pattern: a period, or a string such as "LLLG"."""
    given = keys.get("sliding_window_pattern")
    if isinstance(given, str) and given:
        full = [given[i % len(given)] == "G" for i in range(count)]
    else:
        key = "sliding_window_pattern"
        if keys.config.get("global_attn_every_n_layers") is not None:
            key = "global_attn_every_n_layers"
        period = keys.integer(key)
        if period is None:
            return []
        full = [(i + 1) % period == 0 for i in range(count)]
    return [FULL if f else SLIDING for f in full]


def _dense_layers(keys: Keys) -> int:
    """Count the first, dense layers, which rotate whatever their kind (Cohere 2 MoE)."""
    if (keys.integer("prefix_dense_sliding_window_pattern") or 1) != 1:
        return 0
    kinds = _list(keys, "mlp_layer_types")
    if kinds:
        return next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return keys.integer("first_k_dense_replace", least=0) or 0


def _add_indices(keys: Keys, settings: Settings) -> Settings:
    types = _list(keys, "layer_types")
    indices = tuple(i for i, kind in enumerate(types) if kind == settings.name)
    return replace(settings, layers=indices or None)


def _list(keys: Keys, name: str) -> list[Any]:
    value = keys.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MOST_LAYERS:
        msg = f"{name} must be a list of at most {MOST_LAYERS} entries, got {quote(value)}"
        raise ArgumentError(msg)
    return value


def _nope_temperature(keys: Keys) -> Temperature | None:
    """Return Llama 4's temperature, which is for its layers without position."""
    scale, length = keys.real("attn_scale"), keys.real("floor_scale")
    if not keys.get("attn_temperature_tuning") or scale is None or not length:
        return None
    return Temperature(
        beta=number("attn_scale", scale), length=positive("floor_scale", length), shift=1
    )
