"""Configurations as llama.cpp rotates by them, after its converter wrote a GGUF."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import for_each
from models.stacks.measured import KIMI_K2, lines
from numpy.typing import NDArray

from ropecli import FileError, Rotary, load_model
from ropecli.models.model import Layer

LINES = {line["name"]: line for line in lines("llama_cpp_config")}
FACTORS = 2e-6  #: Of a float32 sine and cosine, each within an ulp of 1, and a float32 factor.
#: Where there is nothing to compare, or with a difference that is meant.
WITHOUT = {
    "G:index:45597557903 (DISC-FinLLM, Baichuan2-13B-Chat)": "40 blocks are the 13B's: ALiBi",
    "modernbert thetas": "without `architectures`, it was converted as a Llama",
    "B:GEMMA3VL": "without `architectures`, it was converted as a Llama",
}


def measure(rope: dict[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
    angles, factors = measure(rope)
    table = rotary.diagonal_inv_freq
    turning = table[: len(angles)]
    if len(table) != rope["n_dims"] // 2 or np.any(table[len(angles) :] > 1e-9):
        return False
    # ggml multiplies its way from pair to pair: a rounding each, and that of the step again.
    tolerance = len(table) * 2.0**-23 * np.maximum(turning, 1e-9)
    apart = (turning - angles + np.pi) % (2 * np.pi) - np.pi  # angles were seen within a turn
    return bool(
        np.all(np.abs(apart) <= tolerance)
        and np.all(np.abs(factors / rotary.attention_factor - 1) < FACTORS)
    )


def blocks(rope: dict[str, Any]) -> set[int]:
    """Return the indices of the blocks that were seen to rotate so."""
    return {int(name.split("@")[0].rsplit("-", 1)[1]) for name in rope["names"]}


@for_each("name", [name for name in LINES if name not in WITHOUT])
def test_line(name: str) -> None:
    line = LINES[name]
    model = load_model(line["config"], reading="llama.cpp", sequence_length=line["sequence_length"])
    layers = [layer for layer in model.layers if layer.rotary and not layer.settings.part]
    count = 1 + max(max(blocks(rope)) for rope in line["ropes"])
    for rope in line["ropes"]:
        same = [layer.settings.layers for layer in layers if is_same(layer, rope)]
        assert same, rope["names"]
        turning = {i for each in same for i in (range(count) if each is None else each)}
        assert blocks(rope) == {i for i in turning if i < count}
    for layer in layers:
        assert any(is_same(layer, rope) for rope in line["ropes"]), layer.name


def test_nothing_without_a_rotation() -> None:
    thirteen = next(iter(WITHOUT))
    assert LINES[thirteen]["ropes"] == []
    with pytest.raises(FileError, match="no rotary position embedding"):
        load_model(LINES[thirteen]["config"], reading="llama.cpp")


YARN_OF_KIMI_K2 = {
    "type": "yarn",
    "factor": 64.0,
    "beta_fast": 1.0,
    "beta_slow": 1.0,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096,
}


def rotary(config: dict[str, Any], reading: str = "llama.cpp") -> Rotary:
    found = load_model(config, reading=reading).layer().rotary
    assert found is not None
    return found


def test_kimi_k2_s_betas_are_written_and_not_read() -> None:
    config = KIMI_K2 | {"rope_scaling": YARN_OF_KIMI_K2}
    here, there = rotary(config, "transformers").inv_freq, rotary(config).inv_freq
    assert 262_144 * np.abs(here - there).max() == pytest.approx(1560, abs=5)


HUNYUAN: dict[str, Any] = {"hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 1e4}
XDROPE = {"rope_type": "xdrope", "xdrope_section": [16, 16, 16, 16]}
#: ln of the original length would be 0.
ONE = {"type": "longrope", "original_max_position_embeddings": 1} | dict.fromkeys(
    ("short_factor", "long_factor"), [1.0] * 32
)
ALPHA = {"rope_type": "dynamic", "alpha": -1.0, "factor": 1.0}  # whose power would be complex


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "esm", "position_embedding_type": "rotary"},
            "no conversion to a GGUF is known for model_type 'esm'",
        ),
        (
            HUNYUAN | {"model_type": "hunyuan_vl", "head_dim": 128, "rope_scaling": XDROPE},
            r"needs rope_scaling\.alpha",
        ),
        (
            HUNYUAN | {"model_type": "hunyuan_v1_dense", "rope_scaling": ALPHA},
            r"alpha must be .*, got -1",
        ),
        ({"model_type": "deepseek_v4", "rope_theta": 1e4}, "needs compress_ratios"),
        (
            HUNYUAN | {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": -2.0}},
            r"^config\.json: llama\.rope\.scaling\.factor is -2\.0",
        ),
        (
            HUNYUAN
            | {"model_type": "phi3", "rope_scaling": ONE, "max_position_embeddings": 4096}
            | {"original_max_position_embeddings": 1},
            "original_max_position_embeddings must be at least 2, got 1",
        ),
    ],
)
def test_what_the_converter_refuses(config: dict[str, Any], message: str) -> None:
    with pytest.raises(FileError, match=message):
        load_model(config, reading="llama.cpp")
