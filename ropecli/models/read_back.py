"""A configuration that is to be written, read as it will be read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ropecli.analyses.scale import ROUNDING
from ropecli.errors import ArgumentError, RopecliError
from ropecli.models.load import compute, describe_config
from ropecli.models.model import Layer, Model
from ropecli.models.settings import Description
from ropecli.models.stacks import STACKS
from ropecli.rotary import Rotary

#: What must be the same, by name. The first that differs is reported.
_FIELDS = ("frequencies", "attention_factor", "softmax_factor")


def check_read_back(
    described: Description, layers: Sequence[Layer], *, sequence_length: int | None
) -> None:
    """Refuse a configuration that gives other tables than those that are shown."""
    read = {layer.name: layer for layer in _read(described, None, sequence_length).layers}
    for shown in layers:
        if shown.settings.is_indexer:
            continue
        got = read.get(shown.name)
        what = "rotation" if got is None else _difference(shown, got)
        if what is not None:
            kind = f"model_type {described.model_type}" if described.model_type else "this file"
            raise ArgumentError(f"no keys of {kind} give layer {shown.name} the {what} shown")


def readings(
    raw: Mapping[str, Any], rope: Rotary, *, sequence_length: int | None
) -> dict[str, bool | None]:
    """Return by stack whether it reads the table of an encoding from a configuration."""
    return {
        f"{stack.name} {stack.version}": reads_alike(
            stack.name, raw, rope, sequence_length=sequence_length
        )
        for stack in STACKS.values()
        if stack.version is not None
    }


def reads_alike(
    stack: str, raw: Mapping[str, Any], rope: Rotary, *, sequence_length: int | None
) -> bool | None:
    """Return whether a stack reads the table of an encoding; None where it refuses the file."""
    try:
        read = _read(describe_config("config.json", raw), stack, sequence_length).layers
    except RopecliError:
        return None
    return any(_alike(rope, layer.rotary) for layer in read if layer.rotary is not None)


def _read(described: Description, reading: str | None, sequence_length: int | None) -> Model:
    again = describe_config(described.source, json.loads(json.dumps(described.raw)))
    return compute(again, sequence_length=sequence_length, reading=reading)


def _alike(one: Rotary, other: Rotary) -> bool:
    """True if two encodings have one table, but for the rounding of formulas written otherwise."""
    ours, its = ([*rope.diagonal_inv_freq, rope.attention_factor] for rope in (one, other))
    return len(ours) == len(its) and bool(np.allclose(ours, its, rtol=ROUNDING, atol=0))


def _difference(shown: Layer, got: Layer) -> str | None:
    """Return what differs between two layers; None where nothing does."""
    ours, its = shown.rotary, got.rotary
    for name in () if ours is None or its is None else _FIELDS:
        if getattr(ours, name) != getattr(its, name):
            return name.replace("_", " ")
    if ours != its:
        return "pairs"
    return None if shown.settings.temperature == got.settings.temperature else "temperature"
