"""Factors that divide the frequencies, as llama.cpp applies them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.gguf.built import assert_turns, only, rotary, with_divisors
from models.gguf.llama_cpp import turned
from models.gguf.writer import model

N = 16
#: What float32 holds, so that both sides see the same number.
singles = st.floats(1.0, 64.0, width=32)


@st.composite
def keys(draw: st.DrawFn) -> dict[str, Any]:
    """Keys of rope.*, each of them there or not."""
    choices: dict[str, st.SearchStrategy[Any]] = {
        "freq_base": st.sampled_from([10_000.0, 500_000.0, 1e6]),
        "scaling.type": st.sampled_from(["none", "linear", "yarn", "longrope"]),
        "scaling.factor": st.one_of(st.just(0.0), singles),
        "scale_linear": singles,
        "scaling.original_context_length": st.sampled_from([128, 4096, 8192]),
        "scaling.attn_factor": st.floats(0.5, 2.0, width=32),
        "scaling.yarn_ext_factor": st.floats(-1.0, 1.0, width=32),
        "scaling.yarn_attn_factor": st.floats(0.5, 2.0, width=32),
        "scaling.yarn_beta_fast": st.floats(2.0, 64.0, width=32),
        "scaling.yarn_beta_slow": st.floats(0.25, 2.0, width=32),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(choices))))
    return {"context_length": 65_536} | {name: draw(choices[name]) for name in sorted(chosen)}


def model_with(architecture: str, keys: dict[str, Any], **more: object) -> dict[str, object]:
    rope = {name if name == "context_length" else f"rope.{name}": keys[name] for name in keys}
    return model(architecture, {"attention.key_length": N, **rope, **more})


@given(keys(), st.none() | st.lists(singles, min_size=N // 2, max_size=N // 2))
def test_frequencies_of_llama(keys: dict[str, Any], divisors: list[float] | None) -> None:
    inv_freq, attention, _ = turned(keys, n_dims=N, divisors=divisors)
    layer = only(model_with("llama", keys), with_divisors(divisors) if divisors else None)
    assert_turns(f"{keys} {divisors}", layer, inv_freq, attention)


@given(keys())
def test_frequencies_where_the_keys_of_yarn_count(keys: dict[str, Any]) -> None:
    inv_freq, attention, _ = turned(keys, n_dims=N, yarn_keys=True, beta_fast=8.0)
    assert_turns(f"{keys}", only(model_with("grok", keys)), inv_freq, attention)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["deepseek2", "deepseek32"])
@given(keys=keys(), multiplier=st.sampled_from([0.0, 0.5, 1.0]))
def test_score_of_mla(architecture: str, keys: dict[str, Any], multiplier: float) -> None:
    # Without a factor above 1 it would alone multiply the score, which settings can't say.
    keys.pop("scaling.attn_factor", None)
    # 0.1 of float32 over 0.1 of float32 is 1; that of 0.05 is 0.5.
    stored = {"rope.scaling.yarn_log_multiplier": 0.1 * multiplier} if multiplier else {}
    layer = only(model_with(architecture, keys, **stored))
    inv_freq, attention, score = turned(
        keys, n_dims=N, log_multiplier=multiplier, is_deepseek2=architecture == "deepseek2"
    )
    assert_turns(f"{architecture} {keys}", layer, inv_freq, attention)
    # Some twenty roundings of 2^-53.
    assert rotary(layer).softmax_factor == pytest.approx(score, rel=1e-12)
