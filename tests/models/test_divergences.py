"""The same file in two stacks: `diff` finds what was measured on the stacks themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from models.configs import DEEPSEEK_V3, DYNAMIC, GPT_OSS, PHI_3, QWEN3_VL

from ropecli import diff, load_model
from ropecli.models.diff import LayerDifference
from ropecli.models.stacks import STACKS

OTHERS = [name for name in STACKS if name not in ("transformers", "paper")]


def apart(
    config: dict[str, Any], stack: str, *positions: int, length: int | None = None
) -> LayerDifference:
    """Transformers against another stack."""
    here = load_model(config, sequence_length=length)
    there = load_model(config, sequence_length=length, reading=stack)
    (layer,) = diff(here, there, positions=positions or None).layers
    return layer


def fields(layer: LayerDifference) -> dict[str, tuple[Any, Any]]:
    return {field.name: (field.a, field.b) for field in layer.fields}


def yarn(factor: float, **more: Any) -> dict[str, Any]:
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096}
    return {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": int(4096 * factor),
        "rope_scaling": scaling | more,
    }


@pytest.mark.parametrize("stack", ["llama.cpp", "mlx-lm"])
def test_truncate_false(stack: str) -> None:
    layer = apart(GPT_OSS, stack, 4096)
    assert list(fields(layer)) == ["inv_freq[9]"]
    assert layer.phase[0].max_radians == pytest.approx(0.90, abs=0.005)
    table = np.array(layer.per_pair)
    assert np.count_nonzero(table * 4096 > 0.1) == 9
    exact = load_model(GPT_OSS).layer().rotary
    assert exact is not None
    assert table[17] / exact.inv_freq[17] == pytest.approx(0.76, abs=0.005)


def test_truncate_false_is_honoured_by_vllm() -> None:
    assert apart(GPT_OSS, "vllm").same


@pytest.mark.parametrize("stack", OTHERS)
def test_attn_factor_is_read_by_none(stack: str) -> None:
    config = yarn(4.0, attn_factor=0.8782488562869419)
    assert apart(config, stack).same
    layer = load_model(config, reading=stack).layer()
    assert layer.rotary is not None
    assert layer.rotary.attention_factor == pytest.approx(1.1386, abs=5e-5)


def test_attention_factor_is_not_read_by_mlx_lm() -> None:
    config = yarn(64.0, attention_factor=1.0)
    here, there = fields(apart(config, "mlx-lm"))["attention_factor"]
    assert here == 1.0
    assert (there / here) ** 2 == pytest.approx(2.0, abs=0.005)  # on scores
    assert apart(config, "vllm").same


@pytest.mark.parametrize("stack", OTHERS)
def test_equal_mscales_cancel(stack: str) -> None:
    config = yarn(16.0, mscale=1.0, mscale_all_dim=1.0)
    assert apart(config, stack).same
    here, there = fields(apart(config, "paper"))["attention_factor"]
    assert here == 1.0
    assert there**2 == pytest.approx(1.63, abs=0.005)


def test_a_lone_mscale() -> None:
    here, there = fields(apart(yarn(40.0, mscale=0.707), "mlx-lm"))["attention_factor"]
    assert (here, there) == (pytest.approx(1.3689, abs=5e-5), pytest.approx(1.2608, abs=5e-5))


@pytest.mark.parametrize(
    ("length", "base"), [(None, 10_000), (2048, 10_000), (4096, 51_294), (16_384, 305_922)]
)
def test_dynamic_is_static_in_vllm(length: int | None, base: float) -> None:
    found = fields(apart(DYNAMIC, "vllm", length=length))["base"]
    assert found == (pytest.approx(base, abs=0.5), pytest.approx(135_402, abs=0.5))


def test_dynamic_in_vllm_is_right_at_one_length() -> None:
    assert apart(DYNAMIC, "vllm", length=8192).same


def test_dynamic_in_vllm_needs_no_whole_length() -> None:
    """1.3 times 2048 is no number of positions; the base follows from it all the same."""
    config = DYNAMIC | {"rope_scaling": {"type": "dynamic", "factor": 1.3}}
    rope = load_model(config, reading="vllm").layer().rotary
    assert rope is not None
    # 1.3 * 1.3 - 0.3, and a power of it: a few roundings.
    assert rope.base == pytest.approx(10_000 * (1.3 * 1.3 - 0.3) ** (128 / 126), rel=1e-14)


def test_dynamic_is_unknown_to_llama_cpp() -> None:
    assert apart(DYNAMIC, "llama.cpp", length=2048).same
    assert set(fields(apart(DYNAMIC, "llama.cpp", length=4096))) >= {"base", "inv_freq[1]"}


@pytest.mark.parametrize(
    ("stack", "length", "same"),
    [
        ("vllm", None, False),  # the server admits more than the original length
        ("vllm", 4096, True),
        ("vllm", 4097, True),
        ("llama.cpp", None, False),
        ("llama.cpp", 4096, True),
        ("llama.cpp", 4097, True),
        ("mlx-lm", None, False),  # always the long list
        ("mlx-lm", 4096, False),
        ("mlx-lm", 4097, True),
    ],
)
def test_which_list_of_longrope(stack: str, length: int | None, same: bool) -> None:
    assert apart(PHI_3, stack, length=length).same is same


def test_proportional_taken_for_partial() -> None:
    """Gemma 4's quarter: pairs across the whole head, against a head of its own."""
    config: dict[str, Any] = {
        "hidden_size": 2048,
        "num_attention_heads": 4,
        "head_dim": 512,
        "rope_scaling": {
            "rope_type": "proportional",
            "rope_theta": 1e6,
            "partial_rotary_factor": 0.25,
        },
    }
    partial = config | {"rope_scaling": config["rope_scaling"] | {"rope_type": "default"}}
    a, b = load_model(config), load_model(partial)
    (layer,) = diff(a, b).layers
    assert {"rotary_dim", "inv_freq[1]"} < set(fields(layer))
    here, there = a.layer().rotary, b.layer().rotary
    assert here is not None
    assert there is not None
    assert here.inv_freq[63] == pytest.approx(3.3e-2, rel=0.02)
    assert there.inv_freq[63] == pytest.approx(1.2e-6, rel=0.04)
    assert [rope.pairs_in[0].tolist() for rope in (here, there)] == [[0, 256], [0, 64]]


def test_leftover_pairs_of_interleaved_sections() -> None:
    layer = apart(QWEN3_VL, "llama.cpp", 10_000, 262_144)
    assert list(fields(layer)) == ["axis"]
    assert np.flatnonzero(layer.per_pair).tolist() == [61, 62]
    assert [p.max_radians for p in layer.phase] == pytest.approx([0.004, 0.108], abs=5e-4)


@pytest.mark.parametrize("stack", OTHERS)
def test_the_score_factor_of_deepseek_is_carried_by_all(stack: str) -> None:
    assert apart(DEEPSEEK_V3, stack).same
    rope = load_model(DEEPSEEK_V3, reading=stack).layer().rotary
    assert rope is not None
    assert rope.softmax_factor == pytest.approx((0.1 * math.log(40) + 1) ** 2, rel=1e-14)
