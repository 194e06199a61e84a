"""Configurations as llama.cpp rotates by them, after its converter wrote a GGUF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models.stacks.measured import lines
from numpy.typing import NDArray

from ropecli import FileError, Rotary, load_model
from ropecli.models.model import Layer

LINES = {line["name"]: line for line in lines("llama_cpp_config")}
FACTORS = 2e-6  #: Of a float32 sine and cosine, each within an ulp of 1, and a float32 factor.
#: Where there is nothing to compare, or with a difference that is meant.
WITHOUT = {
    "G:index:45597557903 (DISC-FinLLM, Baichuan2-13B-Chat)": "40 blocks are the 13B's: ALiBi",
    "G:index:67-7B (Baichuan2-7B, from its card)": (
        "the model that was measured has fewer blocks than the 32 by which the 7B is known"
    ),
    "modernbert thetas": "without `architectures`, it was converted as a Llama",
    "B:GEMMA3VL": "without `architectures`, it was converted as a Llama",
}


def measured(rope: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each pair's angle at position 1 on all axes together, and its factor."""
    angles: dict[int, float] = {}
    factors: dict[int, float] = {}
    for axis in rope["axes"]:
        for first, second, angle, factor in axis:
            if second >= 0:
                angles[first] = angles.get(first, 0.0) + angle
                factors[first] = factor
    order = sorted(angles)
    return np.array([angles[i] for i in order]), np.array([factors[i] for i in order])


def is_same(layer: Layer, rope: dict[str, Any]) -> bool:
    rotary = layer.rotary
    assert rotary is not None
    angles, factors = measured(rope)
    turning = rotary.inv_freq[: len(angles)]
    if len(rotary.inv_freq) != rope["n_dims"] // 2 or np.any(rotary.inv_freq[len(angles) :] > 1e-9):
        return False
    # ggml multiplies its way from pair to pair: a rounding each, and that of the step again.
    tolerance = len(rotary.inv_freq) * 2.0**-23 * np.maximum(turning, 1e-9)
    apart = (turning - angles + np.pi) % (2 * np.pi) - np.pi  # angles were seen within a turn
    return bool(
        np.all(np.abs(apart) <= tolerance)
        and np.all(np.abs(factors / rotary.attention_factor - 1) < FACTORS)
    )


@pytest.mark.parametrize("name", [name for name in LINES if name not in WITHOUT])
def test_line(name: str) -> None:
    line = LINES[name]
    model = load_model(line["config"], reading="llama.cpp", sequence_length=line["sequence_length"])
    layers = [layer for layer in model.layers if layer.rotary and not layer.settings.part]
    for rope in line["ropes"]:
        assert any(is_same(layer, rope) for layer in layers), rope["names"]
    for layer in layers:
        assert any(is_same(layer, rope) for rope in line["ropes"]), layer.name
    blocks = {
        int(name.split("@")[0].rsplit("-", 1)[1]) for r in line["ropes"] for name in r["names"]
    }
    assert blocks


def test_nothing_without_a_rotation() -> None:
    thirteen, seven, *_ = WITHOUT
    assert LINES[thirteen]["ropes"] == LINES[seven]["ropes"] == []
    with pytest.raises(FileError, match="no rotary position embedding"):
        load_model(LINES[thirteen]["config"], reading="llama.cpp")


KIMI_K2: dict[str, Any] = {
    "model_type": "kimi_k2",
    "hidden_size": 7168,
    "num_attention_heads": 64,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_theta": 50_000.0,
    "rope_scaling": {
        "type": "yarn",
        "factor": 64.0,
        "beta_fast": 1.0,
        "beta_slow": 1.0,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}


def rotary(config: dict[str, Any], reading: str = "llama.cpp") -> Rotary:
    found = load_model(config, reading=reading).layer().rotary
    assert found is not None
    return found


def test_kimi_k2_s_betas_are_written_and_not_read() -> None:
    here, there = rotary(KIMI_K2, "transformers").inv_freq, rotary(KIMI_K2).inv_freq
    assert 262_144 * np.abs(here - there).max() == pytest.approx(1560, abs=5)


def test_a_no_rope_list_is_not_written() -> None:
    config = {
        "model_type": "smollm3",
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "num_hidden_layers": 8,
        "no_rope_layers": [1] * 8,
    }
    assert [each.name for each in load_model(config).layers] == ["all"]
    kinds = {
        each.name: each.settings.layers for each in load_model(config, reading="llama.cpp").layers
    }
    assert kinds == {"rope": (0, 1, 2, 4, 5, 6), "nope": (3, 7)}


@pytest.mark.parametrize("model_type", ["stablelm", "gpt_neox", "falcon", "gemma", "orion", "phi"])
def test_a_base_that_the_converter_does_not_write(model_type: str) -> None:
    config = {
        "model_type": model_type,
        "hidden_size": 2048,
        "num_attention_heads": 16,
        "rope_theta": 500_000.0,
    }
    assert rotary(config).base == 10_000


def test_a_model_that_the_converter_does_not_have() -> None:
    config = {"model_type": "esm", "position_embedding_type": "rotary"}
    with pytest.raises(FileError, match="no conversion to a GGUF is known for model_type 'esm'"):
        load_model(config, reading="llama.cpp")
