"""Readings of models as text: what each kind of layer rotates by, for golden files."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from ropecli import Model, Rotary
from ropecli.models.model import Layer


def rotation(rope: Rotary) -> Iterator[str]:
    """Yield lines with all that tells one rotation from another, numbers in seven digits."""
    place = f"{rope.rotary_dim} of {rope.head_dim} from {rope.rotary_offset}"
    base = "no base" if rope.base is None else f"base {rope.base:.10g}"
    pairs = [table[:2].tolist() for table in (rope.pairs_in, rope.pairs_out)]
    where = f"pairs {pairs[0]}" + (f", written {pairs[1]}" if rope.reorders else "")
    yield f"  {rope.rope_type}, {base}, {rope.layout}, {rope.direction}, {place}, {where}"
    table = rope.diagonal_inv_freq
    frequencies = f"{table[0]:.7g} to {table[-1]:.7g}, in all {table.sum():.7g}"
    axes = f"; axes {runs(rope.axis)}" if rope.axes > 1 and rope.axis is not None else ""
    yield f"  {frequencies}; factors {rope.attention_factor:.7g}, {rope.softmax_factor:.7g}{axes}"


def runs(axis: Iterable[int]) -> str:
    """Return the axes of pairs, runs as one."""
    groups = ((number, len([*members])) for number, members in itertools.groupby(axis))
    return " ".join(f"{number} x {count}" for number, count in groups)


def layer_lines(layer: Layer) -> Iterator[str]:
    """Yield the lines of a kind of layer."""
    settings = layer.settings
    where = "" if settings.layers is None else f" {list(settings.layers)}"
    lengths = (layer.context_length, layer.original_context_length, settings.window)
    temperature = f", {settings.temperature}" if settings.temperature else ""
    yield f"{layer.name}{where}, lengths {lengths}{temperature}"
    yield from ["  no rotation"] if layer.rotary is None else rotation(layer.rotary)
    yield from (f"  assumed: {sentence}" for sentence in settings.assumed)


def reading(model: Model) -> str:
    """Return all layers of a model as text."""
    return "\n".join(line for layer in model.layers for line in layer_lines(layer))


def title(config: dict[str, Any]) -> str:
    """Return the beginning of a configuration as a heading."""
    text = json.dumps(config)
    return text if len(text) < 300 else f"{text[:300]}..."
