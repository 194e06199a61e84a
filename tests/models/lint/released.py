"""Configurations of released models, as published, less what has nothing to do with positions."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
_LLAMA31: Json = {
    "model_type": "llama",
    "head_dim": 128,
    "hidden_size": 4096,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_scaling": {
        "factor": 8.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}
_QWEN25: Json = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "max_position_embeddings": 32768,
    "max_window_layers": 28,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
}
#: Each with the rules that it fires: notes where stacks part, and nothing else.
RELEASED: dict[str, tuple[Json, set[str]]] = {
    "Llama 3.1 8B": (_LLAMA31, set()),
    "Llama 3.2 1B": (
        _LLAMA31
        | {"head_dim": 64, "hidden_size": 2048}
        | {"rope_scaling": _LLAMA31["rope_scaling"] | {"factor": 32.0}},
        set(),
    ),
    "Llama 2 7B": (
        {
            "model_type": "llama",
            "hidden_size": 4096,
            "max_position_embeddings": 4096,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "rope_scaling": None,
        },
        {"R091"},
    ),
    "Llama 4 Scout": (
        {
            "model_type": "llama4",
            "text_config": {
                "model_type": "llama4_text",
                "attn_scale": 0.1,
                "attn_temperature_tuning": True,
                "floor_scale": 8192,
                "head_dim": 128,
                "hidden_size": 5120,
                "max_position_embeddings": 10485760,
                "no_rope_layers": [1, 1, 1, 0] * 12,
                "num_attention_heads": 40,
                "num_hidden_layers": 48,
                "rope_scaling": {
                    "factor": 16.0,
                    "high_freq_factor": 1.0,
                    "low_freq_factor": 1.0,
                    "original_max_position_embeddings": 8192,
                    "rope_type": "llama3",
                },
                "rope_theta": 500000.0,
            },
        },
        set(),
    ),
    "Qwen2.5 7B": (_QWEN25, set()),
    "Qwen2.5 7B with YaRN as its page says": (
        _QWEN25
        | {
            "rope_scaling": {
                "factor": 4.0,
                "original_max_position_embeddings": 32768,
                "type": "yarn",
            }
        },
        {"R022"},
    ),
    "Qwen2-VL 7B": (
        _QWEN25
        | {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope"}}
        | {"rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}},
        {"R016"},
    ),
    "Qwen3-VL 8B": (
        {
            "model_type": "qwen3_vl",
            "text_config": {
                "model_type": "qwen3_vl_text",
                "head_dim": 128,
                "hidden_size": 4096,
                "max_position_embeddings": 262144,
                "num_attention_heads": 32,
                "num_hidden_layers": 36,
                "rope_scaling": {
                    "mrope_interleaved": True,
                    "mrope_section": [24, 20, 20],
                    "rope_type": "default",
                },
                "rope_theta": 5000000,
            },
        },
        {"R073"},
    ),
    "Gemma 3 4B": (
        {
            "model_type": "gemma3_text",
            "head_dim": 256,
            "hidden_size": 2560,
            "max_position_embeddings": 131072,
            "num_attention_heads": 8,
            "num_hidden_layers": 34,
            "rope_local_base_freq": 10000.0,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            "rope_theta": 1000000.0,
            "sliding_window": 1024,
            "sliding_window_pattern": 6,
        },
        {"R060"},
    ),
    "gpt-oss 20B": (
        {
            "model_type": "gpt_oss",
            "head_dim": 64,
            "hidden_size": 2880,
            "initial_context_length": 4096,
            "layer_types": ["sliding_attention", "full_attention"] * 12,
            "max_position_embeddings": 131072,
            "num_attention_heads": 64,
            "num_hidden_layers": 24,
            "rope_scaling": {
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "factor": 32.0,
                "original_max_position_embeddings": 4096,
                "rope_type": "yarn",
                "truncate": False,
            },
            "rope_theta": 150000,
            "sliding_window": 128,
        },
        {"R034"},
    ),
    "DeepSeek-V3": (
        {
            "model_type": "deepseek_v3",
            "hidden_size": 7168,
            "max_position_embeddings": 163840,
            "num_attention_heads": 128,
            "num_hidden_layers": 61,
            "num_nextn_predict_layers": 1,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "rope_scaling": {
                "beta_fast": 32,
                "beta_slow": 1,
                "factor": 40,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
            "rope_theta": 10000,
        },
        {"R031"},
    ),
    "Kimi K2": (
        {
            "model_type": "kimi_k2",
            "hidden_size": 7168,
            "max_position_embeddings": 131072,
            "num_attention_heads": 64,
            "num_hidden_layers": 61,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "rope_scaling": {
                "beta_fast": 1.0,
                "beta_slow": 1.0,
                "factor": 32.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "original_max_position_embeddings": 4096,
                "type": "yarn",
            },
            "rope_theta": 50000.0,
        },
        {"R031"},
    ),
    "Phi-3.5 mini": (
        {
            "model_type": "phi3",
            "hidden_size": 3072,
            "max_position_embeddings": 131072,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "original_max_position_embeddings": 4096,
            "rope_scaling": {
                "long_factor": [1.08 + 1.3 * i for i in range(48)],
                "short_factor": [1.0 + 0.04 * i for i in range(48)],
                "type": "longrope",
            },
            "rope_theta": 10000.0,
            "sliding_window": 262144,
        },
        {"R044", "R047"},
    ),
    "Mistral 7B v0.1": (
        {
            "model_type": "mistral",
            "hidden_size": 4096,
            "max_position_embeddings": 32768,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "rope_theta": 10000.0,
            "sliding_window": 4096,
        },
        set(),
    ),
    "SmolLM3 3B": (
        {
            "model_type": "smollm3",
            "hidden_size": 2048,
            "layer_types": ["full_attention"] * 36,
            "max_position_embeddings": 65536,
            "no_rope_layer_interval": 4,
            "no_rope_layers": [1, 1, 1, 0] * 9,
            "num_attention_heads": 16,
            "num_hidden_layers": 36,
            "rope_scaling": None,
            "rope_theta": 5000000.0,
        },
        set(),
    ),
    "Pythia 1.4B": (
        {
            "model_type": "gpt_neox",
            "hidden_size": 2048,
            "max_position_embeddings": 2048,
            "num_attention_heads": 16,
            "rotary_emb_base": 10000,
            "rotary_pct": 0.25,
        },
        set(),
    ),
}
