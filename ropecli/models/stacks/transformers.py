"""The reading of Hugging Face Transformers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ropecli.errors import ArgumentError
from ropecli.models.entries import BASE, nested_entries
from ropecli.models.keys import ORIGINAL, Keys
from ropecli.models.settings import Description, Settings
from ropecli.models.stacks.build import build
from ropecli.models.stacks.stack import Stack
from ropecli.rotary import Rotary
from ropecli.rotary.factors import mscale


def read(described: Description) -> tuple[Settings, ...]:
    """Return the settings of a file; truncate counts next to the layer types, not in them."""
    if described.format != "config.json" or not any(
        settings.nested for settings in described.settings
    ):
        return described.settings
    keys = {part.name: part.keys for part in described.parts}
    return tuple(
        _with_outer_truncate(settings, keys[settings.part]) if settings.nested else settings
        for settings in described.settings
    )


def _with_outer_truncate(settings: Settings, keys: Keys) -> Settings:
    given = keys.scaling
    scaling = {key: value for key, value in settings.scaling.items() if key != "truncate"}
    if isinstance(given, dict) and nested_entries(given, keys) and "truncate" in given:
        scaling["truncate"] = given["truncate"]
    return replace(settings, scaling=scaling)


def rotary(settings: Settings, sequence_length: int | None) -> Rotary:
    """The rotation of Hugging Face Transformers."""
    if settings.refused is not None:
        raise ArgumentError(f"Transformers refuses it: {settings.refused}")
    if settings.fails is not None:
        raise ArgumentError(f"Transformers reads it, and its model raises: {settings.fails}")
    scaling = dict(settings.scaling)
    if "truncate" in scaling:  # null counts as false
        scaling["truncate"] = bool(scaling["truncate"])
    if "alpha" in settings.unread:
        scaling.pop("alpha", None)
    if settings.facts.get("mscales") and settings.rope_type != "default":
        beyond = (sequence_length or 0) > (settings.original_context_length or 0)
        scaling["attention_factor"] = scaling["long_mscale" if beyond else "short_mscale"]
        scaling["long_factor"] = scaling.get("short_factor")
    if scaling.get("base_in"):  # DBRX: a key that the older code and other stacks read
        scaling["rope_theta"] = BASE
    if scaling.get("training_seqlen"):
        return _dynamic_in_steps(settings, scaling, sequence_length or 0)
    return build(settings, settings.rope_type, scaling, sequence_length)


def _dynamic_in_steps(settings: Settings, scaling: dict[str, Any], sequence_length: int) -> Rotary:
    """TeleChat's: the base grows with each power of two, the attention factor from training on."""
    trained = scaling["training_seqlen"]
    used = max(sequence_length, trained)
    steps = math.ceil(math.log2(used / scaling["base_seqlen"]) + 1)
    scaling["alpha"] = max(2**steps - 1, 1)
    if used == trained:
        return build(settings, "dynamic", scaling, None)
    dim = settings.geometry["head_dim"]
    slowed = [scaling["alpha"] ** (2 * i / (dim - 2)) for i in range(dim // 2)]
    scaling |= {
        "short_factor": slowed,
        "long_factor": slowed,
        ORIGINAL: trained,
        "attention_factor": mscale(used / trained),
    }
    return build(settings, "longrope", scaling, None)


TRANSFORMERS = Stack(name="transformers", version="5.24.0", rotary=rotary, read=read)
