"""Permuted weights under Transformers' own rotations: GPT-J's before, Llama's after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray
from safetensors.numpy import load_file

from ropecli import permute
from ropecli.files.formats.safetensors import serialize

pytestmark = pytest.mark.oracle

Array = NDArray[Any]
HEADS, KV_HEADS, DIM, WIDTH, SEQUENCE = 4, 2, 16, 32, 64


def queries_and_keys(weights: dict[str, Array], hidden: Array) -> tuple[Any, Any]:
    """Queries and keys, each (1, heads, sequence, dim), as tensors."""
    import torch

    found = []
    for role, heads in (("q", HEADS), ("k", KV_HEADS)):
        x = hidden @ weights[f"{role}_proj.weight"].T + weights[f"{role}_proj.bias"]
        heads_apart = x.reshape(1, SEQUENCE, heads, DIM).swapaxes(1, 2)
        found.append(torch.from_numpy(np.ascontiguousarray(heads_apart)))
    return found[0], found[1]


def scores(q: Any, k: Any) -> Array:
    found: Array = (q @ k.repeat_interleave(HEADS // KV_HEADS, 1).transpose(-1, -2)).numpy()
    return found


def gptj(weights: dict[str, Array], hidden: Array) -> Array:
    import torch
    from transformers.models.gptj.modeling_gptj import (
        apply_rotary_pos_emb,
        create_sinusoidal_positions,
    )

    table = create_sinusoidal_positions(SEQUENCE, DIM)[None].double()
    sin, cos = torch.split(table, DIM // 2, dim=-1)
    turned = [
        apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2)
        for x in queries_and_keys(weights, hidden)
    ]
    return scores(*turned)


def llama(weights: dict[str, Array], hidden: Array) -> Array:
    import torch
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    sin, cos = torch.split(create_sinusoidal_positions(SEQUENCE, DIM).double(), DIM // 2, dim=-1)
    twice = [torch.cat((table, table), dim=-1)[None] for table in (cos, sin)]
    return scores(*apply_rotary_pos_emb(*queries_and_keys(weights, hidden), *twice))


def test_llama_scores_permuted_weights_as_gptj_does_the_old(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    old = {}
    for role, heads in (("q", HEADS), ("k", KV_HEADS)):
        old[f"{role}_proj.weight"] = random.standard_normal((heads * DIM, WIDTH))
        old[f"{role}_proj.bias"] = random.standard_normal(heads * DIM)
    (tmp_path / "old.safetensors").write_bytes(serialize(old))
    new = tmp_path / "new.safetensors"
    permute(tmp_path / "old.safetensors", new, to="half", heads=HEADS, kv_heads=KV_HEADS)
    hidden = random.standard_normal((SEQUENCE, WIDTH))
    before, after = gptj(old, hidden), llama(load_file(new), hidden)
    # Both have the same tables, in float64: a product of WIDTH terms and a bias for q and for k, a
    # rotation with 3 roundings, and a score of DIM terms; each rounds by 2^-53 of |q| |k|.
    rows = [
        np.linalg.norm(w.reshape(-1, DIM * WIDTH), axis=1).max() for w in list(old.values())[::2]
    ]
    biases = [np.linalg.norm(b.reshape(-1, DIM), axis=1).max() for b in list(old.values())[1::2]]
    state = np.linalg.norm(hidden, axis=1).max()
    q, k = (row * state + bias for row, bias in zip(rows, biases, strict=True))
    allowed = 2 * (2 * (WIDTH + 1 + 3) + DIM) * 2.0**-53 * q * k
    assert_within("scores", got=after, expected=before, tolerance=allowed)
    assert np.abs(llama(old, hidden) - before).max() > 1
