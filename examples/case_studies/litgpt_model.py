"""litgpt's rotary embedding, as function(x, positions).

A model's `rope_cache` builds the tables, `apply_rope` turns queries by the rows at positions.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from litgpt.model import GPT, Config, apply_rope, apply_rope_interleave


def llama(x: Any, positions: Any) -> Any:
    """Llama 3.1 8B, as litgpt lists it: halves."""
    return rotate(x, positions, "Llama-3.1-8B", apply_rope)


def deepseek_v3(x: Any, positions: Any) -> Any:
    """DeepSeek-V3: the last 64 of 192, YaRN of factor 40, trained on 4,096 positions."""
    still, turn = x.split([128, 64], dim=-1)
    turn = rotate(turn, positions, "DeepSeek-V3", apply_rope_interleave)
    return torch.cat([still, turn], dim=-1)


def rotate(x: Any, positions: Any, name: str, apply: Any) -> Any:
    """Rotate queries as litgpt's attention does."""
    places = torch.atleast_2d(positions)
    cos, sin = (table[places] for table in tables(name))
    queries = x.reshape(len(places), -1, *x.shape[-2:])
    return apply(queries, cos, sin).reshape(x.shape)


@cache
def tables(name: str) -> Any:
    """cos and sin for all positions of the context."""
    if name == "DeepSeek-V3":
        settings = Config(
            name=name,
            block_size=163_840,
            head_size=64,
            n_embd=64,
            n_head=1,
            n_layer=1,
            rotary_percentage=1.0,
            rope_interleave=True,
            rope_adjustments={
                "factor": 40.0,
                "beta_fast": 32,
                "beta_slow": 1,
                "original_max_seq_len": 4096,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
        )
    else:
        settings = Config.from_name(name, n_layer=1)
    with torch.device("meta"):  # no weights are needed
        model = GPT(settings)
    return model.rope_cache(device=torch.device("cpu"))
