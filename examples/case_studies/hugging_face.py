"""Rotary embeddings of Transformers' models, each as function(x, positions).

A module and an application are the model's own, made from its config.json in `models`.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

MODELS = Path(__file__).parent / "models"


def llama(x: Any, positions: Any) -> Any:
    """Llama 3.1: halves, llama3 scaling."""
    return rotate(x, positions, "llama", "Llama", "llama-3.1-8b")


def glm4(x: Any, positions: Any) -> Any:
    """GLM-4: interleaved, the first half of the head."""
    return rotate(x, positions, "glm4", "Glm4", "glm-4-9b")


def cohere(x: Any, positions: Any) -> Any:
    """Command R: interleaved."""
    return rotate(x, positions, "cohere", "Cohere", "command-r")


def gpt_oss(x: Any, positions: Any) -> Any:
    """gpt-oss: halves, YaRN without truncation."""
    return rotate(x, positions, "gpt_oss", "GptOss", "gpt-oss-20b")


def gemma3_full(x: Any, positions: Any) -> Any:
    """Gemma 3, every sixth layer: halves, base 1e6, linear factor 8."""
    return rotate(x, positions, "gemma3", "Gemma3", "gemma-3-4b", layer_type="full_attention")


def gemma3_sliding(x: Any, positions: Any) -> Any:
    """Gemma 3, the other layers: halves, base 1e4."""
    return rotate(x, positions, "gemma3", "Gemma3", "gemma-3-4b", layer_type="sliding_attention")


def deepseek_v3(x: Any, positions: Any) -> Any:
    """DeepSeek-V3: the last 64 of 192, read interleaved and written in halves; YaRN."""
    still, turn = x.split([128, 64], dim=-1)
    name = "apply_rotary_pos_emb_interleave"
    turn = rotate(turn, positions, "deepseek_v3", "DeepseekV3", "deepseek-v3", apply=name)
    return torch.cat([still, turn], dim=-1)


def gptj(x: Any, positions: Any) -> Any:
    """GPT-J: interleaved, 64 of 256 coordinates, a table of 2,048 positions."""
    code = modeling("gptj")
    settings = config("gpt-j-6b")
    tables = code.create_sinusoidal_positions(settings.n_positions, settings.rotary_dim)
    places = rows(positions)[..., None].expand(-1, -1, settings.rotary_dim)
    sincos = tables.repeat(len(places), 1, 1).gather(1, places)
    sin, cos = sincos.to(x.dtype).chunk(2, dim=-1)
    heads = in_heads(x, positions).transpose(1, 2)  # GPT-J holds (batch, sequence, heads, dim)
    turn, still = heads[..., : settings.rotary_dim], heads[..., settings.rotary_dim :]
    turn = code.apply_rotary_pos_emb(turn, sin, cos)
    return torch.cat([turn, still], dim=-1).transpose(1, 2).reshape(x.shape)


def rotate(
    x: Any,
    positions: Any,
    folder: str,
    prefix: str,
    model: str,
    *,
    apply: str = "apply_rotary_pos_emb",
    **layer: str,
) -> Any:
    """Rotate queries by a model's own code."""
    queries = in_heads(x, positions)
    cos, sin = rotary_embedding(folder, prefix, model)(queries, rows(positions), **layer)
    return getattr(modeling(folder), apply)(queries, queries, cos, sin)[0].reshape(x.shape)


def in_heads(x: Any, positions: Any) -> Any:
    """Return vectors as (batch, heads, sequence, head dim)."""
    return x.reshape(len(rows(positions)), -1, *x.shape[-2:])


def rows(positions: Any) -> Any:
    """Return positions as (batch, sequence)."""
    return torch.atleast_2d(positions)


@cache
def rotary_embedding(folder: str, prefix: str, model: str) -> Any:
    """The model's rotary module."""
    return getattr(modeling(folder), f"{prefix}RotaryEmbedding")(config(model))


@cache
def config(model: str) -> Any:
    """The model's configuration, as Transformers reads it."""
    return AutoConfig.from_pretrained(MODELS / f"{model}.json")


def modeling(folder: str) -> Any:
    """The module with a model's code."""
    return import_module(f"transformers.models.{folder}.modeling_{folder}")
