"""Files that a stack refuses, and files that say nothing about RoPE."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_refused, for_each, soon
from models.configs import DEEPSEEK_V3, DYNAMIC, GPT_OSS, LLAMA_31, SMOLLM3

from ropecli import FileError, load_model

Config = dict[str, Any]
ORIGINAL = "original_max_position_embeddings"
SIZES: Config = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512}
LLAMA: Config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32}
MIXTRAL: Config = LLAMA | {"model_type": "mixtral", "rope_theta": 1e6}
HUNYUAN: Config = {"hidden_size": 1024, "num_attention_heads": 16, "rope_theta": 1e4}
YARN: Config = {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 8192}
LINEAR: Config = {"rope_type": "linear", "factor": 4.0}
SHARE, MLP = "partial_rotary_factor", "mlp_layer_types"
FULL: Config = {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}
XDROPE = {"rope_type": "xdrope", "xdrope_section": [16, 16, 16, 16]}
#: ln of the original length would be 0.
ONE = {"type": "longrope", ORIGINAL: 1} | dict.fromkeys(("short_factor", "long_factor"), [1.0] * 32)
ALPHA = {"rope_type": "dynamic", "alpha": -1.0, "factor": 1.0}  # whose power would be complex
NONE = "no rotary position embedding found"

NAME = "m" * 201
LONG = "names may have at most 200 letters, got 'mmmmmmmmmmmmmmmmmmmm'... of 201$"


def scaled(**scaling: Any) -> Config:
    return LLAMA | {"rope_theta": 1e4, "rope_scaling": scaling}


def rescaled(config: Config, **more: Any) -> Config:
    return config | {"rope_scaling": config["rope_scaling"] | more}


#: By stack: configurations, and what is said of them.
REFUSED: dict[str, list[tuple[Config, str]]] = {
    "transformers": [
        # What the class of a model_type does not take.
        (
            MIXTRAL | {"rope_scaling": YARN, "head_dim": None},
            "rope type yarn needs head_dim next to it .model_type mixtral.",
        ),
        (
            LLAMA | {"max_position_embeddings": 40960.0, "rope_theta": 1e4},
            "max_position_embeddings is 40960.0, and must be an integer .model_type llama.",
        ),
        (
            MIXTRAL | {"model_type": "qwen3", "head_dim": None},
            "head_dim is null, and must be an integer .model_type qwen3.",
        ),
        (
            {"model_type": "modernbert", "rope_parameters": {"rope_theta": 1e4}},
            "rope_parameters is one object, and must have one for each layer type",
        ),
        (
            MIXTRAL | {"model_type": "qwen3", "num_hidden_layers": 4, "layer_types": ["full"] * 3},
            "layer_types has 3 entries for 4 layers .model_type qwen3.",
        ),
        *(
            (keys, f"{why} .model_type {keys['model_type']}.")
            for keys, why in (
                (
                    {"model_type": "exaone_moe", "num_hidden_layers": 4, MLP: ["dense"] * 3},
                    "mlp_layer_types has 3 entries for 4 layers",
                ),
                (
                    {"model_type": "gemma4_text", "num_hidden_layers": 6}
                    | {"per_layer_config": {"5": {"head_dim": 512}, "11": {"head_dim": 512}}},
                    "per_layer_config has layer 11, and there are 6 layers",
                ),
                (
                    LLAMA | {"num_key_value_heads": True},
                    "num_key_value_heads is True, and must be an integer or null",
                ),
                (
                    LLAMA | {"num_key_value_heads": []},
                    r"num_key_value_heads is \[\], and must be an integer or null",
                ),
                (
                    {"model_type": "cwm", "num_attention_heads": 7},
                    "hidden_size 6144 is not a multiple of num_attention_heads 7",
                ),
                (
                    {"model_type": "gemma4_text", "rope_scaling": None, "rope_theta": 1e4},
                    "rope_scaling is null, which leaves its class without scaling keys that it .*",
                ),
                (
                    {"model_type": "zaya", "rope_parameters": {}},
                    "rope_parameters is {}, which leaves its class without scaling keys that it .*",
                ),
                (
                    {"model_type": "lfm3", "rope_parameters": {**FULL, "sliding_attention": None}},
                    "rope_parameters is null for layer type sliding_attention",
                ),
            )
        ),
        (
            {"model_type": "mistral3", "text_config": LLAMA, "rope_scaling": YARN},
            "rope type yarn needs max_position_embeddings next to it "
            ".at the top of the file, where model_type mistral3 reads no rope type: text_config",
        ),
        (
            LLAMA | {"model_type": "recurrent_gemma", "rope_scaling": YARN},
            "rope type yarn is not one that its class takes .model_type recurrent_gemma.",
        ),
        (
            {"model_type": "step3p5", "head_dim": 128, "rope_theta": [5e6, 1e4]},
            "a list as rope_theta needs layer_types",
        ),
        (
            {"model_type": "of_mine", "hidden_size": 64, "rope_theta": 1e4},
            "the head dim needs hidden_size // num_attention_heads; missing: num_attention_heads",
        ),
        (
            LLAMA | {"num_attention_heads": 8192, "rope_theta": 1e4},
            "must be at least 1, got hidden_size // num_attention_heads",
        ),
        # A table that its attention does not take.
        *(
            (keys | {"rope_theta": 1e4}, why)
            for keys, why in (
                (
                    LLAMA | {"partial_rotary_factor": 0.5, "rope_scaling": LINEAR},
                    "table is for 128 coordinates, of which partial_rotary_factor leaves 64, and",
                ),
                (
                    {"model_type": "deepseek_v2", "rope_scaling": LINEAR | {SHARE: 0.5}},
                    "table is for 64 coordinates, of which partial_rotary_factor leaves 32, and",
                ),
                (
                    {"model_type": "glm4_moe_lite", "partial_rotary_factor": 0.5},
                    "table is for 64 coordinates, of which partial_rotary_factor leaves 32, and",
                ),
                (
                    {"model_type": "deepseek_v3", "head_dim": 192},
                    "table is for 192 coordinates, and its attention rotates 64",
                ),
                (
                    {"model_type": "deepseek_v3", "head_dim": None},
                    "table is for 56 coordinates, and its attention rotates 64",
                ),
                (
                    {"model_type": "longcat_flash", "qk_rope_head_dim": 32},
                    "table is for 64 coordinates, and its attention rotates 32",
                ),
                (
                    {"model_type": "mistral4", "rope_parameters": {"rope_type": "default"}},
                    "table is for 128 coordinates, and its attention rotates 64",
                ),
                (
                    {"model_type": "qwen2_5_vl_vision", "hidden_size": 1000, "num_heads": 16},
                    "the head dim must be a multiple of 4 for two axes, got 62",
                ),
            )
        ),
        # No key is about RoPE, or one says that positions are given in another way.
        *(
            (SIZES | {"model_type": each}, NONE)
            for each in (None, "dinov2", "detr", "sam_vision_model", "speecht5")
        ),
        *(
            (LLAMA | {"rope_theta": 5e5} | keys, NONE)
            for keys in (
                {"model_type": "bert"},
                {"model_type": "mystery", "position_embedding_type": "absolute"},
                {"model_type": "esm"},
                {"model_type": "zamba2"},
                {"model_type": "wav2vec2-conformer"},
                {"model_type": "clvp_encoder", "use_rotary_embedding": False},
                {"model_type": "kimi_linear", "qk_rope_head_dim": 64},
                {"model_type": "", "spatial_rope_base_frequency": 20.0},
            )
        ),
        *(
            (SIZES | {"model_type": kind, "rope_theta": 1e4, "num_hidden_layers": 40}, why)
            for kind, why in (
                ("lightglue", "learned projections"),
                ("vjepa2", "the other layout"),
                ("nemotron_h", "model_type 'nemotron_h' has none, and does not read rope_theta$"),
                ("baichuan", "'baichuan' rotates where num_hidden_layers is 32, got 40$"),
            )
        ),
        (SIZES | {"model_type": "nemotron_h"}, "model_type 'nemotron_h' has none$"),
        (
            {"text_config": SIZES | {"model_type": "bloom", "rope_theta": 1e4}},
            "'bloom' has none, and does not read rope_theta$",
        ),
        ({"spatial_rope_base_frequency": 20.0}, "is for a rotation by place in space$"),
        ({"model_type": "mystery"}, "no rope_theta, rope_scaling or rope_parameters, and model_ty"),
        *(
            (SIZES | {"rope_theta": 10_000, "rope_scaling": None} | model_type | keys, f"{why}$")
            for model_type in ({}, {"model_type": "granitemoehybrid"})
            for keys, why in (
                ({"position_embedding_type": "nope"}, "position_embedding_type is 'nope'"),
                ({"position_embedding_type": "nope", "text_config": {}}, "type is 'nope'"),
                ({"alibi": True}, f"{NONE}: alibi is true"),
                ({"use_mem_rope": False}, f"{NONE}: use_mem_rope is false"),
            )
        ),
        *(
            (LLAMA | {"rope_theta": 1e4} | keys, f"Transformers refuses it: {why}")
            for keys, why in (
                ({"rope_theta": None}, "rope_theta is null"),
                ({"rope_scaling": {"type": None}}, "rope_type is null"),
                ({"rope_scaling": {"type": "su", "factor": 2.0}}, "rope type 'su' is not one of"),
                ({"rope_scaling": {"rope_type": "yarn"}}, "rope type yarn needs factor"),
                ({"rope_scaling": YARN | {ORIGINAL: None}}, f"{ORIGINAL} is null"),
                (
                    {"rope_scaling": YARN | {"partial_rotary_factor": None}},
                    "partial_rotary_factor is null",
                ),
                ({"hidden_size": 4098}, "hidden_size 4098 is not a multiple"),
                ({"head_dim": 91}, "the head dim must be even, got 91"),
            )
        ),
        # Numbers that no formula takes, and names as long as a page.
        (rescaled(GPT_OSS, llama_4_scaling_beta=10**400), "beta must be finite"),
        (rescaled(GPT_OSS, llama_4_scaling_beta=1e400), "beta must be finite"),
        (rescaled(DEEPSEEK_V3, mscale_all_dim=1e308), "must leave the score finite"),
        (rescaled(GPT_OSS, beta_fast=1e308), "no finite value"),
        (
            SMOLLM3 | {"attn_temperature_tuning": True, "attn_scale": 0.1, "floor_scale": -1},
            "floor_scale must be finite and above 0, got -1",
        ),
        (LLAMA | {"model_type": NAME, "rope_theta": 1e4}, LONG),
        (LLAMA | {"model_type": "mystery", "rope_parameters": {NAME: {"rope_theta": 1e4}}}, LONG),
        (LLAMA | {f"{NAME}_config": LLAMA | {"rope_theta": 1e4}}, LONG),
    ],
    "vllm": [
        (scaled(type="linear", rope_type="yarn", factor=4.0), "type 'linear' with rope_type"),
        (scaled(rope_type="linear", factor=4), "factor must be written with a decimal point"),
        (scaled(rope_type="mrope"), "rope_type mrope needs mrope_section"),
        (scaled(rope_type="dynamic"), "needs factor"),
        (scaled(rope_type="yarn", factor=4.0, beta_fast=None), "beta_fast"),
        (scaled(rope_type="deepseek_yarn", factor=4.0), f"needs {ORIGINAL}"),
        (rescaled(DYNAMIC, factor=1e308), "alpha must be finite"),
    ],
    "mlx-lm": [
        (rescaled(DEEPSEEK_V3, mscale_all_dim=-1e308), "must leave the score finite"),
        *(
            (keys, f"mlx-lm 0.32.2 refuses this file: {why}")
            for keys, why in (
                ({"model_type": "falcon"}, "it has no model class for model_type 'falcon'"),
                (
                    {"model_type": "llama", "hidden_size": 64},
                    "its class llama needs num_attention_heads",
                ),
                ({"model_type": "gemma3"}, "text_config must be an object"),
                (
                    LLAMA_31 | {"rope_scaling": {"type": "su", "factor": 2.0}},
                    "rope_type 'su' is not one of default, linear, ",
                ),
                (
                    SMOLLM3 | {"num_hidden_layers": 4, "no_rope_layers": [1] * 5},
                    "no_rope_layers must have 4 entries, got 5",
                ),
            )
        ),
    ],
    "llama.cpp": [
        (
            {"model_type": "glm4", "head_dim": 64, "partial_rotary_factor": 1e308},
            "the rotated share of the head dim must be finite, got inf",
        ),
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
            | {ORIGINAL: 1},
            f"{ORIGINAL} must be at least 2, got 1",
        ),
    ],
}


@for_each("stack, config, message", [(s, *row) for s, rows in REFUSED.items() for row in rows])
def test_what_is_refused(stack: str, config: Config, message: str) -> None:
    with pytest.raises(FileError, match=message):
        load_model(config, reading=stack)


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        LLAMA
        | {"model_type": "granite_swa", "layer_rope_theta": [10_000 + i for i in range(65_536)]},
        LLAMA
        | {"model_type": "mystery"}
        | {"rope_parameters": {f"kind {i}": {"rope_theta": 1e4} for i in range(30_000)}},
        LLAMA | {f"k{i}_config": LLAMA | {"rope_theta": 1e4} for i in range(20_000)},
        LLAMA
        | {
            "rope_theta": [10_000 + i for i in range(65_536)],
            "layer_types": [f"kind {i}" for i in range(65_536)],
        },
    ],
    ids=["bases", "nested", "parts", "list"],
)
def test_every_layer_a_kind_of_its_own(config: Config) -> None:
    # A tenth of a second; without the limit it would be 20.
    with soon(), pytest.raises(FileError, match="at most 64 kinds of layers"):
        load_model(config)


def test_inspect_ends_with_1(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SIZES | {"model_type": "dinov2"}))
    message = assert_refused("inspect", path, code=1)
    assert "model_type 'dinov2' is not known to have one" in message
    assert_refused("diff", path, path, code=2)


def test_a_base_of_null_leaves_a_class_its_own_scaling() -> None:
    layers = load_model({"model_type": "ultrabert", "rope_theta": None}).layers
    assert {layer.rotary.base for layer in layers if layer.rotary} == {1e4, 2_560_000.0}
    with pytest.raises(FileError, match="rope_theta is 10000, which leaves its class without"):
        load_model({"model_type": "ultrabert", "rope_theta": 10_000})


def test_a_share_that_a_class_does_not_read_is_not_refused() -> None:
    layers = load_model({"model_type": "mellum", "partial_rotary_factor": 0.5}).layers
    assert {layer.rotary.rotary_dim for layer in layers if layer.rotary} == {128}
