"""x-transformers' rotary embedding, as function(x, positions)."""

from __future__ import annotations

from typing import Any

import torch
from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb


def rope(x: Any, positions: Any) -> Any:
    """RotaryEmbedding: interleaved."""
    return rotate(x, positions, RotaryEmbedding(64))


def xpos(x: Any, positions: Any) -> Any:
    """RotaryEmbedding with use_xpos: queries grow with position, so it is not a rotation."""
    return rotate(x, positions, RotaryEmbedding(64, use_xpos=True))


def rotate(x: Any, positions: Any, module: Any) -> Any:
    """Rotate queries as its attention does."""
    angles, scale = module(positions)
    queries = x.reshape(len(torch.atleast_2d(positions)), -1, *x.shape[-2:])
    return apply_rotary_pos_emb(queries, angles, scale).reshape(x.shape)
