"""Files that Transformers refuses, in its classes or when it computes a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ropecli.models.classes import class_facts, class_reasons, takes_type
from ropecli.models.entries import class_layer_types, unread_objects
from ropecli.models.geometry import PLAIN, share_of
from ropecli.models.keys import BY_ORIGINAL, ORIGINAL, SHARE, Keys
from ropecli.names import quote

#: The keys that each rope type of Transformers needs. An original length is filled in.
NEEDED = {
    "default": (),
    "dynamic": ("factor",),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
    "proportional": (),
    "yarn": ("factor",),
}
_COUNTED = (ORIGINAL, SHARE)  #: Where null is a value.
_TINY = 4  #: Odd heads up to this size are let through, for files that tests use.
#: Facts of axial RoPE whose pairs are shared out among the axes, whatever the head dim.
_ANY_HEAD = ("axes", "deal_out", "take_turns")
_SIZES = ("hidden_size", "num_attention_heads")
_MSCALES = ("short_mscale", "long_mscale")


def refusal(keys: Keys, name: str, entry: Mapping[str, Any], head_dim: int) -> str | None:
    """Return why Transformers refuses one kind of layer, None where it does not."""
    if not keys.architecture.in_transformers:
        return None
    why = next(_reasons(keys, name, entry, head_dim), None)
    if why is not None:
        return why
    kind = keys.architecture.model_type
    rope_type = entry.get("rope_type", "default")
    why = next(class_reasons(class_facts(kind), _with_sizes(keys), rope_type), None)
    return why and f"{why} (model_type {kind})"


def _with_sizes(keys: Keys) -> Mapping[str, Any]:
    """Return the keys of a part, with the sizes that its class has where it has none."""
    return {name: keys.architecture.defaults.get(name) for name in _SIZES} | dict(keys.config)


def failure(keys: Keys, rope_type: object) -> str | None:
    """Return why the model's class fails on a configuration that Transformers reads; or None."""
    named, kind = class_layer_types(keys), keys.architecture.model_type
    if any(name in named for name in unread_objects(keys)):
        return f"rope_parameters is by layer type, and model_type {kind} has one for all layers"
    facts = class_facts(kind).get("table", {})
    why = next(class_reasons(facts, keys.config, rope_type), None)
    return why and f"{why} (model_type {kind})"


def misfit(keys: Keys, entry: Mapping[str, Any], placed: Mapping[str, Any]) -> str | None:
    """Return why a class's table does not fit the coordinates that its attention rotates; or None.

    Transformers makes such a table, and its model raises when it multiplies a query by it.
    """
    facts = keys.facts
    if not keys.architecture.in_transformers:
        return None
    head_dim: int = placed["head_dim"]
    if facts.get("rope_type") == "axial":
        if head_dim % 4 and facts.keys().isdisjoint(_ANY_HEAD):
            return f"the head dim must be a multiple of 4 for two axes, got {head_dim}"
        return None
    if facts.get("partial") and not facts.get("whole_heads"):
        return None  # its attention rotates as many coordinates as the table is for
    latent = "rotary_offset" in placed and facts.get("head_dim") != "head_dim"
    rotated: int = placed["rotary_dim"] if latent else head_dim
    of_head = _table_dim(keys, head_dim, rotated)
    share = _table_share(keys, entry, rotated, of_head)
    made = int(of_head * share)
    if made + made % 2 == rotated + rotated % 2:  # of an odd number, a pair is not whole
        return None
    of_share = "" if share == 1 else f", of which {SHARE} leaves {made}"
    return f"its table is for {of_head} coordinates{of_share}, and its attention rotates {rotated}"


def _table_dim(keys: Keys, head_dim: int, rotated: int) -> int:
    """Return the coordinates that a class's table is for, before a share of them."""
    usual = {"head_dim": rotated, "qk_head_dim": head_dim}.get(keys.facts.get("table_dim", ""))
    if usual is None:
        return rotated
    given = keys.integer("head_dim")
    if given is None and "head_dim" in keys.config:  # null
        return keys.quotient("hidden_size // num_attention_heads")
    return usual if given is None else given


def _table_share(keys: Keys, entry: Mapping[str, Any], rotated: int, of_head: int) -> float:
    """Return the share of these coordinates that a class's table is for."""
    rope_type, share = entry.get("rope_type", "default"), share_of(keys, entry)
    if rope_type == "proportional":  # whose table has zeros for the others
        return 1.0
    if share is None and "share" in keys.facts and rope_type not in PLAIN:
        share = rotated / of_head
    return share if share is not None and 0 < share <= 1 else 1.0


def refusal_of_top(config: Mapping[str, Any], part: str) -> str | None:
    """Return why the class of a composite file refuses what is next to a part; or None."""
    kind = config.get("model_type")
    facts = class_facts(kind if isinstance(kind, str) else None)
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    rope_type = scaling.get("rope_type", scaling.get("type")) if isinstance(scaling, dict) else None
    why = next(class_reasons(facts, config, rope_type), None)
    where = f"at the top of the file, where model_type {kind} reads no rope type: {part} has it"
    return why and f"{why} ({where if scaling else f'model_type {kind}, at the top of the file'})"


def accepted_types(keys: Keys) -> frozenset[str] | None:
    """Return the rope types that a class takes from a part; None if its code is elsewhere."""
    if not keys.architecture.in_transformers:
        return None
    kind = keys.architecture.model_type
    return frozenset(type_name for type_name in _types(keys) if takes_type(kind, type_name))


def _types(keys: Keys) -> set[str]:
    return {*NEEDED, keys.facts.get("rope_type", "default")}


def _reasons(keys: Keys, name: str, entry: Mapping[str, Any], head_dim: int) -> Iterator[str]:
    facts, written = keys.facts, _written(keys, name)
    yield from _without_entry(keys)
    rope_type = entry.get("rope_type", "default")
    usual = _types(keys)
    if rope_type is None:
        yield "rope_type is null"
    elif not isinstance(rope_type, str):
        return  # no stack takes it
    elif rope_type not in usual:
        yield f"rope type {quote(rope_type)} is not one of {', '.join(sorted(usual))}"
    if _has_null_base(keys, name, written):
        yield "rope_theta is null"
    needed = [*NEEDED.get(rope_type, ())]
    renamed = str(written.get("rope_type", written.get("type"))) in facts.get("rope_types", {})
    if renamed and rope_type == "longrope":  # after the length is filled in
        needed.append(ORIGINAL)
    if facts.get("mscales") and rope_type != "default":
        needed += _MSCALES
    missing = [key for key in needed if key not in entry]
    if missing:
        yield f"rope type {rope_type} needs {', '.join(missing)}"
    yield from _unusable(keys, entry, rope_type)
    yield from _odd(keys, entry, rope_type, head_dim)


def _unusable(keys: Keys, entry: Mapping[str, Any], rope_type: object) -> Iterator[str]:
    """Yield what is wrong with single keys, of the scaling and of the model."""
    facts = keys.facts
    absent = [key for key in facts.get("needs", ()) if keys.get(key) is None]
    if absent:
        yield f"model_type {keys.architecture.model_type} needs {', '.join(absent)}"
    nulls = [key for key in _COUNTED if key in entry and entry[key] is None]
    if ORIGINAL in nulls and rope_type in BY_ORIGINAL:
        yield f"{ORIGINAL} is null"
    if SHARE in nulls and (facts.get("partial") or rope_type not in PLAIN):
        yield f"{SHARE} is null"


def _written(keys: Keys, name: str) -> Mapping[str, Any]:
    """Return the scaling keys of a kind of layer as the file has them, or else the defaults."""
    usual = keys.architecture.scaling
    given = keys.scaling or usual
    nested = given.get(name, None if keys.facts.get("flat") else usual.get(name))
    return nested if isinstance(nested, dict) else given


def _without_entry(keys: Keys) -> Iterator[str]:
    """Yield layer types that have no entry in a file that has some."""
    given = keys.scaling or {}
    usual = keys.architecture.scaling
    if not given or keys.facts.get("bases"):
        return
    wanted = class_layer_types(keys) or [*map(str, keys.per_layer("layer_types"))] or list(usual)
    for name in dict.fromkeys(wanted):
        if isinstance(usual.get(name), dict) and name not in given:
            yield f"rope_parameters has no entry for layer type {name}"


def _has_null_base(keys: Keys, name: str, written: Mapping[str, Any]) -> bool:
    """True if rope_theta is null where no other value takes its place."""
    bases = keys.facts.get("bases", {})
    if bases and name not in bases:
        return False
    base_key = bases.get(name, "rope_theta")
    if "rope_theta" in written and (not bases or keys.facts.get("flat")):
        return written["rope_theta"] is None
    return base_key not in keys.unread_keys and keys.config.get(base_key, 0) is None


def _odd(keys: Keys, entry: Mapping[str, Any], rope_type: object, head_dim: int) -> Iterator[str]:
    share = entry.get(SHARE, keys.get(SHARE))
    rotated = int(head_dim * share) if isinstance(share, float) and 0 < share <= 1 else head_dim
    if rope_type == "yarn" and rotated % 2:
        yield f"rope type yarn needs an even rotary dim, got {rotated}"
    if keys.get("head_dim") is not None and rotated == head_dim > _TINY and head_dim % 2:
        yield f"the head dim must be even, got {head_dim}"
