"""How many heads the weights of a model have."""

from __future__ import annotations

from typing import Any

import pytest
from models.configs import DEEPSEEK_V3, GEMMA_3, GPT_OSS, LLAMA_31

from ropecli import ArgumentError, FileError, load_model
from ropecli.models.model import Heads, heads_of


def shape(found: Heads) -> tuple[int, int, int, int, int, str]:
    return (
        found.heads,
        found.kv_heads,
        found.head_dim,
        found.rotary_dim,
        found.rotary_offset,
        found.layout,
    )


QWEN_VL: dict[str, Any] = {
    "model_type": "some_vl",
    "text_config": LLAMA_31 | {"num_key_value_heads": 4},
    "vision_config": {
        "model_type": "x",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "rope_theta": 1e4,
    },
}


@pytest.mark.parametrize(
    ("config", "layer", "expected"),
    [
        (LLAMA_31, None, (32, 32, 128, 128, 0, "half")),
        (LLAMA_31 | {"num_key_value_heads": 8}, None, (32, 8, 128, 128, 0, "half")),
        (LLAMA_31 | {"n_kv_heads": 2, "head_dim": 64}, "all", (32, 2, 64, 64, 0, "half")),
        (GPT_OSS, None, (64, 64, 64, 64, 0, "half")),
        (GEMMA_3, None, (8, 8, 256, 256, 0, "half")),
        (DEEPSEEK_V3, None, (128, 128, 192, 64, 128, "interleaved")),
        (QWEN_VL, "all", (32, 4, 128, 128, 0, "half")),
        (QWEN_VL, "vision", (4, 4, 16, 16, 0, "half")),
    ],
)
def test_heads(config: dict[str, Any], layer: str | None, expected: tuple[Any, ...]) -> None:
    assert shape(heads_of(load_model(config), layer)) == expected


def test_layers_of_several_shapes_need_a_choice() -> None:
    with pytest.raises(ArgumentError, match=r"\(all, vision\) have heads of several shapes"):
        heads_of(load_model(QWEN_VL))
    with pytest.raises(ArgumentError, match="layer must be one of all, vision"):
        heads_of(load_model(QWEN_VL), "audio")


def test_a_file_that_does_not_say_it() -> None:
    config = {"model_type": "unknown", "head_dim": 64, "rope_theta": 1e4}
    with pytest.raises(FileError, match="has no num_attention_heads; pass heads, "):
        heads_of(load_model(config))
