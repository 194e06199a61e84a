"""The model classes of the installed mlx-lm, built at small width, and the rotations in them."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

#: Modules of mlx_lm.models that are not models.
PARTS = {
    "activations", "base", "bitlinear_layers", "cache", "gated_delta", "mla", "pipeline",
    "rope_utils", "ssm", "switch_layers",
}  # fmt: skip
#: It asks for a library of which it uses nothing.
sys.modules.setdefault("hf_olmo", ModuleType("hf_olmo"))
HEADS, HEAD, LAYERS = 2, 32, 8
#: A value of each key that a class may need, for a model of small width.
SMALL: dict[str, Any] = {
    "hidden_size": HEADS * HEAD, "hidden_dim": HEADS * HEAD, "d_model": HEADS * HEAD,
    "n_embd": HEADS * HEAD, "model_dim": HEADS * HEAD, "num_attention_heads": HEADS,
    "num_heads": HEADS, "n_heads": HEADS, "n_head": HEADS, "num_key_value_heads": HEADS,
    "num_kv_heads": HEADS, "n_kv_heads": HEADS, "head_dim": HEAD, "hidden_size_per_head": HEAD,
    "num_hidden_layers": LAYERS, "num_layers": LAYERS, "n_layers": LAYERS, "n_layer": LAYERS,
    "vocab_size": 64, "intermediate_size": 64, "max_position_embeddings": 4096,
    "rope_theta": 500_000.0, "tie_word_embeddings": False, "rms_norm_eps": 1e-5,
    "layer_norm_eps": 1e-5, "norm_eps": 1e-5, "layer_norm_epsilon": 1e-5, "hidden_act": "silu",
    "qk_rope_head_dim": 16, "qk_nope_head_dim": 24, "v_head_dim": 32, "kv_lora_rank": 32,
    "q_lora_rank": 32, "index_head_dim": 48, "index_n_heads": 2, "index_topk": 8,
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "num_experts_per_tok": 2,
    "n_shared_experts": 1, "num_shared_experts": 1, "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32, "first_k_dense_replace": 1, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "norm_topk_prob": True, "n_group": 1, "topk_group": 1,
    "routed_scaling_factor": 1.0, "attention_bias": False, "mlp_bias": False, "use_bias": False,
    "moe_layer_freq": 1, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
    "sliding_window": 64, "layer_types": ["sliding_attention", "full_attention"] * (LAYERS // 2),
    "partial_rotary_factor": 0.5, "rotary_pct": 0.25, "rotary_emb_base": 20_000,
    "rotary_dim": 16, "num_kv_reuse_layers": 2, "post_norm": False, "qk_norm": False,
    "sliding_window_layers": [0, 2], "conv_window": 2, "layer_group_size": 4,
    "group_norm_size": 1, "moe_num_experts": 4, "sliding_window_pattern": 4,
    "is_moe_layer": [False] * LAYERS, "rope_scaling": None, "use_qk_norm": False,
    "logits_scaling": 1.0, "attention_multiplier": 1.0, "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0, "moe_topk": 1, "num_shared_expert": 1,
    "use_mixed_mlp_moe": False, "use_cla": False, "cla_share_factor": 2, "conv_bias": False,
    "conv_L_cache": 3, "block_dim": 64, "block_ff_dim": 64, "block_multiple_of": 8,
    "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False, "use_expert_bias": False,
    "num_dense_layers": 1, "block_size": 64, "attention_chunk_size": 64,
    "interleave_moe_layer_step": 2, "intermediate_size_mlp": 64, "no_rope_layers": [1, 1, 1, 0] * 2,
    "attention_method": "MLA", "zero_expert_type": "identity", "ffn_hidden_size": 64,
    "expert_ffn_hidden_size": 32, "zero_expert_num": 1, "mla_scale_q_lora": False,
    "mla_scale_kv_lora": False, "hybrid_layer_pattern": [1, 0] * (LAYERS // 2),
    "add_swa_attention_sink_bias": False, "add_full_attention_sink_bias": False,
    "sliding_window_size": 64, "layernorm_epsilon": 1e-5, "swa_rope_theta": 30_000.0,
    "swa_num_attention_heads": HEADS, "swa_num_key_value_heads": HEADS, "swa_head_dim": 16,
    "swa_v_head_dim": 16, "dim_model_base": 32, "scale_depth": 1.0, "scale_emb": 1.0,
    "shared_intermediate_size": 64, "post_norm_eps": 1e-5, "layer_rope_theta": [5e5, 0.0] * 4,
    "final_logit_softcapping": 1.0, "output_multiplier": 1.0, "moe_hidden_size": 64,
    "mlp_hidden_size": 64, "embedding_size": 64, "linear_num_key_heads": 2,
    "linear_num_value_heads": 2, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
    "linear_conv_kernel_dim": 2, "linear_allow_neg_eigval": False,
    "num_transformer_layers": LAYERS, "ffn_dim_divisor": 8, "num_query_heads": [HEADS] * LAYERS,
    "ffn_multipliers": [1.0] * LAYERS, "dense_attention_every_n_layers": 2,
    "ff_intermediate_size": 64, "gegelu_limit": 1.0, "conv1d_width": 2, "logits_soft_cap": 1.0,
    "attention_window_size": 64, "use_qkv_bias": False, "num_attention_groups": HEADS,
    "global_head_dim": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8,
    "mamba_d_conv": 2, "mamba_d_ssm": 64, "mamba_n_groups": 1, "num_kv_shared_layers": 2,
    "vocab_size_per_layer_input": 64, "rope_local_base_freq": 20_000.0,
    "activation_sparsity_pattern": [0.0] * LAYERS, "hidden_size_per_layer_input": 8,
    "altup_num_inputs": 2, "altup_coef_clip": 1.0, "altup_correct_scale": True,
    "altup_active_idx": 0, "laurel_rank": 4,
}  # fmt: skip
#: Further or other keys that single classes need.
_NESTED = {
    "full_attention": {"rope_type": "default", "rope_theta": 200_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 20_000.0},
}
_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
_BETA = {"rope_type": "default", "llama_4_scaling_beta": 0.1, "rope_theta": 3e5}
_BETA["original_max_position_embeddings"] = 1024
OWN: dict[str, dict[str, Any]] = {
    "bailing_moe_v3": {"layer_types": None},
    "dbrx": {
        "ffn_config": {"ffn_hidden_size": 64, "moe_num_experts": 2, "moe_top_k": 1},
        "attn_config": {"kv_n_heads": HEADS, "clip_qkv": 8.0, "rope_theta": 500_000.0},
    },
    "deepseek_v2": {"rope_scaling": _YARN},
    "deepseek_v41": {"compress_ratios": [0, 4, 4, 0]},
    "exaone4": {"sliding_window_pattern": "LLLG"},
    "gemma4": {"layer_types": None},
    "gemma4_text": {"layer_types": None},
    "glm_moe_dsa": {"rope_parameters": {"rope_type": "default", "rope_theta": 3e5}},
    "granitemoehybrid": {"layer_types": ["attention"] * LAYERS},
    "hunyuan": {"rope_scaling": {"type": "dynamic", "factor": 1.0, "alpha": 1000.0}},
    "llama4": {"num_experts_per_tok": 1},
    "mellum": {"rope_parameters": _NESTED},
    "mimo_v2_flash": {"moe_layer_freq": [0] * LAYERS},
    "minicpm3": {"rope_scaling": {"long_factor": [1.5] * 8, "short_factor": [1.0] * 8}},
    "minimax_m3_vl": {"moe_layer_freq": [0] * LAYERS},
    "ministral3": {"rope_parameters": _BETA},
    "mistral4": {"rope_parameters": _BETA},
    "muse_spark": {
        "rope_parameters": {"rope_theta": 3e5},
        "mlp_layer_types": ["sparse"] * LAYERS,
        "num_shared_experts": 0,
    },
    "nemotron-nas": {
        "block_configs": [{"attention": {"n_heads_in_group": 1}, "ffn": {"ffn_mult": 1.0}}] * LAYERS
    },
    "openelm": {"num_kv_heads": [HEADS] * LAYERS},
    "recurrent_gemma": {"block_types": ["attention", "recurrent"]},
    "spark2_5": {"rope_parameters": _NESTED, "hidden_act": "gelu"},
    "step3p5": {"partial_rotary_factors": [1.0, 0.5] * (LAYERS // 2)},
}


@dataclass(frozen=True, kw_only=True)
class Rope:
    """A rotation in a built model, measured at position 1."""

    path: str
    theta: tuple[float, ...]
    factor: float
    interleaved: bool


def classes() -> list[str]:
    """Return the names of the modules that have a model class."""
    import mlx_lm.models

    found = [module.name for module in pkgutil.iter_modules(mlx_lm.models.__path__)]
    return [name for name in found if name not in PARTS]


def arguments(name: str) -> Any:
    """Return the class of a model's arguments; that after the dot, if there is one."""
    module, _, own = name.partition(".")
    return getattr(importlib.import_module(f"mlx_lm.models.{module}"), own or "ModelArgs")


def small(name: str, **more: Any) -> dict[str, Any]:
    """Return a configuration of small width, with its text within and around."""
    text = {**SMALL, **OWN.get(name, {}), **more}
    if arguments(name).__dataclass_fields__.keys() >= {"text_config"}:
        return {"model_type": name, **text, "text_config": {"model_type": name, **text}}
    return {"model_type": name, **text}


def build(config: Mapping[str, Any]) -> list[Rope]:
    """Build the model of a configuration, and measure its rotations."""
    from mlx_lm.utils import _get_classes

    model_class, args = _get_classes(dict(config))
    model = model_class(args.from_dict(copy.deepcopy(dict(config))))
    return list(_ropes(model))


def _ropes(model: Any) -> Iterator[Rope]:
    for path, module in model.named_modules():
        own = path.rpartition(".")[2]
        if own in ("rope", "index_rope", "rotary_emb") and type(module).__name__ != "NoPE":
            if not path.startswith("vision"):
                yield _measure(path, module)
        elif "_rope_freqs" in module:
            import mlx.core as mx

            freqs = module._rope_freqs
            yield _measure(
                path,
                lambda x, offset, freqs=freqs: mx.fast.rope(
                    x, 2 * len(freqs), traditional=False, base=None, scale=1.0, offset=offset,
                    freqs=freqs,
                ),
                2 * len(freqs),
            )  # fmt: skip


def _measure(path: str, rope: Any, dims: int | None = None) -> Rope:
    """Turn each basis vector to position 1: its own coordinate, and that of its partner."""
    import mlx.core as mx

    dims = dims or getattr(rope, "dims", None) or 2 * len(rope._freqs)
    turned = np.array(rope(mx.eye(dims)[None, :, None, :], offset=1)).reshape(dims, dims)
    interleaved = dims > 2 and abs(turned[0, 1]) > 0
    first = np.arange(0, dims, 2) if interleaved else np.arange(dims // 2)
    second = first + 1 if interleaved else first + dims // 2
    cosine, sine = turned[first, first], turned[first, second]
    return Rope(
        path=path,
        theta=tuple(np.arctan2(sine, cosine).tolist()),
        factor=float(np.hypot(cosine, sine).max()),
        interleaved=interleaved,
    )
