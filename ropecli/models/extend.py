"""The keys of a config.json for a longer context, as each stack reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from operator import getitem
from typing import Any

from ropecli.analyses.scale import (
    CONTEXT,
    FROM_LENGTHS,
    METHODS,
    RANKED,
    Proposal,
    Stretched,
    own_factor,
)
from ropecli.errors import ArgumentError, RopecliError
from ropecli.models.entries import BASE, entries
from ropecli.models.keys import BY_ORIGINAL, HOLDERS, ORIGINAL, SHARE, Keys
from ropecli.models.load import compute, describe_config
from ropecli.models.model import Layer, Model
from ropecli.models.overrides import Overridden, Overrides, override
from ropecli.models.parts import parts
from ropecli.models.read_back import check_read_back, readings, reads_alike
from ropecli.models.refusals import NEEDED
from ropecli.rotary import Rotary

#: What changes in a file, its configuration then, and layers with the tables that it has to give.
Extension = tuple[Proposal, Overridden, tuple[Layer, ...]]


def extend(
    model: Model, layer: Layer, stretched: Stretched, *, chosen: bool, shorter: bool = False
) -> Extension:
    """Return the configuration of a model for a longer context.

    Args:
        model: The model.
        layer: The kind of layer that is stretched.
        stretched: Its encoding by each method.
        chosen: Whether the methods were chosen; else the model's own comes first, then `RANKED`.
        shorter: Whether the context may be shorter than the file's.

    Raises:
        ArgumentError: No method that can be written, with the reason of the first.
    """
    if model.format != "config.json":
        raise ArgumentError("only a config.json can be written")
    _check_lengths(layer, stretched, shorter=shorter)
    refused = []
    for method in _candidates(stretched, chosen=chosen):
        try:
            return _extend(model, layer, stretched, method)
        except RopecliError as error:
            refused.append(error)
    raise refused[0] if refused else ArgumentError("no file names these methods")


def _check_lengths(layer: Layer, stretched: Stretched, *, shorter: bool) -> None:
    """Refuse a scaling that would take back some of the file's own."""
    formula, before = stretched.rope.formula, layer.context_length
    assert formula is not None
    own = own_factor(formula)
    if formula.get("alpha") is not None or own < 1:
        raise ArgumentError(
            f"the file's own scaling, {formula.rope_type}, has no factor to start from"
        )
    if before is None:
        return
    original, context = stretched.original_length, stretched.context_length
    given = f"factor {stretched.factor:g} over the original {original:,} positions"
    if context < before and not shorter:
        raise ArgumentError(
            f"{given} gives {context:,}, fewer than the file's {before:,}",
            "`context` N sets another length",
        )
    if stretched.factor < own and context >= before:
        raise ArgumentError(
            f"{given} is below the file's own, {own:g}", "`factor` S sets a larger one"
        )


def _candidates(stretched: Stretched, *, chosen: bool) -> list[str]:
    named = [name for name in stretched.ropes if name in METHODS]
    if chosen:
        return named
    assert stretched.rope.formula is not None
    own = [stretched.rope.formula.rope_type]
    ranked = dict.fromkeys([*(own if own[0] not in FROM_LENGTHS else []), *RANKED])
    return [method for method in ranked if method in named]


def _extend(model: Model, layer: Layer, stretched: Stretched, method: str) -> Extension:
    made, used = stretched.ropes[method], stretched.sequence_length
    assert made.formula is not None
    if made.formula.get("ramp") is not None:
        raise ArgumentError(f"no file has the ramp of {method}")
    if made.formula.rope_type not in NEEDED:
        raise ArgumentError(f"Transformers has no rope type {made.formula.rope_type}")
    described = describe_config(model.source, model.raw)
    alike = {
        shown_layer.name
        for shown_layer in model.rotating_layers()
        if shown_layer.reach == layer.reach and shown_layer.rotary == layer.rotary
    }
    one = layer.name if len(alike) < len(model.rotating_layers()) else None
    overridden = override(described, _overrides(made, stretched), layer=one)
    if overridden.unwritable is not None:
        raise ArgumentError(overridden.unwritable)
    layers = tuple(
        replace(shown_layer, rotary=made)
        if shown_layer.name in ({one} if one else alike)
        else shown_layer
        for shown_layer in compute(described, sequence_length=used).layers
    )
    check_read_back(overridden.description, layers, sequence_length=used)
    raw = overridden.description.raw
    proposal = Proposal(
        file=model.source,
        method=method,
        keys=_difference(model.raw, raw),
        context_before=layer.context_length,
        vllm=_vllm_overrides(model.raw, raw, made, sequence_length=used),
        read_by=model.read_by,
        reads=readings(raw, made, sequence_length=used),
    )
    return proposal, overridden, layers


def _overrides(made: Rotary, stretched: Stretched) -> Overrides:
    """Return what the file gets: the rope type, all of its parameters, and the context length."""
    formula = made.formula
    assert formula is not None
    values = {k: v for k, v in formula.own.items() if k not in ("sequence_length", CONTEXT)}
    follows = stretched.factor == stretched.context_length / stretched.original_length
    if follows and formula.rope_type in FROM_LENGTHS:
        del values["factor"]
    return Overrides(
        rope_type=formula.rope_type,
        parameters={k: list(v) if isinstance(v, tuple) else v for k, v in values.items()},
        # Dynamic NTK goes by the length that it starts from, and has no other.
        context_length=formula.get(CONTEXT) or stretched.context_length,
        fresh=True,
    )


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that change, those of parts under the part; null for those that leave."""
    found: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict) and key not in HOLDERS:
            found |= {key: below} if (below := _difference(old, value)) else {}
        elif key not in before or old != value:
            found[key] = value
    return found


def _vllm_overrides(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    rope: Rotary,
    *,
    sequence_length: int,
) -> dict[str, Any] | None:
    """Return the --hf-overrides with which vLLM reads the table of an encoding; None without.

    vLLM sets them on the configuration that Transformers has loaded: there the base and the share
    are among the rope_parameters, which the override replaces at the top of a file, and adds to in
    a part.
    """
    overrides: dict[str, Any] = {}
    loaded = deepcopy(dict(before))
    for old, new in zip(parts(before), parts(after), strict=True):
        keys = _difference(old.keys.config, new.keys.config)
        if not keys:
            continue
        own = {key: value for key, value in keys.items() if key not in HOLDERS}
        own["rope_parameters"] = _rope_parameters(new.keys)
        path = [*filter(None, new.path.split("."))]
        place = reduce(getitem, path, loaded)
        if not path and new.keys.architecture.model_type != after.get("model_type"):
            path = ["text_config"]  # of an old file, whose keys are at the top
        kept = _rope_parameters(old.keys) if path else {}
        place |= {**own, "rope_scaling": None, "rope_parameters": kept | own["rope_parameters"]}
        overrides |= reduce(lambda value, name: {name: value}, reversed(path), own)
    same = reads_alike("vllm", loaded, rope, sequence_length=sequence_length)
    return overrides if same else None


def _rope_parameters(keys: Keys) -> dict[str, Any]:
    """Return the scaling keys of a part with what else Transformers collects among them."""
    found = {
        name: entry and {**entry, "rope_theta": entry["rope_theta"] or BASE}
        for name, entry in entries(keys).items()
    }
    for entry in filter(None, found.values()):
        collected = (SHARE, ORIGINAL) if entry.get("rope_type") in BY_ORIGINAL else (SHARE,)
        for key in collected:
            if keys.get(key) is not None:
                entry.setdefault(key, keys.get(key))
    return found.get("all") or found
