"""Configurations of models with parts, small ones of ten families."""

from __future__ import annotations

from typing import Any

Values = dict[str, Any]
_TEXT: Values = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "head_dim": 64,
    "max_position_embeddings": 8192,
}


def _composite(model_type: str, text_type: str, **own: Any) -> Values:
    return {"model_type": model_type, "text_config": _TEXT | {"model_type": text_type} | own}


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
COMPOSITES: dict[str, Values] = {
    "llava of llama": _composite("llava", "llama", rope_theta=5e5),
    "llava of mistral": _composite("llava_next", "mistral", rope_theta=1e6),
    "mistral3": _composite(
        "mistral3", "mistral", rope_parameters={"rope_type": "default", "rope_theta": 1e9}
    ),
    "internvl of qwen2": _composite("internvl", "qwen2", rope_theta=1e6),
    "llava of qwen3, yarn": _composite("llava", "qwen3", rope_theta=1e6, rope_scaling=YARN),
    "mistral3, a factor on attention": _composite(
        *("mistral3", "mistral"),
        rope_parameters={**YARN, "rope_theta": 1e9, "attention_factor": 1.25},
    ),
    "idefics3 of llama, llama3": _composite(
        *("idefics3", "llama"),
        rope_theta=5e5,
        rope_scaling=LLAMA3 | {"original_max_position_embeddings": 1024},
    ),
    "paligemma of gemma2": _composite("paligemma", "gemma2"),
    "gemma3": _composite("gemma3", "gemma3_text", sliding_window=512, rope_theta=1e6),
    "qwen3_vl": _composite(
        *("qwen3_vl", "qwen3_vl_text"),
        rope_theta=5e6,
        rope_scaling={"rope_type": "default", "mrope_section": [12, 10, 10]},
    ),
    "qwen3_5": _composite(
        *("qwen3_5", "qwen3_5_text"),
        rope_parameters={"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.5},
    ),
    "glm4v": _composite("glm4v", "glm4v_text", rope_theta=1e4, partial_rotary_factor=0.5),
    "llama4": _composite(
        *("llama4", "llama4_text"),
        rope_theta=5e5,
        no_rope_layers=[1, 1, 1, 0],
        attn_temperature_tuning=False,
    ),
}
