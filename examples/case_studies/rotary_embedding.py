"""rotary-embedding-torch, as function(x, positions)."""

from __future__ import annotations

from typing import Any

import torch
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

#: One module for all calls, as a model has it.
MODULE = RotaryEmbedding(64)


def by_positions(x: Any, positions: Any) -> Any:
    """forward and apply_rotary_emb."""
    angles = MODULE(torch.atleast_2d(positions))[:, None]
    return apply_rotary_emb(angles, in_heads(x, positions)).reshape(x.shape)


def by_offset(x: Any, positions: Any) -> Any:
    """rotate_queries_or_keys, called once for each run of consecutive positions."""
    heads = in_heads(x, positions)
    turned = torch.empty_like(heads)
    for row, places in enumerate(torch.atleast_2d(positions).tolist()):
        starts = [i for i, m in enumerate(places) if i == 0 or m != places[i - 1] + 1]
        for begin, end in zip(starts, [*starts[1:], len(places)], strict=True):
            run = heads[row : row + 1, :, begin:end]
            there = MODULE.rotate_queries_or_keys(run, offset=places[begin])
            turned[row, :, begin:end] = there[0]
    return turned.reshape(x.shape)


def in_heads(x: Any, positions: Any) -> Any:
    """The same vectors as (batch, heads, sequence, head dim)."""
    return x.reshape(len(torch.atleast_2d(positions)), -1, *x.shape[-2:])
