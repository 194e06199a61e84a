"""The same file in each stack: the published numbers of their differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from models.configs import DEEPSEEK_V3, DYNAMIC, GPT_OSS, QWEN3_VL

from ropecli import ArgumentError, FileError, Rotary, load_model
from ropecli.models.stacks import STACKS


def rotary(config: dict[str, Any], reading: str, **more: Any) -> Rotary:
    found = load_model(config, reading=reading, **more).layer().rotary
    assert found is not None
    return found


def yarn(factor: float, **more: Any) -> dict[str, Any]:
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096}
    return {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": int(4096 * factor),
        "rope_scaling": scaling | more,
    }


def test_transformers_is_the_default_of_a_config() -> None:
    assert load_model(GPT_OSS).reading == "transformers"


def test_truncate_false_is_honoured_by_two_and_not_by_two() -> None:
    exact = rotary(GPT_OSS, "transformers").inv_freq
    assert rotary(GPT_OSS, "vllm").inv_freq.tolist() == exact.tolist()
    for stack in ("llama.cpp", "mlx-lm"):
        rounded = rotary(GPT_OSS, stack).inv_freq
        assert abs(rounded / exact - 1)[17] == pytest.approx(0.76, abs=0.005)
        apart = abs(rounded - exact)
        assert 4096 * apart.max() == pytest.approx(0.90, abs=0.005)
        assert np.count_nonzero(apart * 4096 > 0.1) == 9


@pytest.mark.parametrize("model_type", ["gpt_neox", "cohere2"])
def test_the_converter_needs_rotary_pct(model_type: str) -> None:
    sizes = {"hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
    config = {"model_type": model_type, "partial_rotary_factor": 0.5, **sizes}
    with pytest.raises(FileError, match=f"'{model_type}' to a GGUF needs rotary_pct"):
        load_model(config, reading="llama.cpp")
    found = load_model(config | {"rotary_pct": 0.25}, reading="llama.cpp").layers
    assert {layer.rotary.rotary_dim for layer in found if layer.rotary} == {16}


EVERY_STACK = [name for name in STACKS if name != "paper"]


@pytest.mark.parametrize(
    ("factor", "keys", "expected"),
    [
        (40.0, {"mscale": 0.707}, {"transformers": 1.3689, "mlx-lm": 1.2608}),
        (64.0, {"attention_factor": 1.0}, {"transformers": 1.0, "mlx-lm": 1.4159}),
        (
            16.0,
            {"mscale": 1.0, "mscale_all_dim": 1.0},
            dict.fromkeys(EVERY_STACK, 1.0) | {"llama.cpp": 1.2773},  # its converter drops them
        ),
        (4.0, {"attn_factor": 0.8782488562869419}, dict.fromkeys(EVERY_STACK, 1.1386)),  # not read
    ],
)
def test_yarn_s_attention_factor(
    factor: float, keys: dict[str, float], expected: dict[str, float]
) -> None:
    for stack, value in expected.items():
        got = rotary(yarn(factor, **keys), stack).attention_factor
        # To the printed digits; 1 is exact.
        assert got == pytest.approx(value, abs=0 if value == 1 else 5e-5), stack


def test_dynamic_is_absent_in_vllm_and_llama_cpp() -> None:
    def base(stack: str, length: int | None) -> float | None:
        return rotary(DYNAMIC, stack, sequence_length=length).base

    bases = [base("transformers", n) for n in (None, 1, 2048, 4096, 8192)]
    assert bases == pytest.approx([10_000, 10_000, 10_000, 51_294, 135_402], abs=0.5)
    assert {base("vllm", n) for n in (None, 4096, 8192)} == {10_000}
    assert rotary(DYNAMIC, "llama.cpp", sequence_length=8192).base == 10_000
    # The paper's own: s = max(1, L'/L).
    assert base("paper", 8192) == pytest.approx(10_000 * 4 ** (128 / 126), rel=1e-14)


def test_deepseek_s_score_factor_is_read_by_transformers_and_vllm() -> None:
    for stack in ("transformers", "vllm", "llama.cpp", "mlx-lm"):
        made = rotary(DEEPSEEK_V3, stack)
        assert made.softmax_factor == pytest.approx(1.8739, abs=5e-5)
        assert made.attention_factor == 1.0
    assert rotary(DEEPSEEK_V3, "vllm").rope_type == "deepseek_yarn"
    assert (made.head_dim, made.rotary_dim, made.rotary_offset) == (192, 64, 128)
    assert (made.layout, made.reorders) == ("interleaved", False)  # written as it is read
    assert rotary(DEEPSEEK_V3, "transformers").reorders


def test_leftover_pairs_of_interleaved_sections() -> None:
    here, there = rotary(QWEN3_VL, "transformers"), rotary(QWEN3_VL, "llama.cpp")
    assert here.axis is not None
    assert there.axis is not None
    differing = [i for i, (a, b) in enumerate(zip(here.axis, there.axis, strict=True)) if a != b]
    assert differing == [61, 62]
    assert (here.axis[61], there.axis[61]) == (0, 3)
    text = QWEN3_VL | {"model_type": "qwen3_vl", "num_key_value_heads": 8}
    assert rotary(text, "mlx-lm").axes == 1


def test_the_paper_s_yarn() -> None:
    config = yarn(10.0, mscale=2.0, mscale_all_dim=1.0, attention_factor=3.0)
    made = rotary(config, "paper")
    assert made.attention_factor == pytest.approx(0.1 * math.log(10) + 1, rel=1e-15)
    assert dict(made.parameters)["ramp"] == "paper"


def test_vllm_refuses_two_rope_types() -> None:
    config = yarn(4.0, type="linear")
    with pytest.raises(FileError, match=r"vLLM 0\.33\.0 refuses this file: type 'linear'"):
        load_model(config, reading="vllm")
    assert rotary(config, "transformers").rope_type == "yarn"


def test_an_unknown_stack_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must be one of transformers, vllm"):
        load_model(DYNAMIC, reading="tensorrt")
