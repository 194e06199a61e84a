"""Rotary modules of Transformers that have a table for each type of layer."""

from __future__ import annotations

import re
from typing import Any

import pytest

import ropecli
from ropecli.checks.implementation.calling.find import CallError

pytest.importorskip("transformers")

from transformers.models.gemma3 import modeling_gemma3
from transformers.models.gemma3.configuration_gemma3 import Gemma3TextConfig

pytestmark = pytest.mark.oracle

SMALL: dict[str, Any] = {"head_dim": 16, "context_length": 256, "fast": True, "isolated": False}
BASES = {"full_attention": 1_000_000.0, "sliding_attention": 10_000.0}


def module() -> Any:
    """Return a rotary module with two types of layers."""
    config = Gemma3TextConfig(
        head_dim=16,
        hidden_size=64,
        num_attention_heads=4,
        num_hidden_layers=6,
        max_position_embeddings=512,
    )
    return modeling_gemma3.Gemma3RotaryEmbedding(config)


def refusal(target: Any) -> str:
    with pytest.raises(CallError) as caught:
        ropecli.check(target, apply_with=modeling_gemma3.apply_rotary_pos_emb, **SMALL)
    return str(caught.value)


@pytest.mark.parametrize("layer_type", BASES)
def test_the_call_that_is_advised_works_for_each_type(layer_type: str) -> None:
    words = refusal(module())
    assert "its method forward requires 'layer_type'" in words
    assert "one of 'full_attention', 'sliding_attention'; name one in the call with call" in words
    found = re.search(r'such as "(.*)"', words)
    assert found is not None
    call = found[1].replace("full_attention", layer_type)
    options: dict[str, Any] = SMALL | {"apply_with": modeling_gemma3.apply_rotary_pos_emb}
    verdict = ropecli.check(module(), call=call, **options)
    assert verdict.passed, verdict.diagnosis
    assert verdict.identified is not None
    assert verdict.identified.base == BASES[layer_type]
    other = ropecli.Rotary(16, base=500_000.0, layout="half")
    assert ropecli.check(module(), call=call, expect=other, **options).passed is False


def test_a_class_has_no_types_without_its_configuration() -> None:
    words = refusal(modeling_gemma3.Gemma3RotaryEmbedding)
    assert "requires 'layer_type', one of those of its configuration" in words
    assert "give an instance as the target" in words
