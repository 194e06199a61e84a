"""Two models side by side: which fields differ, and by how many radians."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.configs import ALL, GEMMA_3, LLAMA_31, QWEN2_VL, SMOLLM3

from ropecli import ArgumentError, ArgumentTypeError, Model, Rotary, diff, load_model


def against(config: dict[str, Any], other: dict[str, Any] | None = None, **more: Any) -> Any:
    readings = more.pop("readings", (None, None))
    first = load_model(config, reading=readings[0])
    return diff(first, load_model(other or config, reading=readings[1]), **more)


def without_scaling(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "rope_scaling"}


@pytest.mark.parametrize("name", ALL)
def test_a_model_is_the_same_as_itself(name: str) -> None:
    result = against(ALL[name])
    assert result.same
    for layer in result.layers:
        assert (layer.a, layer.fields) == (layer.b, ())
        assert all(phase.max_radians == 0 for phase in layer.phase)
        assert set(layer.first_position_over.values()) == {None}


@given(st.integers(-(2**53), 2**53))
def test_a_phase_is_position_times_frequency_difference(position: int) -> None:
    result = against(LLAMA_31, without_scaling(LLAMA_31), positions=[position])
    (layer,) = result.layers
    one, two = (load_model(c).layer().rotary for c in (LLAMA_31, without_scaling(LLAMA_31)))
    assert one is not None
    assert two is not None
    apart = np.abs(one.inv_freq - two.inv_freq)
    (phase,) = layer.phase
    assert phase.max_radians == abs(position) * apart.max()
    assert phase.pair == apart.argmax()
    for limit, first in layer.first_position_over.items():
        assert first is not None
        assert first * apart.max() > float(limit) >= (first - 1) * apart.max()


def test_lists_of_factors_are_named_by_their_key() -> None:
    scaling = {"rope_type": "longrope", "short_factor": [1.0] * 32, "long_factor": [4.0] * 32}
    short = LLAMA_31 | {"head_dim": 64, "original_max_position_embeddings": 4096}
    other = scaling | {"long_factor": [5.0] * 32}
    result = against(short | {"rope_scaling": scaling}, short | {"rope_scaling": other})
    assert result.layers[0].fields[0].name == "long_factor"
    assert "long_factor  32 numbers  32 numbers  a parameter of the rope type" in str(result)


def test_kinds_of_layers_are_matched_by_name() -> None:
    other = GEMMA_3 | {"rope_local_base_freq": 20_000.0}
    layers = against(GEMMA_3, other).layers
    full, sliding = sorted(layers, key=lambda layer: str(layer.a))
    assert (full.a, full.b, full.same) == ("full_attention", "full_attention", True)
    assert (sliding.a, sliding.same) == ("sliding_attention", False)


def test_a_layer_without_position_differs_from_one_with() -> None:
    everywhere = SMOLLM3 | {"no_rope_layers": [1] * 8}
    result = against(SMOLLM3, everywhere)
    rope, nope = result.layers
    assert rope.same
    assert not nope.same
    assert [(f.name, f.a, f.b) for f in nope.fields] == [("rope_type", "none", "default")]
    assert nope.phase == ()


def test_layout_direction_and_factors_matter_and_names_do_not() -> None:
    scaled = LLAMA_31 | {
        "rope_scaling": {"rope_type": "linear", "factor": 1.0},
        "rope_interleave": True,
        "model_type": "other",  # Llama's own code does not read rope_interleave
    }
    (layer,) = against(without_scaling(LLAMA_31), scaled).layers
    assert {f.name: f.matters for f in layer.fields} == {
        "rope_type": False,
        "layout": True,  # read in pairs, written in halves: what is written is the same
    }
    assert not any(layer.per_pair)


def test_another_order_of_queries_and_keys_does_not_matter() -> None:
    """DeepSeek-V3 is rotated in pairs by both; Transformers writes them in halves."""
    deepseek = {
        "model_type": "deepseek_v3",
        "hidden_size": 512,
        "num_attention_heads": 4,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "num_hidden_layers": 1,
        "max_position_embeddings": 4096,
    }
    (layer,) = against(deepseek, readings=("transformers", "vllm")).layers
    (field,) = layer.fields
    assert (field.name, field.a, field.b) == ("output", "reordered", "interleaved")
    assert not field.matters


def test_the_other_direction_moves_away_at_twice_the_frequency() -> None:
    model = load_model(LLAMA_31)
    (layer,) = model.layers
    ropes = [Rotary(head_dim=8, direction=direction) for direction in ("forward", "reversed")]
    one, two = (replace(model, layers=(replace(layer, rotary=rope),)) for rope in ropes)
    (difference,) = diff(one, two).layers
    assert list(difference.per_pair) == (2 * ropes[0].inv_freq).tolist()


def test_a_pair_that_one_lacks_does_not_turn_there() -> None:
    partial = LLAMA_31 | {"model_type": "stablelm", "partial_rotary_factor": 0.5}
    partial["rope_scaling"] = None  # Llama itself reads no partial_rotary_factor
    (layer,) = against(without_scaling(LLAMA_31), partial).layers
    assert len(layer.per_pair) == 64
    plain = load_model(without_scaling(LLAMA_31)).layer().rotary
    assert plain is not None
    assert list(layer.per_pair[32:]) == plain.inv_freq[32:].tolist()


def test_float32_tables_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_31 | {"rope_theta": 500_000.1}))  # 2e-7 of the base
    assert against(LLAMA_31, json.loads(path.read_text())).same
    assert diff(load_model(LLAMA_31), path).same
    assert diff(str(path), str(path)).same
    assert not against(LLAMA_31, LLAMA_31 | {"rope_theta": 500_010}).same


def test_what_is_refused() -> None:
    model = load_model(LLAMA_31)
    with pytest.raises(ArgumentTypeError, match="b must be a Model or a path, got dict"):
        diff(model, LLAMA_31)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match=r"positions must be integers, got 0\.5"):
        diff(model, model, positions=[0.5])  # type: ignore[list-item]
    with pytest.raises(ArgumentError, match=r"positions must be at most 2\^53"):
        diff(model, model, positions=[2**53 + 1])
    assert isinstance(model, Model)


def test_a_part_that_one_side_does_not_have_is_not_compared() -> None:
    """mlx-lm runs the text of Qwen2-VL: its axes differ, and vision has no counterpart."""
    config = QWEN2_VL | {"num_key_value_heads": 4}
    result = diff(load_model(config), load_model(config, reading="mlx-lm"))
    assert [(layer.a, layer.b) for layer in result.layers] == [("all", "all")]
    assert [field.name for field in result.layers[0].fields] == ["axis"]
