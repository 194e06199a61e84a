"""Configurations as several stacks read them: a golden file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from golden import assert_golden
from models.configs import DEEPSEEK_V3, GPT_OSS, LLAMA_31, PHI_3, QWEN3_VL
from models.readings import reading, title
from models.stacks.measured import KIMI_K2, lines

from ropecli.models.load import load_model
from ropecli.models.stacks import STACKS

Config = dict[str, Any]
FULL, SLIDING = "full_attention", "sliding_attention"
TWO = (SLIDING, FULL)
SIZES: Config = {"hidden_size": 2048, "num_attention_heads": 16}
PLAIN: Config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
SMOLLM3 = SIZES | {"model_type": "smollm3", "num_hidden_layers": 8}
HUNYUAN_VL: Config = {
    "model_type": "hunyuan_vl",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "head_dim": 128,
    "num_hidden_layers": 4,
    "max_position_embeddings": 32_768,
    "rope_theta": 10_000.0,
}
AXES: Config = {"alpha": 1000.0, "factor": 1.0}
DEEPSEEK_V4: Config = {
    "model_type": "deepseek_v4",
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "num_hidden_layers": 4,
    "max_position_embeddings": 1_048_576,
    "rope_theta": 10_000,
    "compress_rope_theta": 160_000,
    "compress_ratios": [0, 0, 4, 128],
    "rope_scaling": {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65_536},
}
DOTS3_NOTE: Config = {
    "model_type": "dots3_note",
    "text_config": {
        "model_type": "dots3_note_text",
        "hidden_size": 5120,
        "num_attention_heads": 128,
        "qk_nope_head_dim": 192,
        "qk_rope_head_dim": 64,
        "kv_lora_rank": 512,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
        "sliding_window_size": 512,
        "swa_kv_lora_rank": 512,
        "swa_qk_nope_head_dim": 192,
        "swa_qk_rope_head_dim": 64,
        "max_position_embeddings": 524_288,
        "rope_theta": 80_000_000,
        "swa_rope_theta": 50_000,
    },
}
#: Its class has a list of rope types of its own, in which linear means no scaling.
MELLUM: Config = {
    "model_type": "mellum",
    "head_dim": 128,
    "hidden_size": 1024,
    "layer_types": ["full_attention", "sliding_attention"],
    "max_position_embeddings": 32_768,
    "moe_intermediate_size": 64,
    "norm_topk_prob": True,
    "num_attention_heads": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 2,
    "sliding_window": 1024,
}
STEP_3P5: Config = {
    "model_type": "step3p5",
    "head_dim": 128,
    "hidden_size": 1024,
    "layer_types": ["full_attention"] * 3,
    "num_attention_groups": 2,
    "num_attention_heads": 8,
    "num_hidden_layers": 3,
    "rope_theta": [5e6, 1e4, 2e4],
    "partial_rotary_factors": [1.0, 1.0, 1.0],
}
PHI_3_5_MOE: Config = {
    "model_type": "phimoe",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 131_072,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0] * 64,
        "long_factor": [2.0] * 64,
        "short_mscale": 1.243163121016122,
        "long_mscale": 1.25,
        "original_max_position_embeddings": 4096,
    },
}
GEMMA_4: Config = {
    "hidden_size": 2048,
    "num_attention_heads": 4,
    "head_dim": 512,
    "rope_scaling": {
        "rope_type": "proportional",
        "rope_theta": 1e6,
        "partial_rotary_factor": 0.25,
    },
}
CHATGLM_6B: Config = {
    "model_type": "chatglm",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "position_encoding_2d": True,
}
REMOTE = {line["name"]: line["config"] for line in lines("remote_code")}
TELECHAT = REMOTE["TeleChat-7B"]


def scaled(config: Config, **keys: Any) -> Config:
    """Return a configuration with other scaling keys next to its own."""
    return config | {"rope_scaling": config.get("rope_scaling", {}) | keys}


def yarn(factor: float, original: int = 4096, **keys: Any) -> Config:
    return {
        "rope_type": "yarn",
        "factor": factor,
        "original_max_position_embeddings": original,
    } | keys


def gemma_3(inside: Config, **outside: bool) -> Config:
    """Gemma 3 with YaRN under its layer types, and a key inside or next to it."""
    full = yarn(8.0, 16_384, rope_theta=1e6) | inside
    return {
        "model_type": "gemma3_text",
        "head_dim": 256,
        "layer_types": [*TWO],
        "num_hidden_layers": 2,
        "max_position_embeddings": 131_072,
        "rope_parameters": {SLIDING: {"rope_theta": 1e4}, FULL: full} | outside,
    }


MELLUM_OF_GPT_OSS: Config = {
    **{key: value for key, value in GPT_OSS.items() if key not in ("rope_scaling", "rope_theta")},
    "model_type": "mellum",
    "layer_types": [FULL],
    "rope_parameters": {FULL: GPT_OSS["rope_scaling"] | {"rope_theta": 150_000}},
}
SECTIONS: Config = {"rope_type": "default", "mrope_section": [24, 20, 20]}
DEEPSEEK_YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}
OF_CLASS: list[tuple[str | None, object]] = [
    ("llama", ["LlamaForCausalLM"]),
    ("llama", ["Qwen2ForCausalLM"]),  # whose converter writes no rope_freqs
    ("qwen2", ["LlamaForCausalLM"]),
    (None, ["LlamaForCausalLM"]),
    (None, ["Qwen2ForCausalLM"]),
    ("qwen2", ["LlavaForConditionalGeneration"]),  # of Llama's class
    ("llama", ["StepVLForConditionalGeneration"]),  # of Qwen 3's
    ("qwen2", ["LlamaForCausalLMEagle3"]),
    ("llama", ["SomeOtherForCausalLM"]),
    ("llama", []),
    ("llama", "LlamaForCausalLM"),
]
#: Stacks, lengths of a sequence, and files.
READ: list[tuple[tuple[str, ...], tuple[int | None, ...], list[Config]]] = [
    (tuple(STACKS), (None,), [PLAIN]),
    (
        ("llama.cpp",),
        (None,),
        [
            SMOLLM3 | {"no_rope_layers": [1] * 8},  # the list is not written
            # Bases that the converter does not write.
            *(
                SIZES | {"model_type": each, "rope_theta": 500_000.0, "rotary_pct": 0.25}
                for each in ("stablelm", "gpt_neox", "falcon", "gemma", "orion", "phi")
            ),
            DEEPSEEK_V4,
            DOTS3_NOTE,
            # Without mscale_all_dim, vectors carry m = 1 + 0.1 ln s, and the score m^2 once more.
            scaled(KIMI_K2 | {"model_type": "deepseek_v3"}, **DEEPSEEK_YARN),
            scaled(
                KIMI_K2 | {"model_type": "deepseek_v3"},
                **DEEPSEEK_YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
            ),
            # The converter goes by the class, and that of a text model goes before the file's.
            *(LLAMA_31 | {"model_type": m, "architectures": c} for m, c in OF_CLASS),
            *(
                {
                    "model_type": "llava",
                    "architectures": ["Qwen2ForCausalLM"],
                    "text_config": LLAMA_31 | {"model_type": "qwen2"} | own,
                }
                for own in ({"architectures": ["LlamaForCausalLM"]}, {})
            ),
        ],
    ),
    (
        ("llama.cpp", "transformers", "vllm"),
        (None,),
        [
            scaled(HUNYUAN_VL, **AXES, type="xdrope", xdrope_section=[16, 16, 16, 16]),
            scaled(HUNYUAN_VL, **AXES, type="dynamic", mrope_section=[16, 16, 16, 16]),
        ],
    ),
    (
        ("mlx-lm",),
        (None,),
        [
            SMOLLM3,
            STEP_3P5,  # layers of one label with different bases are numbered
            scaled(LLAMA_31, **yarn(8.0)),
            scaled(LLAMA_31, **yarn(8.0) | {"rope_type": "deepseek_yarn"}),
            LLAMA_31 | {"rope_scaling": {"type": "telechat3-yarn", "factor": 8.0}},
            *(
                MELLUM
                | {"rope_parameters": dict.fromkeys(TWO, yarn(8.0, rope_theta=5e5, rope_type=each))}
                for each in ("yarn", "deepseek_yarn")
            ),
            QWEN3_VL | {"model_type": "qwen3_vl", "num_key_value_heads": 8},
        ],
    ),
    (
        ("vllm", "transformers"),
        (None,),
        [
            LLAMA_31 | {"partial_rotary_factor": 0.5, "rope_scaling": None},
            scaled(LLAMA_31, rope_type="dynamic", factor=4.0, max_trained_positions=32_768),
            scaled(DEEPSEEK_V3, attention_factor=1.0),
            MELLUM_OF_GPT_OSS,  # whose truncate is under a layer type
            *(
                DEEPSEEK_V3 | {"model_type": each, "rope_interleave": given}
                for each, given in itertools.product(
                    ("axk1", "deepseek_v3", "glm4_moe_lite", "kimi_k2"), (True, False)
                )
            ),
        ],
    ),
    (
        ("vllm",),
        (None,),
        [
            LLAMA_31 | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
            PLAIN | {"rope_scaling": {"rope_type": "ntk", "factor": 8.0, "mixed_b": 0.625}},
        ],
    ),
    (
        ("transformers", "llama.cpp", "vllm"),
        (None,),
        [
            QWEN3_VL | {"model_type": each, "rope_scaling": SECTIONS | given}
            for each in ("qwen3_vl_text", "qwen2_vl_text")
            for given in ({}, {"mrope_interleaved": True}, {"mrope_interleaved": False})
        ],
    ),
    (("transformers",), (None, 4097), [PHI_3_5_MOE, PHI_3_5_MOE | {"model_type": "llama"}]),
    (
        ("transformers",),
        (None,),
        [
            gemma_3({"truncate": False}),
            gemma_3({}, truncate=False),
            gemma_3({"truncate": False}, truncate=False),
            gemma_3({"truncate": False}, truncate=True),
            GEMMA_4,  # a quarter: pairs across the whole head
            scaled(GEMMA_4, rope_type="default"),  # against a head of its own
            REMOTE["DBRX"],  # whose attn_config is not read
            TELECHAT | {"base_seqlen": 8192},
            CHATGLM_6B,  # each half of the head is a RoPE of 64 coordinates
            # A local base under other names: PLaMo 3's and MiMo-V2's.
            *(
                {"model_type": "new", "head_dim": 128, "rope_theta": 1e6, key: 1e4}
                for key in ("rope_local_theta", "swa_rope_theta")
            ),
        ],
    ),
    (("transformers",), (16_384,), [TELECHAT]),  # which stretches by steps
    (("transformers", "vllm", "llama.cpp"), (None, 4096, 4097), [PHI_3]),
    (("mlx-lm",), (None, 100), [PHI_3]),
]


def readings() -> Iterator[tuple[str, str]]:
    for stacks, lengths, configs in READ:
        for config, stack, length in itertools.product(configs, stacks, lengths):
            model = load_model(config, reading=stack, sequence_length=length)
            yield f"{stack} {length or ''} {title(config)}", reading(model)


def test_readings_are_as_they_were_looked_at() -> None:
    assert_golden("readings/stacks", readings())
