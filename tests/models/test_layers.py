"""The meaning of a configuration: its keys, the layers that they are for, and assumptions."""

from __future__ import annotations

from typing import Any

import pytest
from models.configs import DEEPSEEK_V3, GEMMA_3, GPT_OSS, LLAMA_31, QWEN2_VL, SMOLLM3

from ropecli import Rotary
from ropecli.errors import ArgumentError, FileError
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
GRANITE = {"model_type": "granite_swa", "layer_rope_theta": [1e4, 5e5, 0]}
BARE = {"hidden_size": 64, "num_attention_heads": 4}


def layers(config: dict[str, Any]) -> dict[str, Rotary | None]:
    return {layer.name: layer.rotary for layer in load_model(config).layers}


def rotary(config: dict[str, Any], name: str = "all") -> Rotary:
    found = layers(config)[name]
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("config", "layer", "expected"),
    [
        # A part by its place, without a model_type, and with that of the whole.
        (QWEN2_VL, "all", {"axes": 3}),
        (QWEN2_VL | {"vision_config": {"embed_dim": 1280, "num_heads": 16}}, "vision",
         {"head_dim": 80, "rope_type": "axial", "layout": "half", "axes": 2}),
        (QWEN2_VL | {"model_type": "qwen2_5_vl", "vision_config": {
            "model_type": "qwen2_5_vl", "hidden_size": 1280, "num_heads": 16}}, "vision",
         {"head_dim": 80}),
        # Scaling is for Gemma 3's full layers alone; its code fills in kinds and bases.
        (GEMMA_3, FULL, {"rope_type": "linear", "base": 1e6, "inv_freq[0]": 1 / 8}),
        (GEMMA_3, SLIDING, {"rope_type": "default", "base": 1e4, "inv_freq[0]": 1.0}),
        (GEMMA_3_4B, FULL, {"head_dim": 256, "base": 1e6, "inv_freq[0]": 0.125}),
        (GEMMA_3_4B, SLIDING, {"head_dim": 256, "base": 1e4, "inv_freq[0]": 1.0}),
        (GEMMA, FULL, {"base": 1e6, "inv_freq[0]": 0.125}),
        (GEMMA, SLIDING, {"base": 1e4, "inv_freq[0]": 1.0}),
        (GEMMA | {"rope_theta": 2e6}, FULL, {"base": 2e6}),
        (GEMMA | {"rope_local_base_freq": 3e4}, SLIDING, {"base": 3e4}),
        # Null and absence leave the default of the class, YaRN; an empty object does not.
        (OSS, "all", {"rope_type": "yarn"}),
        (OSS | {"rope_parameters": None}, "all", {"rope_type": "yarn"}),
        (OSS | {"rope_parameters": {}}, "all", {"rope_type": "default", "base": 15e4}),
        # Compressed layers of DeepSeek-V4 are not stretched.
        (DEEPSEEK_V4, "main", {"rope_type": "default", "base": 1e4, "rotary_offset": 448}),
        (DEEPSEEK_V4, "compress", {"rope_type": "yarn", "base": 2e5, "attention_factor": 1.0}),
        # A local base in an unknown model: its scaling is for the full layers.
        (LOCAL, FULL, {"base": 5e5, "inv_freq[0]": 0.5}),
        (LOCAL, SLIDING, {"base": 3e4, "inv_freq[0]": 1.0}),
        (MODERNBERT, FULL, {"base": 2e5}),
        (MODERNBERT, SLIDING, {"base": 2e4}),
        (MODERNBERT | {"position_embedding_type": "absolute"}, FULL, {"base": 2e5}),  # not read
        (MOLMO_2, "scaled", {"inv_freq[0]": 0.5}),
        (MOLMO_2, "unscaled", {"inv_freq[0]": 1.0}),
        (PER_LAYER, SLIDING, {"head_dim": 128}),
        (PER_LAYER, FULL, {"head_dim": 256}),
        (STEP, FULL, {"base": 5e6, "rotary_dim": 64, "rope_type": "llama3"}),
        (STEP, SLIDING, {"base": 1e4, "rotary_dim": 128, "rope_type": "default"}),
        (GRANITE, "rope-10000", {"base": 1e4}),
        (GRANITE, "rope-500000", {"base": 5e5}),
        # The end of a head is rotated, and written in halves.
        (DEEPSEEK_V3, "all", {"head_dim": 192, "rotary_dim": 64, "rotary_offset": 128}),
        # Bases: aliases, a factor, and keys that the code does not read.
        (BARE | {"rotary_emb_base": 5000}, "all", {"base": 5000}),
        (BARE | {"rope_theta": 5000}, "all", {"base": 5000}),
        (BARE | {"rope_ratio": 50}, "all", {"base": 500_000}),
        (BARE | {"rope_ratio": 50, "rope_theta": 12_345}, "all", {"base": 12_345}),
        ({"model_type": "gpt_neox", "rope_theta": 5e5}, "all", {"base": 1e4}),
        ({"model_type": "gpt_neox", "rotary_emb_base": 5e5}, "all", {"base": 5e5}),
        ({"model_type": "dbrx", "attn_config": {"rope_theta": 5e5}}, "all", {"base": 1e4}),
        ({"model_type": "ernie4_5_vl_moe_text"}, "all", {"axis": (1, 2) * 22 + (0,) * 20}),
    ],
)  # fmt: skip
def test_rotation_of_a_layer(config: dict[str, Any], layer: str, expected: dict[str, Any]) -> None:
    rope = rotary(config, layer)
    got = {name: getattr(rope, name, None) for name in expected}
    if "inv_freq[0]" in expected:
        got["inv_freq[0]"] = rope.inv_freq[0]
    assert got == expected


def test_null_is_no_rotation_elsewhere() -> None:
    assert layers(LLAMA | {"model_type": "mystery", "rope_parameters": NESTED})[SLIDING] is None


def test_a_list_of_bases_needs_layer_types() -> None:
    with pytest.raises(FileError, match="a list as rope_theta needs layer_types"):
        load_model(STEP | {"layer_types": None})


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LLAMA_31, {"all": None}),
        (GPT_OSS, {"all": None}),
        (QWEN2_VL, {"all": None, "vision": None}),
        (SMOLLM3, {"rope": (0, 1, 2, 4, 5, 6), "nope": (3, 7)}),  # 1 means RoPE
        (MOLMO_2, {"scaled": (1, 3), "unscaled": (0, 2)}),
        (STEP, {FULL: (0,), SLIDING: (1, 2)}),
        (GRANITE, {"rope-10000": (0,), "rope-500000": (1,), "nope": (2,)}),
        (
            {"model_type": "exaone4", "num_hidden_layers": 4, "sliding_window": None},
            {"all": None},
        ),
    ],
)
def test_kinds_of_layers(
    config: dict[str, Any], expected: dict[str, tuple[int, ...] | None]
) -> None:
    found = load_model(config).layers
    assert {layer.name: layer.settings.layers for layer in found} == expected
    assert [layer.name for layer in found if layer.rotary is None] == [
        name for name in expected if name == "nope"
    ]


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
        ({"model_type": "cohere2", "layer_types": [FULL] * 3 + [SLIDING] * 2}, (3, 4)),
        ({"model_type": "granite_swa", "layer_rope_theta": [0, 1e4, 1e4, 0, 0]}, (1, 2)),
    ],
)
def test_layers_that_rotate(keys: dict[str, Any], expected: tuple[int, ...]) -> None:
    found = load_model({"num_hidden_layers": 5} | keys).layers
    (kind,) = [layer for layer in found if layer.rotary is not None]
    assert kind.settings.layers == expected


def test_layers_are_chosen_by_name() -> None:
    assert load_model(SMOLLM3).layer().name == "rope"  # the only one that has a rotation
    model = load_model(GEMMA_3)
    with pytest.raises(ArgumentError, match=r"several kinds .*; choose one with layer"):
        model.layer()
    with pytest.raises(ArgumentError, match=r"layer must be one of .*, got 'global'"):
        model.layer("global")


@pytest.mark.parametrize(
    ("keys", "head_dim", "rotary_dim"),
    [
        (LLAMA | {"head_dim": 32}, 32, 32),
        (LLAMA | {"partial_rotary_factor": 0.5}, 16, 16),  # Llama's code does not read it
        (LLAMA | {"model_type": "stablelm", "partial_rotary_factor": 0.5}, 16, 8),
        (
            LLAMA | {"model_type": "gpt_neox", "rotary_pct": 0.5, "partial_rotary_factor": 1.0},
            16,
            8,
        ),
        (LLAMA | {"model_type": "unknown_to_all", "partial_rotary_factor": 0.5}, 16, 8),
        (LLAMA | {"model_type": "minimax_m2", "head_dim": 128, "rotary_dim": 64}, 128, 64),
        (
            LLAMA | {"model_type": "deepseek_v3", "qk_rope_head_dim": 8, "qk_nope_head_dim": 24},
            32,
            8,
        ),
        (LLAMA | {"model_type": "sam2_video", "memory_attention_hidden_size": 64}, 64, 64),
        # Null that counts.
        (GLM, 128, 64),
        (GLM | {"head_dim": None}, 64, 32),
        (GLM | {"partial_rotary_factor": None}, 128, 128),
        (GLM | {"head_dim": None, "partial_rotary_factor": None}, 64, 64),
    ],
)
def test_sizes(keys: dict[str, Any], head_dim: int, rotary_dim: int) -> None:
    made = rotary(keys)
    assert (made.head_dim, made.rotary_dim) == (head_dim, rotary_dim)


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


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "bert"},
        {"model_type": "mystery", "position_embedding_type": "absolute"},
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


def test_an_unknown_model_type_works_and_says_what_was_assumed() -> None:
    config = LLAMA_31 | {"model_type": "mystery"}
    (layer,) = load_model(config).layers
    assert layer.rotary == load_model(LLAMA_31).layer().rotary
    assert any("'mystery' is unknown" in sentence for sentence in layer.settings.assumed)
    assert any("layout half" in sentence for sentence in layer.settings.assumed)
    (known,) = load_model(LLAMA_31).layers
    assert known.settings.assumed == ()


def test_a_missing_base_is_said() -> None:
    config = {k: v for k, v in LLAMA_31.items() if k not in ("rope_theta", "rope_scaling")}
    config |= {"model_type": "mystery", "partial_rotary_factor": 1.0}
    (layer,) = load_model(config).layers
    assert layer.rotary is not None
    assert layer.rotary.base == 10_000
    assert any("base 10000: no rope_theta" in sentence for sentence in layer.settings.assumed)


@pytest.mark.parametrize("inner", [None, 8192])
@pytest.mark.parametrize("model_type", ["llama", "qwen3", "mystery"])
def test_where_the_original_length_stands(model_type: str, inner: int | None) -> None:
    """Transformers' tables have the top level's first."""
    flat = load_model(length_of_yarn(model_type, inner)).layer()
    assert flat.original_context_length == 2048


@pytest.mark.parametrize("inner", [None, 8192])
@pytest.mark.parametrize("model_type", ["olmo3", "mystery"])
def test_an_original_length_under_a_layer_type(model_type: str, inner: int | None) -> None:
    config = length_of_yarn(model_type, inner)
    yarn = config.pop("rope_scaling") | {"rope_theta": 1e4}
    model = load_model(config | {"layer_types": [FULL], "rope_parameters": {FULL: yarn}})
    layer = next(layer for layer in model.layers if layer.name == FULL)
    assert layer.original_context_length == (inner or 131_072)


def length_of_yarn(model_type: str, inner: int | None) -> dict[str, Any]:
    """A file with YaRN, an original length at the top level, and maybe one among its keys."""
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0}
    if inner is not None:
        yarn["original_max_position_embeddings"] = inner
    own = {"model_type": model_type, "original_max_position_embeddings": 2048}
    return LLAMA_31 | own | {"rope_scaling": yarn}


@pytest.mark.parametrize("model_type", ["granite", "llama", "mistral", "olmo2"])
@pytest.mark.parametrize("outside", [{}, {"rope_theta": 2e6}])
def test_a_class_without_layer_types_reads_what_is_next_to_them(
    model_type: str, outside: dict[str, Any]
) -> None:
    config = BARE | outside | {"model_type": model_type, "rope_parameters": NESTED}
    rope = rotary(config)
    assert (rope.rope_type, rope.base) == ("default", outside.get("rope_theta", 1e4))
    inside = {FULL: {"rope_theta": 5e5}, "rope_type": "linear", "factor": 2.0}
    assert rotary(config | {"rope_parameters": inside}).inv_freq[0] == 0.5


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


def test_a_truncate_of_null_is_as_good_as_false() -> None:
    def table(truncate: bool | None) -> list[float]:
        scaling = GPT_OSS["rope_scaling"] | {"truncate": truncate}
        rope = load_model(GPT_OSS | {"rope_scaling": scaling}).layer().rotary
        assert rope is not None
        return list(rope.diagonal_inv_freq)

    assert table(None) == table(False) != table(True)


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


@pytest.mark.parametrize("top", [{"rope_theta": 7e5}, {"rope_scaling": {"rope_type": "yarn"}}])
@pytest.mark.parametrize("model_type", ["llava", "my_vl"])
def test_keys_next_to_a_text_model_are_not_read(model_type: str, top: dict[str, Any]) -> None:
    (layer,) = load_model({"model_type": model_type, "text_config": LLAMA_31, **top}).layers
    assert (layer.name, layer.rotary) == ("all", load_model(LLAMA_31).layer().rotary)


@pytest.mark.parametrize(
    ("model_type", "layout", "reorders", "rotary_dim"),
    [
        ("deepseek_v32", "half", False, 64),
        ("glm_moe_dsa", "interleaved", True, 64),
        ("minimax_m3_vl_text", "half", False, 64),
    ],
)
def test_indexers_are_a_kind_of_layer(
    model_type: str, layout: str, reorders: bool, rotary_dim: int
) -> None:
    config: dict[str, Any] = {"model_type": model_type, "rope_theta": 1e6}
    if model_type == "minimax_m3_vl_text":
        config["partial_rotary_factor"] = 0.5
    model = load_model(config)
    attention, indexer = model.layer(), model.layer("indexer")
    assert attention.name == "all"
    assert indexer.rotary is not None
    assert attention.rotary is not None
    assert (indexer.rotary.head_dim, indexer.rotary.rotary_dim) == (128, rotary_dim)
    assert (indexer.rotary.layout, indexer.rotary.reorders) == (layout, reorders)
    assert indexer.rotary.rotary_offset == 0
    assert indexer.rotary.inv_freq.tolist() == attention.rotary.inv_freq.tolist()
    assert indexer.rotary.softmax_factor == 1.0
