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
