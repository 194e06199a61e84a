"""Positions recovered from right vectors of Transformers' own rotary modules are not wrong."""

from __future__ import annotations

import importlib
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ropecli

pytestmark = pytest.mark.oracle

HEADS, DIM = 4, 128
FAMILIES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "qwen2.5-vl": (
        "qwen2_5_vl",
        "Qwen2_5_VLTextConfig",
        "Qwen2_5_VLRotaryEmbedding",
        {"rope_theta": 1_000_000.0, "mrope_section": [16, 24, 24]},
    ),
    "qwen3-vl": (
        "qwen3_vl",
        "Qwen3VLTextConfig",
        "Qwen3VLTextRotaryEmbedding",
        {"rope_theta": 5_000_000.0, "mrope_section": [24, 20, 20], "mrope_interleaved": True},
    ),
}


@pytest.mark.parametrize("kept", ["as it is", "in float32"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", FAMILIES)
def test_right_vectors_of_images_are_not_wrong(family: str, dtype: str, kept: str) -> None:
    import torch

    module, config, rotary, parameters = FAMILIES[family]
    folder = f"transformers.models.{module}"
    code = importlib.import_module(f"{folder}.modeling_{module}")
    settings = getattr(importlib.import_module(f"{folder}.configuration_{module}"), config)(
        hidden_size=HEADS * DIM,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        head_dim=DIM,
        rope_parameters={"rope_type": "default", **parameters},
    )
    image: dict[str, Any] = {
        "grids": [[1, 16, 24], [1, 8, 8]],
        "text": [11, 5, 2000],
        "mrope": family,
    }
    ids = ropecli.positions(**image).ids
    random, kind = torch.Generator().manual_seed(0), getattr(torch, dtype)
    x = torch.randn(1, HEADS, ids.shape[1], DIM, generator=random).to(kind)
    cos, sin = getattr(code, rotary)(settings)(x, torch.tensor(ids)[:, None])
    y, _ = code.apply_rotary_pos_emb(x, x, cos, sin)
    own = ml_dtypes.bfloat16 if dtype == "bfloat16" and kept == "as it is" else np.float32
    before, after = (each[0].float().numpy().astype(own) for each in (x, y))
    rope = ropecli.rope("default", head_dim=DIM, layout="half", **parameters)
    found = ropecli.positions(ropecli.recover_positions(rope, before, after), **image)
    assert (found.wrong, found.unexplained, found.passed) == (0, 0, True)
    assert found.error is not None
    shown = np.isfinite(found.error[0]).mean(axis=0)
    assert shown[0] == 1
    # The slow pairs of the width's section, in bfloat16, turn by less than they are rounded by.
    assert bool(shown.min() == 1) == (dtype == "float32" or family == "qwen3-vl")


def test_positions_of_a_running_model_need_no_other_description() -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        hidden_size=64,
        intermediate_size=64,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        num_hidden_layers=2,
        vocab_size=32,
    )
    model = Qwen3ForCausalLM(config)
    with torch.no_grad(), ropecli.watch(model) as seen:
        model(torch.arange(1000)[None] % 32)
    found = seen.positions(model)
    assert len(found) == 4
    for each in found.values():
        assert each.passed
        assert not each.uncertain
        assert "512 of 1,000 tokens looked at" in str(each)
