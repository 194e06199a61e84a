"""Layers without position among those with one (NoPE), by the keys that name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.keys import Keys, few, real
from ropecli.models.settings import Settings
from ropecli.numbers import number, positive, shown
from ropecli.rotary.attention import Temperature

ROPE, NOPE = "rope", "nope"
MOST_LAYERS = 65_536


def of_layer(keys: Keys, kind: str) -> Keys:
    """The keys as the layers of a kind see them: per_layer_config goes before all else."""
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


def with_layers(keys: Keys, found: list[Settings]) -> list[Settings]:
    """The settings with the indices of their layers, and a kind for layers without position.

    Raises:
        ArgumentError: A list of layers that is not one.
    """
    if len(found) != 1 or found[0].rope_type is None:
        return [_indexed(keys, settings) for settings in found]
    rotating = found[0]
    scaled = _list(keys, "rope_scaling_layers")
    if scaled and rotating.rope_type != "default":
        return _scaled_and_not(keys, rotating, scaled)
    bases = _bases(keys, rotating)
    if bases is None or (len(set(bases)) == 1 and all(bases)):
        return [rotating]
    few(set(bases))
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
                temperature=_tuning(keys),
            )
        )
    return kinds


def _scaled_and_not(keys: Keys, rotating: Settings, scaled: list[Any]) -> list[Settings]:
    """Molmo 2: rope_scaling is for some layers, the others have plain RoPE."""
    count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
    own = tuple(i for i in range(count) if i in scaled)
    rest = tuple(i for i in range(count) if i not in scaled)
    return [
        replace(rotating, name="scaled", layers=own),
        replace(rotating, name="unscaled", rope_type="default", layers=rest),
    ]


def _bases(keys: Keys, rotating: Settings) -> list[float] | None:
    """The base of each layer, 0 where it does not rotate; None where they are all alike."""
    thetas = _list(keys, "layer_rope_theta")
    if thetas:
        return [real("layer_rope_theta", theta or 0) for theta in thetas]
    turns = _rotating(keys)
    if turns is None:
        return None
    base = real("rope_theta", rotating.scaling["rope_theta"])
    return [base if turn else 0.0 for turn in turns]


def _rotating(keys: Keys) -> list[bool] | None:
    """For each layer whether it rotates; None where nothing says that some do not.

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
    dense = _dense(keys) if keys.architecture.facts.get("rope_on_dense") else 0
    kinds = _list(keys, "layer_types") or _pattern(keys, count)
    return [kind != rule or i < dense for i, kind in enumerate(kinds)] or None


def _pattern(keys: Keys, count: int) -> list[str]:
    """The kinds of layers by sliding_window_pattern: a period, or a string such as "LLLG"."""
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
    return ["full_attention" if f else "sliding_attention" for f in full]


def _dense(keys: Keys) -> int:
    """How many of the first layers rotate whatever their kind: Cohere 2 MoE's dense ones."""
    if (keys.integer("prefix_dense_sliding_window_pattern") or 1) != 1:
        return 0
    kinds = _list(keys, "mlp_layer_types")
    if kinds:
        return next((i for i, kind in enumerate(kinds) if kind != "dense"), len(kinds))
    return keys.integer("first_k_dense_replace", least=0) or 0


def _indexed(keys: Keys, settings: Settings) -> Settings:
    types = _list(keys, "layer_types")
    indices = tuple(i for i, kind in enumerate(types) if kind == settings.name)
    return replace(settings, layers=indices or None)


def _list(keys: Keys, name: str) -> list[Any]:
    value = keys.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > MOST_LAYERS:
        msg = f"{name} must be a list of at most {MOST_LAYERS} entries, got {shown(value)}"
        raise ArgumentError(msg)
    return value


def _tuning(keys: Keys) -> Temperature | None:
    """Llama 4's temperature, which is for its layers without position."""
    scale, length = keys.real("attn_scale"), keys.real("floor_scale")
    if not keys.get("attn_temperature_tuning") or scale is None or not length:
        return None
    return Temperature(
        beta=number("attn_scale", scale), length=positive("floor_scale", length), shift=1
    )
