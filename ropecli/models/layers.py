"""The indices of the layers of each kind in a config.json, and layers without position (NoPE)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ropecli.models.keys import FULL, LINEAR, MOST_LAYERS, SLIDING, Keys, check_kind_count
from ropecli.models.settings import Settings
from ropecli.numbers import number, positive
from ropecli.rotary.factors import Temperature

ROPE, NOPE = "rope", "nope"


def split_by_layer(keys: Keys, found: list[Settings]) -> list[Settings]:
    """Add the indices of layers to settings, and a kind for layers without position."""
    if len(found) != 1 or not found[0].rotates:
        types = keys.per_layer("layer_types")
        layers_of = [
            tuple(i for i, kind in enumerate(types) if kind == settings.name) for settings in found
        ]
        return [
            replace(settings, layers=i or None)
            for settings, i in zip(found, layers_of, strict=True)
        ]
    rotating = found[0]
    scaled = keys.per_layer("rope_scaling_layers")
    if scaled and rotating.rope_type != "default":
        return _split_scaled(keys, rotating, scaled)
    bases = _bases(keys, rotating)
    if bases is None or (len(set(bases)) == 1 and all(bases)):
        return [rotating]
    check_kind_count(set(bases))
    by_base = [
        replace(
            rotating,
            name=ROPE if len(set(bases) - {0.0, None}) == 1 else f"{ROPE}-{base:g}",
            scaling=dict(rotating.scaling) | {"rope_theta": base},
            layers=tuple(i for i, own in enumerate(bases) if own == base),
        )
        for base in dict.fromkeys(bases)
        if base
    ]
    without = tuple(i for i, base in enumerate(bases) if base == 0)
    if without:
        context = rotating.context_length
        by_base.append(
            Settings(
                name=NOPE,
                rope_type=None,
                context_length=context,
                layers=without,
                temperature=_nope_temperature(keys),
            )
        )
    return by_base


def _split_scaled(keys: Keys, rotating: Settings, scaled: list[Any]) -> list[Settings]:
    """Split layers that rope_scaling is for from those with plain RoPE (Molmo 2)."""
    count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
    inside = tuple(i for i in range(count) if i in scaled)
    outside = tuple(i for i in range(count) if i not in scaled)
    return [
        replace(rotating, name="scaled", layers=inside),
        replace(rotating, name="unscaled", rope_type="default", layers=outside),
    ]


def _bases(keys: Keys, rotating: Settings) -> list[float | None] | None:
    """Return the base of each layer, None where all are the same.

    It is 0 where queries and keys are not rotated, and None where there are none.
    """
    thetas = keys.per_layer("layer_rope_theta")
    if thetas:
        return [number("layer_rope_theta", theta or 0) for theta in thetas]
    rotates = _rotating_layers(keys)
    if rotates is None:
        return None
    base = number("rope_theta", rotating.scaling["rope_theta"])
    return [None if rotate is None else base * rotate for rotate in rotates]


def _rotating_layers(keys: Keys) -> list[bool | None] | None:
    """Return for each layer if it rotates, None for one that has no queries and keys.

    None where no key distinguishes them.
    """
    # It has a 1 for a layer that DOES rotate (Llama 4, SmolLM3).
    flags = keys.per_layer("no_rope_layers")
    if flags:
        return [bool(flag) for flag in flags]
    rule = keys.facts.get("no_rope")
    count = keys.integer("num_hidden_layers", most=MOST_LAYERS) or 0
    if rule is None:
        return None
    if rule == "interval":
        step = keys.integer("no_rope_layer_interval") or 4
        return [(i + 1) % step != 0 for i in range(count)]
    needed = keys.facts.get("no_rope_needs")
    if needed is not None and keys.config.get(needed, 0) is None:
        return None
    dense = dense_layers(keys) if keys.facts.get("rope_on_dense") else 0
    types = keys.per_layer("layer_types") or layer_pattern(keys, count)
    rotates = [kind != rule or i < dense for i, kind in enumerate(types)]
    return [None if k == LINEAR else r for k, r in zip(types, rotates, strict=True)] or None


def layer_pattern(keys: Keys, count: int) -> list[str]:
    """Return layer types by sliding_window_pattern: a period, or a string such as "LLLG"."""
    period = keys.facts.get("layer_period")
    if period is not None:
        return [period[i % len(period)] for i in range(count)]
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


def dense_layers(keys: Keys) -> int:
    """Count the first, dense layers, which rotate whatever their kind (Cohere 2 MoE)."""
    if (keys.integer("prefix_dense_sliding_window_pattern") or 1) != 1:
        return 0
    types = keys.per_layer("mlp_layer_types")
    if types:
        return next((i for i, kind in enumerate(types) if kind != "dense"), len(types))
    return keys.integer("first_k_dense_replace", least=0) or 0


def _nope_temperature(keys: Keys) -> Temperature | None:
    """Return Llama 4's temperature, which is for its layers without position."""
    scale, length = keys.real("attn_scale"), keys.real("floor_scale")
    if not keys.get("attn_temperature_tuning") or scale is None or not length:
        return None
    return Temperature(
        beta=number("attn_scale", scale), length=positive("floor_scale", length), shift=1
    )
