"""Ids of images and videos are those of Transformers' own functions."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ropecli
from ropecli.checks.positions.vision import FAMILIES, family_of

pytestmark = pytest.mark.oracle

MODELS = {
    "qwen2-vl": ("qwen2_vl", "Qwen2VLModel"),
    "qwen2.5-vl": ("qwen2_5_vl", "Qwen2_5_VLModel"),
    "qwen3-vl": ("qwen3_vl", "Qwen3VLModel"),
    "glm4v": ("glm4v", "Glm4vModel"),
    "ernie4.5-vl": ("ernie4_5_vl_moe", "Ernie4_5_VLMoeModel"),
}


def of_transformers(family: str, grids: list[list[int]], text: list[int], facts: Any) -> Any:
    """Return the ids that the model's class computes for grids among text."""
    import torch

    module, name = MODELS[family]
    model = getattr(
        importlib.import_module(f"transformers.models.{module}.modeling_{module}"), name
    )
    kinds: list[int] = []
    for length, grid in zip(text, [*grids, None], strict=True):
        kinds += [0] * length
        if grid is not None:
            t, h, w = grid
            video = t > 1
            merged = facts["temporal_merge_size"] if video and family == "ernie4.5-vl" else 1
            kinds += [1 + video] * (t // merged * h * w // facts["spatial_merge_size"] ** 2)
    videos = [grid for grid in grids if grid[0] > 1]
    images = [grid for grid in grids if grid[0] == 1]
    stub = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(**facts)))
    stub.get_vision_position_ids = model.get_vision_position_ids.__get__(stub)
    more = {}
    if family == "qwen2.5-vl" and videos:
        more = {"second_per_grid_ts": torch.tensor([facts["seconds"]] * len(videos))}
    ids, _ = model.get_rope_index(
        stub,
        torch.zeros(1, len(kinds), dtype=torch.long),
        torch.tensor([kinds]),
        image_grid_thw=torch.tensor(images) if images else None,
        video_grid_thw=torch.tensor(videos) if videos else None,
        **more,
    )
    return ids[:, 0].numpy()


@pytest.mark.parametrize("family", MODELS)
def test_ids_are_those_of_transformers(family: str) -> None:
    assert family_of(MODELS[family][0]) == family
    random = np.random.default_rng(0)
    for _ in range(50):
        merge = int(random.integers(1, 4))
        facts = {
            "spatial_merge_size": merge,
            "temporal_merge_size": 2,
            "tokens_per_second": int(random.integers(1, 26)),
            "seconds": float(random.choice([0.5, 1.0, 1.7])),
        }
        grids = []
        for _ in range(int(random.integers(1, 4))):
            t = 1 if FAMILIES[family].by_frame else 2 * int(random.integers(0, 4)) or 1
            grids.append([t, *(merge * random.integers(1, 6, 2)).tolist()])
        # Without text between them, Transformers takes two images for one.
        text = random.integers(1, 5, len(grids) + 1).tolist()
        expected = of_transformers(family, grids, text, facts)
        found = ropecli.positions(
            expected,
            grids=grids,
            mrope=family,
            text=text,
            seconds=facts["seconds"],
            config={"vision_config": facts},
        )
        assert found.passed, (facts, grids, text, found.cause)


def test_positions_of_a_running_model_are_recovered() -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "vocab_size": 32,
    }
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **settings))
    expected = ropecli.load_model({"model_type": "llama", **settings})
    tokens = torch.arange(12)[None] % 32
    packed = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]])
    with torch.no_grad(), ropecli.watch(model) as seen:
        model(tokens, position_ids=packed)
    found = seen.positions(expected)
    assert set(found) == {
        f"model.layers.{index}.self_attn.{role}" for index in (0, 1) for role in ("query", "key")
    }
    for each in found.values():
        assert each.passed
        assert each.uncertain == 0
        assert each.got is not None
        assert each.got[0].tolist() == packed[0].tolist()

    rotary = model.model.rotary_emb
    forward = rotary.forward
    rotary.forward = lambda x, position_ids: forward(x, position_ids + (position_ids > 6))
    with torch.no_grad(), ropecli.watch(model) as seen:
        model(tokens)
    for each in seen.positions(expected).values():
        assert each.cause is not None
        assert each.cause.startswith("off by one from token 7 on, too large: expected 7")
