"""Factors that divide the frequencies, as llama.cpp applies them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.gguf.built import assert_turns, only, rotary, settings, with_divisors
from models.gguf.llama_cpp import turned
from models.gguf.writer import Tensor, divisors_of_llama3, float32, model

from ropecli.models.gguf.settings import LONG, SHORT

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


@pytest.mark.parametrize(
    ("changed", "rope_type", "original"), [(1.0, "llama3", 8192), (1.01, "longrope", None)]
)
def test_only_the_divisors_of_llama_3_1_are_named(
    changed: float, rope_type: str, original: int | None
) -> None:
    keys = {"context_length": 131_072, "attention.key_length": 128, "rope.freq_base": 500_000.0}
    divisors = divisors_of_llama3(64, 500_000.0)
    divisors[40] *= changed
    layer = only(model("llama", keys), with_divisors(divisors.tolist()))
    assert (layer.rope_type, layer.original_context_length) == (rope_type, original)
    assert layer.scaling.get("factor") == (8.0 if changed == 1 else None)
    inv_freq = [500_000.0 ** (-i / 64) / float(np.float32(divisors[i])) for i in range(64)]
    assert_turns(rope_type, layer, inv_freq, 1.0)


def test_gemma_4_is_named() -> None:
    keys = {
        "context_length": 131_072,
        "attention.key_length": 512,
        "attention.key_length_swa": 256,
        "rope.freq_base": 1e6,
        "rope.dimension_count": 512,
        "rope.dimension_count_swa": 256,
        "block_count": 6,
        "attention.sliding_window_pattern": [True] * 5 + [False],
    }
    found = settings(model("gemma4", keys), with_divisors([1.0] * 64 + [1e30] * 192))
    full, sliding = rotary(found["full_attention"]), rotary(found["sliding_attention"])
    assert found["full_attention"].rope_type == "proportional"
    assert (full.head_dim, full.rotary_dim, full.base) == (512, 512, 1e6)
    assert (full.inv_freq > 0).sum() == 64
    assert (sliding.head_dim, sliding.base, sliding.rope_type) == (256, 10_000.0, "default")


PLAIN = [10_000.0 ** (-i / 4) for i in range(4)]
HALVED = [f / 2 for f in PLAIN]
LISTS = {LONG: float32([1, 2, 4, 8]), SHORT: float32([1, 1, 1, 2])}
LONG_ONE = [f / d for f, d in zip(PLAIN, (1, 2, 4, 8), strict=True)]
SHORT_ONE = [f / d for f, d in zip(PLAIN, (1, 1, 1, 2), strict=True)]


@pytest.mark.parametrize(
    ("architecture", "tensors", "length", "expected"),
    [
        ("phi3", LISTS, 4096, SHORT_ONE),
        ("phi3", LISTS, 4097, LONG_ONE),
        ("phi3", {LONG: LISTS[LONG]}, 4096, PLAIN),  # one list alone leaves the other plain
        # Only some architectures use divisors.
        ("qwen2", with_divisors([2.0] * 4), None, PLAIN),
        ("llama", with_divisors([2.0] * 4), None, HALVED),
        ("unheard-of", with_divisors([2.0] * 4), None, HALVED),
    ],
)
def test_divisors_that_count(
    architecture: str, tensors: dict[str, Tensor], length: int | None, expected: list[float]
) -> None:
    keys = {
        "context_length": 131_072,
        "attention.key_length": 8,
        "rope.scaling.type": "longrope",
        "rope.scaling.original_context_length": 4096,
        "rope.scaling.attn_factor": 1.1875,
    }
    layer = only(model(architecture, keys), tensors)
    assert layer.original_context_length == 4096
    assert_turns(architecture, layer, expected, 1.1875, sequence_length=length)


def test_keys_of_yarn_are_ignored_by_most() -> None:
    keys = {
        "context_length": 131_072,
        "attention.key_length": 64,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32_768,
    }
    keys_of_yarn = {
        "rope.scaling.yarn_attn_factor": 3.0,
        "rope.scaling.yarn_ext_factor": 0.5,
        "rope.scaling.yarn_beta_fast": 4.0,
        "rope.scaling.yarn_beta_slow": 0.5,
        "rope.scaling.yarn_log_multiplier": 1.0,
    }
    without, with_them = (rotary(only(model("qwen3", k))) for k in (keys, {**keys, **keys_of_yarn}))
    assert without == with_them
    assert without.attention_factor == pytest.approx(0.1 * math.log(4) + 1)
    layer = only(model("mistral3", {**keys, **keys_of_yarn}))
    used = {
        name: keys_of_yarn[f"rope.{name}"]
        for name in ("scaling.yarn_beta_fast", "scaling.yarn_beta_slow")
    }
    of_rope = {name.removeprefix("rope."): value for name, value in keys.items()}
    inv_freq, attention, _ = turned(
        {**of_rope, **used}, n_dims=64, log_multiplier=1.0, yarn_keys=True
    )
    assert inv_freq != turned(of_rope, n_dims=64)[0]
    assert_turns("mistral3", layer, inv_freq, attention)
    assert attention == pytest.approx(1.0)  # m(4, 1) / m(4, 1)


def test_alpha_enlarges_the_base_of_hunyuan_alone() -> None:
    keys = {"context_length": 4096, "attention.key_length": 128, "rope.scaling.alpha": 1000.0}
    assert rotary(only(model("hunyuan-dense", keys))).base == pytest.approx(
        10_000 * 1000 ** (128 / 126)
    )
    assert rotary(only(model("llama", keys))).base == 10_000


def test_deepseek_4_has_two_bases() -> None:
    keys = {
        "context_length": 131_072,
        "attention.key_length": 512,
        "rope.dimension_count": 64,
        "rope.freq_base": 10_000.0,
        "attention.compress_rope_freq_base": 160_000.0,
        "attention.compress_ratios": [0, 4, 128, 0],
        "block_count": 4,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": 65_536,
    }
    found = settings(model("deepseek4", keys))
    main, compress = rotary(found["main"]), rotary(found["compress"])
    assert (main.rope_type, main.base, main.rotary_offset) == ("default", 10_000, 448)
    assert (compress.rope_type, compress.base) == ("yarn", 160_000)
    assert compress.attention_factor == pytest.approx(1.0)
    assert (found["main"].layers, found["compress"].layers) == ((0, 3), (1, 2))


def test_what_no_key_says_is_assumed_aloud() -> None:
    keys = {"context_length": 4096, "attention.key_length": 8}
    assert only(model("unheard-of", {**keys, "rope.scaling.factor": 2.0})).assumed == (
        "layout half: no key of a GGUF gives it, "
        "and 'unheard-of' is not an architecture of llama.cpp",
        "rotary dim 8, the whole head: the file has no unheard-of.rope.dimension_count",
        "rope_theta 10000: the file has no unheard-of.rope.freq_base",
        "scaling type linear: the file has no unheard-of.rope.scaling.type",
    )
    said = {**keys, "rope.dimension_count": 8, "rope.freq_base": 1e6}
    assert only(model("llama", said)).assumed == ()
    assert only(model("llama", {**said, "rope.scaling.type": "yarn"})).assumed == (
        "factor 1: the file has no llama.rope.scaling.factor",
    )
