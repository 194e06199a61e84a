"""Files as released models have them: where keys stand, and which layers they are for."""

from __future__ import annotations

from typing import Any

import pytest

from ropecli import Rotary
from ropecli.errors import FileError
from ropecli.models.load import load_model

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
MROPE = {"type": "mrope", "mrope_section": [16, 24, 24]}


def layers(config: dict[str, Any]) -> dict[str, Rotary | None]:
    return {layer.name: layer.rotary for layer in load_model(config).layers}


def rotary(config: dict[str, Any], name: str = "all") -> Rotary:
    found = layers(config)[name]
    assert found is not None
    return found


def rotating(config: dict[str, Any]) -> tuple[int, ...]:
    """The layers that rotate, where some do not."""
    (kind,) = [layer for layer in load_model(config).layers if layer.rotary is not None]
    assert kind.settings.layers is not None
    return kind.settings.layers


def test_parts_by_their_place() -> None:
    """Qwen2-VL as released: text keys at the top, a vision part without a model_type."""
    config = {
        "model_type": "qwen2_vl",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "rope_theta": 1e6,
        "rope_scaling": MROPE,
        "vision_config": {"embed_dim": 1280, "hidden_size": 3584, "num_heads": 16},
    }
    assert set(rotary(config).axis) == {0, 1, 2}
    vision = rotary(config, "vision")
    assert (vision.head_dim, vision.rope_type, vision.layout) == (80, "axial", "half")


def test_part_with_its_parents_model_type() -> None:
    """Qwen2.5-VL as released."""
    config = {
        "model_type": "qwen2_5_vl",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "rope_scaling": MROPE,
        "vision_config": {"model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16},
    }
    assert rotary(config, "vision").head_dim == 80


def test_scaling_of_gemma_3_is_for_its_full_layers() -> None:
    """Gemma 3 4B as released: hardly a key, the rest are defaults of the class."""
    config = {
        "model_type": "gemma3",
        "text_config": {
            "model_type": "gemma3_text",
            "hidden_size": 2560,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    }
    full, sliding = rotary(config, "full_attention"), rotary(config, "sliding_attention")
    assert (full.head_dim, full.base, full.inv_freq[0]) == (256, 1e6, 0.125)
    assert (sliding.head_dim, sliding.base, sliding.inv_freq[0]) == (256, 1e4, 1.0)


def test_bases_of_modernbert() -> None:
    config = {
        "model_type": "modernbert",
        "global_rope_theta": 200_000.0,
        "local_rope_theta": 20_000.0,
    }
    assert rotary(config, "full_attention").base == 200_000.0
    assert rotary(config, "sliding_attention").base == 20_000.0


def test_compressed_layers_of_deepseek_v4_are_not_stretched() -> None:
    scaling = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65_536}
    config = {"model_type": "deepseek_v4", "compress_rope_theta": 2e5, "rope_scaling": scaling}
    main, compress = rotary(config, "main"), rotary(config, "compress")
    assert (main.rope_type, main.base, main.rotary_offset) == ("default", 1e4, 448)
    assert (compress.rope_type, compress.base, compress.attention_factor) == ("yarn", 2e5, 1.0)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"model_type": "cohere2", "sliding_window_pattern": 3}, (0, 1, 3, 4)),
        ({"model_type": "exaone4", "sliding_window_pattern": "LG"}, (0, 2, 4)),
        ({"model_type": "afmoe", "global_attn_every_n_layers": 2}, (0, 2, 4)),
        ({"model_type": "smollm3", "no_rope_layer_interval": 5}, (0, 1, 2, 3)),
        ({"model_type": "smollm3", "no_rope_layers": [0, 1, 0, 0, 1]}, (1, 4)),
        (
            {"model_type": "cohere2_moe", "first_k_dense_replace": 4, "sliding_window_pattern": 1},
            (0, 1, 2, 3),
        ),
        (
            {
                "model_type": "cohere2",
                "layer_types": ["full_attention"] * 3 + ["sliding_attention"] * 2,
            },
            (3, 4),
        ),
        ({"model_type": "granite_swa", "layer_rope_theta": [0, 1e4, 1e4, 0, 0]}, (1, 2)),
    ],
)
def test_layers_without_rotation(keys: dict[str, Any], expected: tuple[int, ...]) -> None:
    assert rotating({"num_hidden_layers": 5} | keys) == expected


def test_all_layers_rotate_without_a_sliding_window() -> None:
    keys = {"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": None}
    assert list(layers(keys)) == ["all"]


def test_layers_with_bases_of_their_own() -> None:
    found = layers({"model_type": "granite_swa", "layer_rope_theta": [1e4, 5e5, 0]})
    assert {name: r and r.base for name, r in found.items()} == {
        "rope-10000": 1e4,
        "rope-500000": 5e5,
        "nope": None,
    }


def test_layers_that_are_scaled() -> None:
    """Molmo 2."""
    config = LLAMA | {
        "model_type": "molmo2_text",
        "num_hidden_layers": 4,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_scaling_layers": [1, 3],
    }
    assert {layer.name: layer.settings.layers for layer in load_model(config).layers} == {
        "scaled": (1, 3),
        "unscaled": (0, 2),
    }
    assert rotary(config, "scaled").inv_freq[0] == 0.5
    assert rotary(config, "unscaled").inv_freq[0] == 1.0


def test_per_layer_config() -> None:
    types = ["sliding_attention", "full_attention"]
    config = {
        "model_type": "gemma4_text",
        "layer_types": types,
        "head_dim": 128,
        "per_layer_config": {"01": {"head_dim": 256}},
    }
    assert rotary(config, "sliding_attention").head_dim == 128
    assert rotary(config, "full_attention").head_dim == 256


@pytest.mark.parametrize(
    ("keys", "head_dim", "rotary_dim"),
    [
        ({"head_dim": 32}, 32, 32),
        ({"partial_rotary_factor": 0.5}, 16, 16),  # Llama's code does not read it
        ({"model_type": "stablelm", "partial_rotary_factor": 0.5}, 16, 8),
        ({"model_type": "gpt_neox", "rotary_pct": 0.5, "partial_rotary_factor": 1.0}, 16, 8),
        ({"model_type": "unknown_to_all", "partial_rotary_factor": 0.5}, 16, 8),
        ({"model_type": "minimax_m2", "head_dim": 128, "rotary_dim": 64}, 128, 64),
        ({"model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 24}, 32, 8),
        ({"model_type": "sam2_video", "memory_attention_hidden_size": 64}, 64, 64),
    ],
)
def test_sizes(keys: dict[str, Any], head_dim: int, rotary_dim: int) -> None:
    made = rotary(LLAMA | keys)
    assert (made.head_dim, made.rotary_dim) == (head_dim, rotary_dim)


def test_base_that_the_code_does_not_read() -> None:
    assert rotary({"model_type": "gpt_neox", "rope_theta": 5e5}).base == 1e4
    assert rotary({"model_type": "gpt_neox", "rotary_emb_base": 5e5}).base == 5e5
    assert rotary({"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}}).base == 1e4


@pytest.mark.parametrize(
    ("model_type", "layout", "written"),
    [
        ("deepseek_v3", "interleaved", [[128, 160], [129, 161]]),
        ("deepseek_v2", "interleaved", [[128, 129], [130, 131]]),
        ("minicpm3", "half", [[64, 80], [65, 81]]),
        ("glm4", "interleaved", [[0, 1], [2, 3]]),
        ("gemma4_vision", "custom", [[0, 16], [1, 17]]),
    ],
)
def test_layouts(model_type: str, layout: str, written: list[list[int]]) -> None:
    made = rotary({"model_type": model_type})
    assert made.layout == layout
    assert made.pairs_out[:2].tolist() == written


def test_axes_of_ernie() -> None:
    made = rotary({"model_type": "ernie4_5_vl_moe_text"})
    assert made.axis == (1, 2) * 22 + (0,) * 20


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "bert"},
        {"model_type": "esm"},
        {"model_type": "zamba2"},
        {"model_type": "wav2vec2-conformer"},
        {"model_type": "clvp_encoder", "use_rotary_embedding": False},
        {"model_type": "kimi_linear", "qk_rope_head_dim": 64},
        {"model_type": "", "spatial_rope_base_frequency": 20.0},
    ],
)
def test_no_rotation(keys: dict[str, Any]) -> None:
    with pytest.raises(FileError, match="no rotary position embedding found"):
        load_model(LLAMA | keys)


def test_rule_without_its_keys() -> None:
    message = "the head dim needs hidden_size // num_attention_heads; missing: num_attention_heads"
    with pytest.raises(FileError, match=message):
        load_model({"model_type": "of_mine", "hidden_size": 64, "rope_theta": 1e4})


def test_rule_with_too_many_heads() -> None:
    with pytest.raises(
        FileError, match="must be at least 1, got hidden_size // num_attention_heads"
    ):
        load_model(LLAMA | {"num_attention_heads": 128})


def test_nested_entries_that_leave_out_their_bases() -> None:
    """The code of Gemma 3 fills in kinds and bases; elsewhere null is no rotation."""
    nested = {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": None}
    config = {"model_type": "gemma3_text", "rope_parameters": nested}
    full, sliding = rotary(config, "full_attention"), rotary(config, "sliding_attention")
    assert (full.base, full.inv_freq[0]) == (1e6, 0.125)
    assert (sliding.base, sliding.inv_freq[0]) == (1e4, 1.0)
    named = config | {"rope_theta": 2e6, "rope_local_base_freq": 3e4}
    assert rotary(named, "full_attention").base == 2e6
    assert rotary(named, "sliding_attention").base == 3e4
    assert layers(LLAMA | {"rope_parameters": nested})["sliding_attention"] is None


def test_empty_parameters_are_plain_rope() -> None:
    """Null and absence leave the default of the class, YaRN; an empty object does not."""
    assert rotary({"model_type": "gpt_oss"}).rope_type == "yarn"
    assert rotary({"model_type": "gpt_oss", "rope_parameters": None}).rope_type == "yarn"
    plain = rotary({"model_type": "gpt_oss", "rope_parameters": {}})
    assert (plain.rope_type, plain.base) == ("default", 150_000.0)


@pytest.mark.parametrize(
    ("keys", "head_dim", "rotary_dim"),
    [
        ({}, 128, 64),
        ({"head_dim": None}, 64, 32),
        ({"partial_rotary_factor": None}, 128, 128),
        ({"head_dim": None, "partial_rotary_factor": None}, 64, 64),
    ],
)
def test_null_that_counts(keys: dict[str, Any], head_dim: int, rotary_dim: int) -> None:
    sizes = {"model_type": "glm", "hidden_size": 256, "num_attention_heads": 4}
    found = rotary(sizes | keys)
    assert (found.head_dim, found.rotary_dim) == (head_dim, rotary_dim)
