"""Architectures of Transformers that `trace` is tried on: the defaults of their configurations."""

from __future__ import annotations

from typing import Any

from oracle.transformers_classes import TWEAKS

LAYERS = 6  #: Limit of layers; the first ones have all kinds.
#: Models that cannot be cut, as their last layers use results of the first ones.
WHOLE = ("gemma3n", "gemma3n_text")

#: Configurations as released models have them, of classes whose defaults build no model that runs
#: or rotates.
RELEASED: dict[str, dict[str, Any]] = {
    "bamba": {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 3,
        "attn_layer_indices": [1],
        "attn_rotary_emb": 64,
        "mamba_n_heads": 128,
    },
    "csm": {"num_hidden_layers": 2},
    "dbrx": {
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 2,
        "attn_config": {"clip_qkv": 8, "kv_n_heads": 8, "rope_theta": 500_000},
        "ffn_config": {"ffn_hidden_size": 10_752, "moe_num_experts": 16, "moe_top_k": 4},
    },
    "dory": {"num_hidden_layers": 8, "n_input_layers": 2, "n_output_layers": 2},
    "dots1": {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_hidden_layers": 2,
        "first_k_dense_replace": 1,
        "n_routed_experts": 128,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "n_group": 1,
        "topk_group": 1,
        "head_dim": 128,
        "rope_theta": 10_000_000,
    },
    "glm4v": {
        "text_config": {
            "model_type": "glm4v_text",
            "hidden_size": 4096,
            "num_attention_heads": 32,
            "num_key_value_heads": 2,
            "head_dim": 128,
            "partial_rotary_factor": 0.5,
            "num_hidden_layers": 2,
            "rope_theta": 10_000,
            "rope_scaling": {"type": "default", "mrope_section": [8, 12, 12]},
        },
        "vision_config": {"depth": 2},
    },
    "step3p5": {
        "hidden_size": 4096,
        "num_attention_heads": 64,
        "num_attention_groups": 8,
        "head_dim": 128,
        "num_hidden_layers": 2,
        "sliding_window": 512,
        "layer_types": ["full_attention", "sliding_attention"],
        "rope_theta": [5_000_000, 10_000],
        "partial_rotary_factors": [0.5, 1.0],
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": 96,
            "num_attention_groups": 8,
            "head_dim": 128,
            "true_head_dim": 128,
        },
        "moe_layers_enum": "1",
    },
    "zamba2": {
        "hidden_size": 2560,
        "num_attention_heads": 32,
        "num_hidden_layers": 3,
        "attention_head_dim": 160,
        "attention_hidden_size": 5120,
        "mamba_expand": 2,
        "n_mamba_heads": 80,
        "use_mem_rope": True,
        "num_mem_blocks": 1,
        "layers_block_type": ["mamba", "hybrid", "mamba"],
        "hybrid_layer_ids": [1],
    },
}


def config_of(model_type: str) -> dict[str, Any]:
    """Return the config.json of an architecture, with few layers."""
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[model_type]
    config = kind(**TWEAKS.get(kind.__name__, {}))
    keys: dict[str, Any] = config.to_dict() | {"model_type": model_type}
    text = config.get_text_config()
    part = keys
    if text is not config:
        own = (keys[name] for name in config.sub_configs if getattr(config, name) is text)
        part = next(own, {})  # deeper parts are not cut
    key = text.attribute_map.get("num_hidden_layers", "num_hidden_layers")
    count = part.get(key)
    if isinstance(count, int) and count > LAYERS and model_type not in WHOLE:
        lists = {k: v for k, v in part.items() if isinstance(v, list) and len(v) == count}
        part |= {name: value[:LAYERS] for name, value in lists.items()} | {key: LAYERS}
        layers = part.get("per_layer_config") or {}
        part["per_layer_config"] = {k: v for k, v in layers.items() if int(k) < LAYERS} or None
    return keys


def rotary_types() -> list[str]:
    """Return the architectures whose text model has a key of rotary embeddings."""
    from transformers import CONFIG_MAPPING

    found = []
    for name in sorted(CONFIG_MAPPING.keys()):
        try:
            keys = CONFIG_MAPPING[name]().get_text_config().to_dict()
        except Exception:  # needs parts, or has several
            continue
        if any("rope" in key or "rotary" in key for key in keys):
            found.append(name)
    return found
