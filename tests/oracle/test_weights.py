"""Expected lengths from weights, against the vectors of Transformers' models for white input."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_within, read_json

import ropecli
from ropecli.files.weights import INPUT_NORMS
from ropecli.models.architectures import architecture, table

pytestmark = pytest.mark.oracle

CALLS, TOKENS, WIDTH = 8, 512, 64
SIZES = {
    "hidden_size": WIDTH,
    "intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 1,
    "vocab_size": 8,
    "pad_token_id": 0,
}
#: By name the options of a configuration, and by how much a norm of queries and keys is off.
MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "llama": ({"head_dim": 16}, 0.0),
    "qwen2": ({}, 0.0),  # has biases
    "qwen3": ({"head_dim": 32}, 0.15),  # norms of queries and keys
    "gemma3_text": ({"head_dim": 32, "layer_types": ["full_attention"]}, 0.15),  # of 1 + weight
    "olmo2": ({}, 0.1),  # over all heads
    "phi3": ({}, 0.0),  # fused
    "gpt_neox": ({"rotary_pct": 0.5, "num_key_value_heads": 4}, 0.0),
    "falcon": ({"bias": True}, 0.0),  # one key head
    "falcon, grouped": ({"new_decoder_architecture": True, "num_kv_heads": 2}, 0.0),
    "stablelm": ({"use_qkv_bias": True}, 0.0),  # LayerNorm
    "qwen3_5_text": ({"head_dim": 32, "layer_types": ["full_attention"]}, 0.15),  # gates
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_lengths_that_its_weights_are_expected_to_make(
    name: str, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoConfig, AutoModel

    more, approximation = MODELS[name]
    torch.manual_seed(0)
    config = AutoConfig.for_model(name.partition(",")[0], **SIZES | more)
    config._attn_implementation = "eager"
    model = AutoModel.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
            if parameter.ndim == 2:  # rows of different lengths
                parameter.mul_(torch.exp(0.7 * torch.randn(len(parameter), 1)))
    model.save_pretrained(tmp_path)
    with torch.no_grad(), ropecli.watch(model) as seen:
        for _ in range(CALLS):
            model(inputs_embeds=torch.randn(1, TOKENS, WIDTH), use_cache=False)
    layer = ropecli.load_model(tmp_path).rotating_layers()[0]
    assert layer.rotary is not None
    measured = seen.usage(layer.rotary)
    command = ("usage", "--weights", tmp_path, "--model", tmp_path, "--layer", layer.name)
    found = read_json(*command)["result"]
    for role in ("q_norms", "k_norms"):
        expected = getattr(measured, role)
        # 5 standard deviations of the mean of a length, each at most 0.76 of it; a normed vector
        # of n coordinates is not normal, which changes lengths by 1 / 4n or so.
        relative = 5 * 0.76 / (CALLS * TOKENS) ** 0.5 + 0.5 / WIDTH + approximation
        got = np.array(found[role])
        # Falcon repeats its keys before it rotates them.
        got = np.repeat(got, expected.shape[1] // got.shape[1], axis=1)
        assert_within(role, got=got, expected=expected, tolerance=relative * expected)
        assert expected.max() > 3 * expected.min()


def test_models_whose_norms_multiply_by_one_and_their_weight() -> None:
    """The fact `centered_norms` is that of the norm next to the attention, in its source."""
    centered = set()
    for name, entry in table().items():
        facts = architecture(name).facts if isinstance(entry, dict) else {}
        source = re.fullmatch(r"modeling_(\w+)\.py, (\w+)", facts.get("source", ""))
        if source is None or facts.get("outside"):
            continue
        module = importlib.import_module(f"transformers.models.{source[1]}.modeling_{source[1]}")
        classes = re.split(r"\n(?=class )", inspect.getsource(module))
        norms = {
            norm
            for layer in classes
            if f"= {source[2]}(" in layer
            for norm in re.findall(rf"self\.(?:{'|'.join(INPUT_NORMS)}) = (\w+)\(", layer)
        }
        for each in classes:
            if each.startswith(tuple(f"class {norm}(" for norm in norms)):
                adds_one = "1.0 + self.weight" in each or "self.weight + 1.0" in each
                assert adds_one == facts.get("centered_norms", False), name
                centered |= {name} if adds_one else set()
    assert len(centered) >= 14
