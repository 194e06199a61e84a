"""Positions from -1 to 1 across an image, as Transformers' own modules turn them into angles."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ropecli

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("dinov3_vit", {}),
        ("dinov3_vit", {"image_size": [224, 160], "hidden_size": 128, "num_attention_heads": 4}),
        ("dinov3_vit", {"image_size": 512, "patch_size": [32, 16], "rope_theta": 50.0}),
        ("sapiens2", {"image_size": [128, 96]}),
        ("eomt_dinov3", {}),
        ("eomt_dinov3", {"image_size": [96, 64], "hidden_size": 256, "num_attention_heads": 4}),
    ],
)
def test_the_table_is_the_step_from_patch_to_patch(model_type: str, keys: dict[str, Any]) -> None:
    import torch
    from transformers import AutoConfig

    rope = ropecli.load_model({"model_type": model_type, **keys}).layer().rotary
    assert rope is not None
    config = AutoConfig.for_model(model_type, **keys)
    file = import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    module_class = next(c for n, c in vars(file).items() if "Rope" in n or "Rotary" in n)
    image = config.image_size
    sides = image if isinstance(image, list) else [image, image]
    cos, sin = module_class(config).eval()(torch.zeros(1, 3, *sides))
    patches = ropecli.load_model({"model_type": model_type, **keys}).layer().image
    assert patches is not None
    rows, columns = patches
    assert len(cos) == rows * columns
    grid = np.indices(patches).reshape(2, -1).T + 0.5 - np.array(patches) / 2
    ones = np.ones((len(grid), rope.head_dim))
    halves = np.split(ropecli.rotate(ones, rope, positions=grid), 2, axis=-1)
    pairs = rope.head_dim // 2
    turned = (cos - sin).numpy()[:, :pairs], (cos + sin).numpy()[:, :pairs]
    np.testing.assert_allclose(halves, turned, rtol=0, atol=5e-5)
