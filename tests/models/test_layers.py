"""The meaning of a configuration: its keys, the layers that they are for, and assumptions."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from golden import assert_golden
from models.configs import DEEPSEEK_V3, GEMMA_3, GPT_OSS, LLAMA_31, QWEN2_VL, SMOLLM3
from models.readings import reading, title

from ropecli import Rotary
from ropecli.errors import ArgumentError, FileError
from ropecli.models.keys import ALIASES
from ropecli.models.load import load_model
from ropecli.models.model import heads_of

LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5e5}
SLIDING = "sliding_attention"
FULL = "full_attention"
NESTED = {FULL: {"rope_type": "linear", "factor": 8.0}, SLIDING: None}
GEMMA = {"model_type": "gemma3_text", "rope_parameters": NESTED}
#: Gemma 3 4B as released: hardly a key, the rest are defaults of the class.
GEMMA_3_4B = {
    "model_type": "gemma3",
    "text_config": {
        "model_type": "gemma3_text",
        "hidden_size": 2560,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    },
}
MODERNBERT = {"model_type": "modernbert", "global_rope_theta": 2e5, "local_rope_theta": 2e4}
DEEPSEEK_V4 = {
    "model_type": "deepseek_v4",
    "compress_rope_theta": 2e5,
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65_536},
}
LONGROPE = {
    "rope_type": "longrope",
    "factor": 8.0,
    "original_max_position_embeddings": 4096,
    "partial_rotary_factor": 0.25,  # not read
    **dict.fromkeys(("short_factor", "long_factor"), [2.0] * 128),
}
PLAIN = {"rope_type": "default", "rope_theta": 123.0}
PROPORTIONAL = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
QWENS = ("qwen3_5_text", "qwen4_exp_text")
MOLMO_2 = LLAMA | {
    "model_type": "molmo2_text",
    "num_hidden_layers": 4,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "rope_scaling_layers": [1, 3],
}
LOCAL = LLAMA | {
    "model_type": "mystery",
    "rope_local_base_freq": 3e4,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}
PER_LAYER = {
    "model_type": "gemma4_text",
    "layer_types": [SLIDING, FULL],
    "head_dim": 128,
    "per_layer_config": {"01": {"head_dim": 256}},
}
STEP = {
    "model_type": "step3p5",
    "head_dim": 128,
    "layer_types": [FULL, SLIDING, SLIDING],
    "rope_theta": [5e6, 1e4, 1e4],
    "partial_rotary_factors": [0.5, 1.0, 1.0],
    "max_position_embeddings": 262_144,
    "rope_scaling": LLAMA_31["rope_scaling"] | {"factor": 2.0, "high_freq_factor": 32.0},
}
OSS = {"model_type": "gpt_oss"}
GLM = {"model_type": "glm", "hidden_size": 256, "num_attention_heads": 4}
MAYBE = (None, False, True)
GRANITE = {"model_type": "granite_swa", "layer_rope_theta": [1e4, 5e5, 0]}
KINDS = ((SLIDING, 1e4), (FULL, 1e6))
BARE = {"hidden_size": 64, "num_attention_heads": 4}


def layers(config: dict[str, Any]) -> dict[str, Rotary | None]:
    return {layer.name: layer.rotary for layer in load_model(config).layers}


def rotary(config: dict[str, Any], name: str = "all") -> Rotary:
    found = layers(config)[name]
    assert found is not None
    return found


FIVE: dict[str, Any] = {"num_hidden_layers": 5}


def length_of_yarn(model_type: str, inner: int | None) -> dict[str, Any]:
    """A file with YaRN, an original length at the top level, and maybe one among its keys."""
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0}
    if inner is not None:
        yarn["original_max_position_embeddings"] = inner
    own = {"model_type": model_type, "original_max_position_embeddings": 2048}
    return LLAMA_31 | own | {"rope_scaling": yarn}


def by_layer_type(config: dict[str, Any]) -> dict[str, Any]:
    """The same with its scaling keys under a layer type."""
    entry = config["rope_scaling"] | {"rope_theta": 1e4}
    rest = {key: value for key, value in config.items() if key != "rope_scaling"}
    return rest | {"layer_types": [FULL] * 32, "rope_parameters": {FULL: entry}}


READ: list[dict[str, Any]] = [
    # A part by its place, without a model_type, and with that of the whole.
    QWEN2_VL,
    QWEN2_VL | {"vision_config": {"embed_dim": 1280, "num_heads": 16}},
    QWEN2_VL
    | {"model_type": "qwen2_5_vl"}
    | {"vision_config": {"model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16}},
    # Keys next to a text model are not read.
    {"model_type": "llava", "text_config": LLAMA_31, "rope_theta": 7e5},
    {"model_type": "my_vl", "text_config": LLAMA_31, "rope_scaling": {"rope_type": "yarn"}},
    # Scaling is for Gemma 3's full layers alone; its code fills in kinds and bases.
    GEMMA_3,
    GEMMA_3_4B,
    GEMMA,
    GEMMA | {"rope_theta": 2e6},
    GEMMA | {"rope_local_base_freq": 3e4},
    LLAMA | {"model_type": "mystery", "rope_parameters": NESTED},  # where null is no rotation
    # Null and absence leave the default of the class, YaRN; an empty object does not.
    OSS,
    OSS | {"rope_parameters": None},
    OSS | {"rope_parameters": {}},
    # A truncate of null is as good as false.
    *(GPT_OSS | {"rope_scaling": GPT_OSS["rope_scaling"] | {"truncate": each}} for each in MAYBE),
    DEEPSEEK_V4,  # whose compressed layers are not stretched
    DEEPSEEK_V4 | {"qk_rope_head_dim": 128, "head_dim": 256},
    # The share is that of all layers, and LongRoPE has its attention factor.
    DEEPSEEK_V4 | {"partial_rotary_factor": 0.5, "rope_scaling": LONGROPE},
    # Flat keys are for all layer types, an empty object too.
    *({"model_type": "dots3_note_text", "rope_parameters": each} for each in ({}, PLAIN)),
    # The sections are for the pairs that rotate, of all pairs of a head.
    *({"model_type": each, "rope_parameters": PROPORTIONAL} for each in QWENS),
    LOCAL,  # a local base in an unknown model: its scaling is for the full layers
    MODERNBERT,
    MODERNBERT | {"position_embedding_type": "absolute"},  # not read
    MOLMO_2,
    PER_LAYER,
    STEP,
    GRANITE,
    SMOLLM3,
    DEEPSEEK_V3,  # the end of a head is rotated, and written in halves
    # Bases: aliases, a factor, and keys that the code does not read.
    BARE | {"rotary_emb_base": 5000},
    BARE | {"rope_theta": 5000},
    BARE | {"rope_ratio": 50},
    BARE | {"rope_ratio": 50, "rope_theta": 12_345},
    {"model_type": "gpt_neox", "rope_theta": 5e5},
    {"model_type": "gpt_neox", "rotary_emb_base": 5e5},
    {"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}},
    {"model_type": "ernie4_5_vl_moe_text"},
    # Layers that slide, and those that rotate.
    {"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": None},
    FIVE | {"model_type": "cohere2", "sliding_window_pattern": 3},
    FIVE | {"model_type": "cohere2", "layer_types": [FULL] * 3 + [SLIDING] * 2},
    FIVE | {"model_type": "exaone4", "sliding_window_pattern": "LG"},
    FIVE | {"model_type": "afmoe", "global_attn_every_n_layers": 2},
    FIVE | {"model_type": "smollm3", "no_rope_layer_interval": 5},
    FIVE | {"model_type": "smollm3", "no_rope_layers": [0, 1, 0, 0, 1]},
    FIVE | {"model_type": "cohere2_moe", "first_k_dense_replace": 4, "sliding_window_pattern": 1},
    FIVE | {"model_type": "granite_swa", "layer_rope_theta": [0, 1e4, 1e4, 0, 0]},
    {"model_type": "lara_mini", "num_hidden_layers": 7},  # linear layers have no queries and keys
    {
        "model_type": "dory",
        "num_hidden_layers": 8,
        "layer_types": [SLIDING, "mlp", FULL, "mlp"] * 2,
    },
    # Sizes, with null that counts.
    LLAMA | {"head_dim": 32},
    LLAMA | {"partial_rotary_factor": 0.5},  # Llama's code does not read it
    LLAMA | {"model_type": "stablelm", "partial_rotary_factor": 0.5},
    LLAMA | {"model_type": "gpt_neox", "rotary_pct": 0.5, "partial_rotary_factor": 1.0},
    LLAMA | {"model_type": "unknown_to_all", "partial_rotary_factor": 0.5},
    LLAMA | {"model_type": "minimax_m2", "head_dim": 128, "rotary_dim": 64},
    LLAMA | {"model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 24},
    LLAMA | {"model_type": "sam2_video", "memory_attention_hidden_size": 64},
    GLM,
    GLM | {"head_dim": None},
    GLM | {"partial_rotary_factor": None},
    GLM | {"head_dim": None, "partial_rotary_factor": None},
    # Layouts, and indexers, which are a kind of layer.
    *({"model_type": each} for each in ("deepseek_v3", "deepseek_v2", "minicpm3", "glm4")),
    {"model_type": "gemma4_vision"},
    {"model_type": "deepseek_v32", "rope_theta": 1e6},
    {"model_type": "glm_moe_dsa", "rope_theta": 1e6},
    {"model_type": "minimax_m3_vl_text", "rope_theta": 1e6, "partial_rotary_factor": 0.5},
    {"model_type": "hy_v4_vl_text"},
    # Lengths: Transformers' tables have the top level's first.
    LLAMA_31,
    *(length_of_yarn(*each) for each in itertools.product(("llama", "mystery"), (None, 8192))),
    *(
        by_layer_type(length_of_yarn(*each))
        for each in itertools.product(("olmo3", "mystery"), (None, 8192))
    ),
    # What is assumed of a model type that nobody knows, and of a base that no key gives.
    LLAMA_31 | {"model_type": "mystery"},
    BARE | {"model_type": "mystery", "partial_rotary_factor": 1.0},
    # A class without layer types reads what is next to them.
    *(BARE | {"model_type": each, "rope_parameters": NESTED} for each in ("granite", "llama")),
    BARE | {"model_type": "mistral", "rope_theta": 2e6, "rope_parameters": NESTED},
    BARE
    | {"model_type": "olmo2"}
    | {"rope_parameters": {FULL: {"rope_theta": 5e5}, "rope_type": "linear", "factor": 2.0}},
]


def test_readings_are_as_they_were_looked_at() -> None:
    assert_golden("readings/layers", ((title(each), reading(load_model(each))) for each in READ))


def test_no_class_reads_the_names_that_others_have_for_a_key() -> None:
    older = [name for key in ("rope_theta", "rope_local_base_freq") for name in ALIASES[key]]
    assert "swa_rope_theta" in older
    for name in older:
        assert layers(LLAMA | {name: 77.0}) == layers(LLAMA), name


@pytest.mark.parametrize(
    ("config", "bases"),
    [
        (
            {
                "model_type": "t5gemma",
                "encoder": {"model_type": "t5_gemma_module", "rope_theta": 2e4},
                "decoder": {"rope_theta": 3e4},  # whose class follows from its place
            },
            {"encoder": 2e4, "decoder": 3e4},
        ),
        (
            {
                "model_type": "t5gemma2",
                "encoder": {"model_type": "t5gemma2_encoder", "text_config": {}},
                "decoder": {"model_type": "t5gemma2_decoder"},
            },
            {f"{part}.{kind}": base for part in ("encoder", "decoder") for kind, base in KINDS},
        ),
        (
            {"model_type": "vision-encoder-decoder", "encoder": {}, "decoder": LLAMA},
            {"decoder": 5e5},
        ),
    ],
)
def test_an_encoder_and_a_decoder_are_parts(
    config: dict[str, Any], bases: dict[str, float]
) -> None:
    found = layers(config)
    assert {name: rope and rope.base for name, rope in found.items()} == bases


def test_an_object_by_layer_type_has_the_share_of_its_class() -> None:
    given = {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in (FULL, SLIDING)}
    found = layers({"model_type": "neomme", "rope_parameters": given})
    assert {name: rope and rope.rotary_dim for name, rope in found.items()} == {
        FULL: 16,
        SLIDING: 64,
    }


def test_layers_are_chosen_by_name() -> None:
    assert load_model(SMOLLM3).layer().name == "rope"  # the only one that has a rotation
    model = load_model(GEMMA_3)
    with pytest.raises(ArgumentError, match=r"several kinds .*; choose one with layer"):
        model.layer()
    with pytest.raises(ArgumentError, match=r"layer must be one of .*, got 'global'"):
        model.layer("global")


def test_a_layer_says_its_lengths() -> None:
    (layer,) = load_model(LLAMA_31).layers
    assert (layer.name, layer.context_length, layer.original_context_length) == (
        "all",
        131_072,
        8192,
    )
    assert layer.rotary is not None
    slow = int((layer.rotary.wavelength > 131_072).sum())
    assert layer.incomplete_pairs == slow == 25


@pytest.mark.parametrize("model_type", ["cohere2", "gpt_oss", "qwen2", "qwen3", "smollm3"])
def test_a_class_with_one_table_for_its_layer_types_refuses_several(model_type: str) -> None:
    config = BARE | {"model_type": model_type, "rope_parameters": NESTED}
    with pytest.raises(FileError, match=f"by layer type, and model_type {model_type} has one"):
        load_model(config)
    found = load_model(config | {"rope_theta": 2e6}, reading="vllm").layers
    (rope,) = (layer.rotary for layer in found if layer.rotary)
    assert (rope.rope_type, rope.base) == ("default", 1e4)  # neither is in its place
    named = config | {"layer_types": ["chunked_attention"]}  # no object of its own
    (rope,) = filter(None, layers(named).values())
    assert rope.base == {"gpt_oss": 15e4, "smollm3": 2e6}.get(model_type, 1e4)


def test_a_layer_type_without_an_object_is_refused() -> None:
    types = {"num_hidden_layers": 2, "layer_types": [FULL, SLIDING]}
    config = {"model_type": "mimo_v2_flash", "rope_parameters": {FULL: {"rope_theta": 1e4}}}
    with pytest.raises(FileError, match=f"no entry for layer type {SLIDING}"):
        load_model(config | types)
    assert [*layers(config | types | {"layer_types": [FULL, FULL]})] == [FULL]


# How many heads the weights of a model have.

QWEN_VL: dict[str, Any] = {
    "model_type": "some_vl",
    "text_config": LLAMA_31 | {"num_key_value_heads": 4},
    "vision_config": {
        "model_type": "x",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "rope_theta": 1e4,
    },
}


@pytest.mark.parametrize(
    ("config", "layer", "expected"),
    [
        (LLAMA_31, None, (32, 32, 128, 128, 0, "half")),
        (LLAMA_31 | {"num_key_value_heads": 8}, None, (32, 8, 128, 128, 0, "half")),
        (LLAMA_31 | {"n_kv_heads": 2, "head_dim": 64}, "all", (32, 2, 64, 64, 0, "half")),
        (GPT_OSS, None, (64, 64, 64, 64, 0, "half")),
        (GEMMA_3, None, (8, 8, 256, 256, 0, "half")),
        (DEEPSEEK_V3, None, (128, 128, 192, 64, 128, "interleaved")),
        (QWEN_VL, "all", (32, 4, 128, 128, 0, "half")),
        (QWEN_VL, "vision", (4, 4, 16, 16, 0, "half")),
    ],
)
def test_heads(config: dict[str, Any], layer: str | None, expected: tuple[Any, ...]) -> None:
    found = heads_of(load_model(config), layer)
    sizes = (found.heads, found.kv_heads, found.head_dim, found.rotary_dim, found.rotary_offset)
    assert (*sizes, found.layout) == expected


def test_layers_of_several_shapes_need_a_choice() -> None:
    with pytest.raises(ArgumentError, match=r"\(all, vision\) have heads of several shapes"):
        heads_of(load_model(QWEN_VL))
    with pytest.raises(ArgumentError, match="layer must be one of all, vision"):
        heads_of(load_model(QWEN_VL), "audio")


def test_a_file_that_does_not_say_it() -> None:
    config = {"model_type": "unknown", "head_dim": 64, "rope_theta": 1e4}
    with pytest.raises(FileError, match="has no num_attention_heads; pass heads, "):
        heads_of(load_model(config))
