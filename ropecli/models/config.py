"""From a config.json, old form or new, to the settings of each kind of layer.

A value is looked up in rope_parameters (or rope_scaling), at the top level, and in the table of
architectures, in this order; else it is Transformers' default. Transformers looks in this order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ropecli.errors import ArgumentError, NoRotaryError
from ropecli.models.entries import BASE, class_entries, layer_override, unread_objects
from ropecli.models.fope import asks_for_fope, with_fope
from ropecli.models.geometry import geometry, set_axes
from ropecli.models.keys import BY_ORIGINAL, ORIGINAL, SLIDING, Keys, check_kind_count, names_of
from ropecli.models.layers import split_by_layer
from ropecli.models.parts import Part, why_not_rotary
from ropecli.models.refusals import failure, misfit, refusal, refusal_of_top
from ropecli.models.settings import INDEXER, Description, Settings
from ropecli.names import join, quote
from ropecli.numbers import number
from ropecli.rotary.factors import Temperature


def settings_of(described: Description) -> tuple[Settings, ...]:
    """Return the settings of every kind of layer in a config.json."""
    every: list[Settings] = []
    for part in described.parts:
        every += _part_settings(part)
        check_kind_count(every)
    if not every:
        raise NoRotaryError(f"no rotary position embedding found: {why_not_rotary(described.raw)}")
    if all(part.path for part in described.parts):
        refused = refusal_of_top(described.raw, described.parts[0].path)
        every = [replace(settings, refused=settings.refused or refused) for settings in every]
    return tuple(every)


def _part_settings(part: Part) -> list[Settings]:
    entries_by_type = class_entries(part.keys)
    check_kind_count(entries_by_type)
    nested = list(entries_by_type) != ["all"]
    every = [
        _settings(layer_override(part.keys, name), name, entry, nested=nested)
        for name, entry in entries_by_type.items()
    ]
    return [
        _add_prefix(settings, part.name, alone=len(entries_by_type) == 1)
        for settings in (
            *split_by_layer(part.keys, every),
            *_indexers(part.keys, every),
        )
    ]


def _indexers(keys: Keys, found: list[Settings]) -> list[Settings]:
    """Return the settings of an indexer, where the architecture has one: a list of one, or none."""
    facts = keys.facts.get("indexer")
    head_dim = keys.integer("index_head_dim")
    if facts is None or head_dim is None or not found[0].geometry:
        return []
    attention = found[0].geometry
    share = attention.get("partial_rotary_factor", 1.0)
    rotary_dim = attention.get("rotary_dim", int(attention["head_dim"] * share))
    sections = {key: value for key, value in attention.items() if key.startswith("mrope")}
    geometry = {"head_dim": head_dim, "rotary_dim": min(rotary_dim, head_dim), **sections, **facts}
    if geometry.pop("offset", None) == "trailing":
        geometry["rotary_offset"] = head_dim - geometry["rotary_dim"]
    return [replace(found[0], name=INDEXER, geometry=geometry, softmax=None, temperature=None)]


def _add_prefix(settings: Settings, prefix: str, *, alone: bool) -> Settings:
    if not prefix:
        return settings
    plain = alone and settings.name == "all"
    name = prefix if plain else f"{prefix}.{settings.name}"
    return replace(settings, name=name, part=prefix)


def _settings(keys: Keys, name: str, entry: dict[str, Any] | None, *, nested: bool) -> Settings:
    context = keys.integer("max_position_embeddings")
    if entry is None:
        return Settings(name=name, rope_type=None, context_length=context, nested=nested)
    placed, unclear = geometry(keys, entry, name)
    facts, assumed = keys.facts, [*unclear]
    refused = refusal(keys, name, entry, placed["head_dim"])
    fits_not = misfit(keys, entry, placed)
    rope_type = entry.pop("rope_type", None) or facts.get("rope_type", "default")
    if not isinstance(rope_type, str):
        raise ArgumentError(f"rope_type must be a name, got {quote(rope_type)}")
    if facts.get("rope_type") == "axial" and rope_type == "default":
        rope_type = "axial"
    if entry["rope_theta"] is None:
        entry["rope_theta"] = BASE
        assumed.append(f"base 10000: {_without_base(keys)}")
    original = _original(keys, entry, rope_type, context, nested=nested)
    scaling = entry | {"max_position_embeddings": context}
    if original is not None:
        scaling[ORIGINAL] = original
    if "stepped_ntk" in facts:
        scaling["base_seqlen"] = keys.integer("base_seqlen") or facts["stepped_ntk"]
        scaling["training_seqlen"] = keys.integer("training_seqlen") or context
    set_axes(keys, scaling, placed, rope_type)
    if keys.architecture.model_type is None:
        assumed.append("an architecture like Llama's: no model_type")
    elif not keys.architecture.known:
        kind = quote(keys.architecture.model_type)
        assumed.append(f"an architecture like Llama's: model_type {kind} is unknown")
    settings = Settings(
        name=name,
        rope_type=rope_type,
        geometry=placed,
        scaling=scaling,
        context_length=context,
        original_context_length=original,
        window=_window(keys, name),
        nested=nested,
        softmax=_softmax(keys, entry),
        temperature=_temperature(entry, original),
        assumed=tuple(assumed),
        notes=tuple(_notes(keys, placed)),
        facts=facts,
        unread=keys.unread_keys,
        refused=refused,
        fails=failure(keys, rope_type) or fits_not,
    )
    if keys.architecture.in_transformers or not asks_for_fope(entry):
        return settings
    missing = f"Transformers has no model_type {quote(keys.architecture.model_type)}"
    return with_fope(settings, f"FoPE, as the keys say: {missing}")


def _notes(keys: Keys, placed: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the rotation itself does not show: a label and a sentence."""
    if "patches" in placed:
        rows, columns = placed["patches"]
        yield (
            "positions",
            f"patch i of N is at 2 pi (2 (i + 1/2) / N - 1): the table is for {rows} x {columns} "
            "patches (image_size over patch_size), and another image has another one",
        )
    trained = keys.config.get("seq_length")
    if keys.config.get("use_logn_attn") is True and not keys.architecture.in_transformers:
        length = f"{trained:,}" if type(trained) is int else "seq_length"
        yield (
            "log n",
            f"query m times ln(m + 1) / ln({length}) from m = {length} on (use_logn_attn), in the "
            "code that came with the model; vllm, llama.cpp and mlx-lm have no such factor",
        )


def _without_base(keys: Keys) -> str:
    """Return why no key gives the base: there is none, or the architecture's code reads another."""
    code = f"the code of model_type {keys.architecture.model_type}"
    if keys.architecture.fixes_base:
        return f"{code} fixes it"
    given = [name for name in names_of("rope_theta") if keys.config.get(name) is not None]
    objects = unread_objects(keys).items()
    given += [f"{name}.rope_theta" for name, inner in objects if "rope_theta" in (inner or {})]
    if given:
        return f"{code} reads {keys.read_name('rope_theta')}, and not {join(given)}"
    return "no rope_theta, nor one of its other names"


def _original(
    keys: Keys, entry: Mapping[str, Any], rope_type: str, context: int | None, *, nested: bool
) -> int | None:
    """Return the original length: that at the top level (Phi-3's place) first, unless nested.

    Where no key gives it to a type that needs it, it is the context length.
    """
    inner = Keys(entry, keys.architecture).integer(ORIGINAL)
    outer = keys.integer(ORIGINAL)
    original = inner if nested else outer or inner
    if original is None and rope_type in BY_ORIGINAL:
        return context
    return original


def _window(keys: Keys, name: str) -> int | None:
    """Return the positions that a sliding layer sees; None of other layers, or without a number."""
    given = keys.get("sliding_window") if name == SLIDING else None
    is_count = isinstance(given, int) and not isinstance(given, bool) and 0 < given <= 2**53
    return given if is_count else None


def _softmax(keys: Keys, entry: Mapping[str, Any]) -> str | None:
    """Return the key of DeepSeek's factor on the score: latent attention with YaRN has one."""
    known = keys.facts.get("softmax")
    if known is not None or keys.architecture.known:
        return known
    latent = keys.find("qk_rope_head_dim") is not None and entry.get("mscale_all_dim")
    return "mscale_all_dim" if latent else None


def _temperature(entry: Mapping[str, Any], original: int | None) -> Temperature | None:
    beta = entry.get("llama_4_scaling_beta")
    if not beta or original is None or isinstance(beta, bool) or not isinstance(beta, int | float):
        return None
    return Temperature(beta=number("llama_4_scaling_beta", beta), length=float(original))
