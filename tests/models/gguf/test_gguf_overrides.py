"""Values in place of those of a GGUF: its metadata, read again as llama.cpp reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from models.gguf.writer import divisors_of_llama3, float32, gguf, llama, model, save

from ropecli.errors import ArgumentError
from ropecli.models.load import compute, describe
from ropecli.models.model import Model
from ropecli.models.overrides import Overrides, override

PLAIN = llama(**{"rope.freq_base": 10_000.0})


def overridden(source: Path, layer: str | None = None, **values: Any) -> Model:
    """The model of a GGUF with other values."""
    got = override(describe(source), Overrides(**values), layer=layer)
    assert got.unwritable == "only a config.json can be written, and it is a GGUF"
    return compute(got.description)


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"base": 5e5}, {"rope.freq_base": 5e5}),
        ({"context_length": 8192}, {"context_length": 8192}),
        (
            {"rope_type": "yarn", "context_length": 16_384},
            {
                "rope.scaling.type": "yarn",
                "rope.scaling.factor": 4.0,
                "rope.scaling.original_context_length": 4096,
                "context_length": 16_384,
            },
        ),
        (
            {"rope_type": "linear", "parameters": {"factor": 2}},
            {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
        ),
    ],
)
def test_values_are_those_of_the_metadata(
    values: dict[str, Any], keys: dict[str, Any], tmp_path: Path
) -> None:
    got = overridden(save(tmp_path, gguf(PLAIN)), **values)
    named = {f"llama.{key}": value for key, value in keys.items()}
    wanted = compute(describe(save(tmp_path, gguf({**PLAIN, **named}), "wanted.gguf")))
    assert got.layer().rotary == wanted.layer().rotary
    assert got.layer().context_length == wanted.layer().context_length


def test_another_base_keeps_the_divisors_of_the_file(tmp_path: Path) -> None:
    """Like --rope-freq-base of llama.cpp: they are those of the old base."""
    divisors = divisors_of_llama3(32, 5e5)
    tensors = {"rope_freqs.weight": float32(divisors.tolist())}
    keys = llama(**{"rope.freq_base": 5e5, "rope.dimension_count": 64})
    made = overridden(save(tmp_path, gguf(keys, tensors)), base=1e6).layer().rotary
    assert made is not None
    wanted = 1e6 ** (-np.arange(32) / 32) / divisors.astype("f4")
    np.testing.assert_allclose(made.inv_freq, wanted, rtol=1e-14)  # a power and a division


def test_another_context_changes_no_frequency(tmp_path: Path) -> None:
    tensors = {"rope_freqs.weight": float32(divisors_of_llama3(32, 5e5).tolist())}
    keys = llama(**{"rope.freq_base": 5e5, "context_length": 131_072})
    path = save(tmp_path, gguf(keys, tensors))
    (before,), (after,) = compute(describe(path)).layers, overridden(path, context_length=9).layers
    assert (after.rotary, after.context_length) == (before.rotary, 9)
    yarn = llama(**{"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0})
    path = save(tmp_path, gguf(yarn))
    (before,) = compute(describe(path)).layers
    (after,) = overridden(path, context_length=16_384).layers
    assert (after.rotary, after.context_length) == (before.rotary, 16_384)


def test_a_gguf_is_not_written(tmp_path: Path) -> None:
    got = override(describe(save(tmp_path, gguf(PLAIN))), Overrides())
    assert got.unwritable == "only a config.json can be written, and it is a GGUF"


def test_layers_with_a_window_have_a_base_of_their_own(tmp_path: Path) -> None:
    keys = {"context_length": 4096, "embedding_length": 512, "attention.head_count": 8}
    keys |= {"block_count": 12, "attention.sliding_window": 512, "attention.key_length": 64}
    path = save(tmp_path, gguf(model("gemma3", {**keys, "rope.freq_base": 1e6})))
    made = overridden(path, "sliding_attention", base=2e4)
    assert {each.name: each.rotary.base for each in made.layers if each.rotary is not None} == {
        "full_attention": 1e6,
        "sliding_attention": 2e4,
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_type": "llama3", "parameters": {"factor": 8}}, "a GGUF has rope types default,"),
        ({"rope_type": "yarn"}, "rope type yarn needs factor; pass set factor=F, or context N"),
        ({"parameters": {"factor": 2.0}}, "rope type default has no parameter factor"),
        (
            {"rope_type": "yarn", "parameters": {"factor": 2.0, "mscale": 1.0}},
            "got mscale",
        ),
    ],
)
def test_what_a_gguf_has_no_key_for(values: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError) as refused:
        overridden(save(tmp_path, gguf(PLAIN)), **values)
    assert message in str(refused.value)
