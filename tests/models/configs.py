"""Configurations of released models, as published, less what has nothing to do with positions."""

from __future__ import annotations

import json
from typing import Any

from helpers import ROOT

LLAMA_31: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "max_position_embeddings": 131_072,
    "rope_theta": 500_000.0,
    "rope_scaling": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
}
GPT_OSS: dict[str, Any] = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "head_dim": 64,
    "max_position_embeddings": 131_072,
    "rope_theta": 150_000,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
}
GEMMA_3: dict[str, Any] = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "num_attention_heads": 8,
    "head_dim": 256,
    "num_hidden_layers": 34,
    "sliding_window_pattern": 6,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
    "rope_local_base_freq": 10_000.0,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
}
DEEPSEEK_V3: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "max_position_embeddings": 163_840,
    "rope_theta": 10_000,
    "rope_interleave": True,
    "rope_scaling": {
        "type": "yarn",
        "factor": 40,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 4096,
    },
}
QWEN2_VL: dict[str, Any] = {
    "model_type": "qwen2_vl",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "max_position_embeddings": 32_768,
    "rope_theta": 1_000_000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"model_type": "qwen2_vl", "embed_dim": 1280, "num_heads": 16},
}
SMOLLM3: dict[str, Any] = {
    "model_type": "smollm3",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_hidden_layers": 8,
    "max_position_embeddings": 65_536,
    "rope_theta": 5_000_000.0,
    "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0],
}
PHI_3: dict[str, Any] = {
    "model_type": "phi3",
    "hidden_size": 3072,
    "num_attention_heads": 32,
    "max_position_embeddings": 131_072,
    "original_max_position_embeddings": 4096,
    "rope_theta": 10_000.0,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0 + i / 50 for i in range(48)],
        "long_factor": [1.0 + i * 1.3 for i in range(48)],
    },
}
DYNAMIC: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "rope_scaling": {"type": "dynamic", "factor": 4.0},
}
QWEN3_VL: dict[str, Any] = {
    "model_type": "qwen3_vl_text",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 262_144,
    "rope_theta": 5_000_000,
    "rope_scaling": {
        "rope_type": "default",
        "mrope_interleaved": True,
        "mrope_section": [24, 20, 20],
    },
}
QWEN2_5: dict[str, Any] = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "max_position_embeddings": 32_768,
    "max_window_layers": 28,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rope_theta": 1_000_000.0,
    "sliding_window": 131_072,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
}
LLAMA_4: dict[str, Any] = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "attn_scale": 0.1,
        "attn_temperature_tuning": True,
        "floor_scale": 8192,
        "head_dim": 128,
        "hidden_size": 5120,
        "max_position_embeddings": 10_485_760,
        "no_rope_layers": [1, 1, 1, 0] * 12,
        "num_attention_heads": 40,
        "num_hidden_layers": 48,
        "rope_scaling": LLAMA_31["rope_scaling"] | {"factor": 16.0, "high_freq_factor": 1.0},
        "rope_theta": 500_000.0,
    },
}
MISTRAL: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "max_position_embeddings": 32_768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rope_theta": 10_000.0,
    "sliding_window": 4096,
}
PYTHIA: dict[str, Any] = {
    "model_type": "gpt_neox",
    "hidden_size": 2048,
    "max_position_embeddings": 2048,
    "num_attention_heads": 16,
    "rotary_emb_base": 10_000,
    "rotary_pct": 0.25,
}
#: Of no released model: with little to compute.
TINY: dict[str, Any] = {
    "model_type": "llama",
    "head_dim": 8,
    "hidden_size": 32,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "rope_theta": 10_000.0,
}
#: Two kinds of layers, of which one sees 16 positions.
TINY_GEMMA: dict[str, Any] = GEMMA_3 | {
    "head_dim": 8,
    "max_position_embeddings": 64,
    "sliding_window": 16,
}
BLOOM: dict[str, Any] = {"model_type": "bloom", "hidden_size": 64, "n_head": 4}
ALL = {
    "llama-3.1": LLAMA_31,
    "gpt-oss": GPT_OSS,
    "gemma-3": GEMMA_3,
    "deepseek-v3": DEEPSEEK_V3,
    "qwen2-vl": QWEN2_VL,
    "qwen3-vl": QWEN3_VL,
    "smollm3": SMOLLM3,
    "phi-3": PHI_3,
    "dynamic": DYNAMIC,
}

#: More keys of the same, and the rules of `lint` that fire: notes where stacks part, nothing else.
RELEASED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "Llama 3.1 8B": (LLAMA_31 | {"head_dim": 128, "num_key_value_heads": 8}, set()),
    "Llama 3.2 1B": (
        LLAMA_31
        | {"head_dim": 64, "hidden_size": 2048}
        | {"rope_scaling": LLAMA_31["rope_scaling"] | {"factor": 32.0}},
        set(),
    ),
    "Llama 2 7B": (
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "max_position_embeddings": 4096,
            "num_attention_heads": 32,
            "rope_scaling": None,
        },
        {"R091"},
    ),
    "Llama 4 Scout": (LLAMA_4, set()),
    "Qwen2.5 7B": (QWEN2_5, set()),
    "Qwen2.5 7B with YaRN as its page says": (
        QWEN2_5
        | {
            "rope_scaling": {
                "factor": 4.0,
                "original_max_position_embeddings": 32_768,
                "type": "yarn",
            }
        },
        {"R022"},
    ),
    "Qwen2-VL 7B": (
        QWEN2_5 | {"model_type": "qwen2_vl", "rope_scaling": QWEN2_VL["rope_scaling"]},
        {"R016"},
    ),
    "Qwen3-VL 8B": ({"model_type": "qwen3_vl", "text_config": QWEN3_VL}, {"R073"}),
    "Gemma 3 4B": (GEMMA_3 | {"sliding_window": 1024}, {"R060"}),
    "gpt-oss 20B": (
        GPT_OSS
        | {
            "initial_context_length": 4096,
            "layer_types": ["sliding_attention", "full_attention"] * 12,
            "num_hidden_layers": 24,
            "sliding_window": 128,
        },
        {"R132"},
    ),
    "DeepSeek-V3": (
        {name: value for name, value in DEEPSEEK_V3.items() if name != "rope_interleave"}
        | {"num_hidden_layers": 61, "num_nextn_predict_layers": 1},
        {"R031"},
    ),
    "Kimi K2": (
        DEEPSEEK_V3
        | {
            "model_type": "kimi_k2",
            "max_position_embeddings": 131_072,
            "num_attention_heads": 64,
            "rope_scaling": DEEPSEEK_V3["rope_scaling"] | {"beta_fast": 1.0, "factor": 32.0},
            "rope_theta": 50_000.0,
        },
        {"R031", "R132"},  # llama.cpp reads no betas
    ),
    "Phi-3.5 mini": (
        PHI_3 | {"num_hidden_layers": 32, "sliding_window": 262_144},
        {"R044", "R047"},
    ),
    "Mistral 7B v0.1": (MISTRAL, set()),
    "SmolLM3 3B": (
        SMOLLM3
        | {
            "layer_types": ["full_attention"] * 36,
            "no_rope_layer_interval": 4,
            "no_rope_layers": [1, 1, 1, 0] * 9,
            "num_hidden_layers": 36,
        },
        set(),
    ),
    "Pythia 1.4B": (PYTHIA, set()),
}


def published_configs() -> dict[str, dict[str, Any]]:
    """Configurations with the tables that Transformers 5.23 computes from them, by name."""
    text = (ROOT / "tests" / "data" / "rope_configs.json").read_text()
    return {entry["name"]: entry for entry in json.loads(text)["entries"]}
