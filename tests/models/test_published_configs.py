"""Configurations of released models, and what Transformers 5.23 computes from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from helpers import assert_within, for_each
from models.configs import published_configs

from ropecli.models.load import load_model
from ropecli.models.model import Layer

ENTRIES = list(published_configs().values())
#: The file holds float32 values of float32 powers, whose rounding ln(base) magnifies.
FREQUENCIES = 2e-6
#: Attention factors are rounded to nine digits and a float32's worth.
FACTORS = 1e-6
SUFFIX, FACTOR = "inv_freq", "attention_scaling"


def tables(entry: dict[str, Any]) -> Iterator[tuple[int | None, dict[str, Any], dict[str, Any]]]:
    """Sequence length, tables and attention factors, as named in the library's modules."""
    yield None, entry["inv_freq"], entry["attention_factor"]
    for length, values in entry.get("by_seq_len", {}).items():
        yield int(length), {SUFFIX: values["inv_freq"]}, {FACTOR: values["attention"]}


def test_file_is_whole() -> None:
    assert len(ENTRIES) == 49


@for_each("entry", ENTRIES)
def test_entry(entry: dict[str, Any]) -> None:
    for length, inv_freq, factors in tables(entry):
        layers = load_model(entry["config"], sequence_length=length).layers
        for key, table in inv_freq.items():
            prefix = key.removesuffix(SUFFIX)
            assert_same(layer_of(layers, prefix.rstrip("_")), table, factors.get(prefix + FACTOR))


def layer_of(layers: tuple[Layer, ...], name: str) -> Layer:
    return next(x for x in layers if x.rotary is not None and name in {"", x.name})


def assert_same(layer: Layer, table: list[float], factor: float | None) -> None:
    assert layer.rotary is not None
    got = layer.rotary.diagonal_inv_freq
    if layer.rotary.rope_type == "axial":  # the library holds one axis's table
        got = got[np.array(layer.rotary.axis) == 0]
    assert_within("inv_freq", got=got, expected=table, tolerance=FREQUENCIES * np.array(table))
    if factor is not None:
        got_factor = layer.rotary.attention_factor
        assert_within("factor", got=got_factor, expected=factor, tolerance=FACTORS)
