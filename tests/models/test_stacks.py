"""The same file in each stack: the published numbers of their differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from models.configs import DEEPSEEK_V3, DYNAMIC, GPT_OSS, PHI_3, QWEN3_VL

from ropecli import ArgumentError, FileError, Rotary, load_model
from ropecli.models.stacks import STACKS


def rotary(config: dict[str, Any], reading: str, **more: Any) -> Rotary:
    found = load_model(config, reading=reading, **more).layer().rotary
    assert found is not None
    return found


def with_scaling(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    return config | {"rope_scaling": config["rope_scaling"] | more}


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


@pytest.mark.parametrize(
    ("model_type", "turns"), [("qwen3_vl_text", True), ("qwen2_vl_text", False)]
)
@pytest.mark.parametrize("given", [True, False, None])
def test_mrope_interleaved_is_read_by_vllm_only(
    model_type: str, turns: bool, given: bool | None
) -> None:
    """The code of Transformers and the architecture of a GGUF fix whether axes take turns."""
    scaling: dict[str, Any] = {"rope_type": "default", "mrope_section": [24, 20, 20]}
    scaling |= {} if given is None else {"mrope_interleaved": given}
    config = QWEN3_VL | {"model_type": model_type, "rope_scaling": scaling}
    runs = (0,) * 24 + (1,) * 20 + (2,) * 20
    assert (rotary(config, "transformers").axis != runs) is turns
    assert (rotary(config, "llama.cpp").axis != runs) is turns
    assert (rotary(config, "vllm").axis != runs) is (given is True)


def test_a_truncate_under_a_layer_type_is_not_read_by_transformers() -> None:
    entry = GPT_OSS["rope_scaling"] | {"rope_theta": 150_000}
    nested = {k: v for k, v in GPT_OSS.items() if k not in ("rope_scaling", "rope_theta")}
    nested |= {
        "model_type": "mellum",
        "layer_types": ["full_attention"],
        "rope_parameters": {"full_attention": entry},
    }
    truncated = rotary(with_scaling(GPT_OSS, truncate=True), "transformers")
    assert rotary(nested, "transformers").inv_freq.tolist() == truncated.inv_freq.tolist()
    exact = rotary(GPT_OSS, "vllm").inv_freq.tolist()
    assert rotary(nested, "vllm").inv_freq.tolist() == exact


@pytest.mark.parametrize("model_type", ["axk1", "deepseek_v3", "glm4_moe_lite", "kimi_k2"])
def test_vllm_rotates_latent_attention_interleaved(model_type: str) -> None:
    for given in (True, False):
        config = DEEPSEEK_V3 | {"model_type": model_type, "rope_interleave": given}
        rope = rotary(config, "vllm")
        assert rope.layout == "interleaved"
        assert np.array_equal(rope.pairs_out, rope.pairs_in)
    assert rotary(config, "transformers").layout == "half"


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
    here, there = rotary(config, "transformers"), rotary(partial, "transformers")
    assert here.inv_freq[63] == pytest.approx(3.3e-2, rel=0.02)
    assert there.inv_freq[63] == pytest.approx(1.2e-6, rel=0.04)
    assert [rope.pairs_in[0].tolist() for rope in (here, there)] == [[0, 256], [0, 64]]


@pytest.mark.parametrize(
    ("stack", "length", "is_long"),
    [
        ("transformers", None, False),
        ("transformers", 4096, False),
        ("transformers", 4097, True),
        ("vllm", None, False),  # by the longest that the server admits
        ("vllm", 4097, True),
        ("vllm", 4096, False),
        ("llama.cpp", None, True),
        ("llama.cpp", 4096, False),
        ("mlx-lm", None, True),
        ("mlx-lm", 100, True),
    ],
)
def test_which_list_of_longrope_is_taken(stack: str, length: int | None, is_long: bool) -> None:
    made = rotary(PHI_3, stack, sequence_length=length)
    factors = PHI_3["rope_scaling"]["long_factor" if is_long else "short_factor"]
    plain = 10_000.0 ** (-np.arange(48) / 48)
    # ln(base) half-ulps for the exponent on either side, and a division.
    assert made.inv_freq == pytest.approx(plain / np.array(factors), rel=2e-15 * 10)
    assert made.attention_factor == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)))


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


def test_vllm_s_ntk_is_su_s() -> None:
    config = yarn(8.0) | {"rope_scaling": {"rope_type": "ntk", "factor": 8.0, "mixed_b": 0.625}}
    made = rotary(config, "vllm")
    assert (made.rope_type, dict(made.parameters)["mixed_b"]) == ("ntk_mixed", 0.625)


def test_an_unknown_stack_is_refused() -> None:
    with pytest.raises(ArgumentError, match="must be one of transformers, vllm"):
        load_model(DYNAMIC, reading="tensorrt")


@pytest.mark.parametrize("stack", STACKS)
def test_every_stack_reads_plain_rope_alike(stack: str) -> None:
    config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4}
    assert rotary(config, stack) == Rotary(head_dim=16, layout="half")
