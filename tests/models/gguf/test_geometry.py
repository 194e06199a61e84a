"""The place of the rotation in a head, and the axis that turns each pair."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from files.folders import refusal_of
from models.gguf.built import only, rotary, settings
from models.gguf.llama_cpp import axis_of
from models.gguf.writer import F64, UINT32, Tensor, Typed, array, float32, model, write_and_read

from ropecli.errors import ArgumentError
from ropecli.models.gguf.settings import FREQS, LONG, gguf_settings
from ropecli.models.stacks.transformers import TRANSFORMERS

WIDTH: dict[str, object] = {"embedding_length": 4096, "attention.head_count": 32}
KEY_80: dict[str, object] = {"attention.key_length": 80, "rope.dimension_count": 32}
MLA: dict[str, object] = {
    "attention.key_length": 576,
    "attention.key_length_mla": 192,
    "rope.dimension_count": 64,
}
MLAS = ("deepseek2", "glm-dsa", "mistral4", "bailingmoe3")


@pytest.mark.parametrize(
    ("architecture", "keys", "placed"),
    [
        ("llama", WIDTH, (128, 128, 0)),
        ("llama", WIDTH | {"attention.key_length": 64}, (64, 64, 0)),
        ("deci", WIDTH | {"attention.head_count": [0, 0, 64, 32]}, (64, 64, 0)),
        ("phi2", KEY_80, (80, 32, 0)),
        ("plamo", KEY_80, (80, 80, 0)),  # rotates the whole head, whatever the key says
        *((architecture, MLA, (192, 64, 128)) for architecture in MLAS),
        # Files from before key_length_mla have the length of a head's key.
        *(
            (
                architecture,
                MLA | {"attention.key_length": 192, "attention.key_length_mla": None},
                (192, 64, 128),
            )
            for architecture in MLAS
        ),
    ],
)
def test_head_dim_rotary_dim_and_offset(
    architecture: str, keys: dict[str, object], placed: tuple[int, int, int]
) -> None:
    got = rotary(only(model(architecture, keys)))
    assert (got.head_dim, got.rotary_dim, got.rotary_offset) == placed


@pytest.mark.parametrize("architecture", ["cogvlm", "deepseek2-ocr"])
def test_fixed_rotation(architecture: str) -> None:
    keys = {"rope.freq_base": 5e5, "rope.scaling.factor": 4.0, "rope.dimension_count": 8}
    got = rotary(only(model(architecture, {"attention.key_length": 16, **keys})))
    assert (got.rope_type, got.base, got.rotary_dim) == ("default", 10_000, 16)


@pytest.mark.parametrize(
    ("architecture", "layout"),
    [
        ("llama", "interleaved"),
        ("command-r", "interleaved"),
        ("deepseek2", "interleaved"),
        ("smollm3", "interleaved"),
        ("qwen2", "half"),
        ("gpt-oss", "half"),
        ("deepseek2-ocr", "half"),
        ("plamo", "half"),
        ("glm4", "interleaved"),
        ("glm4moe", "half"),
    ],
)
def test_layout(architecture: str, layout: str) -> None:
    found = settings(model(architecture, {"attention.key_length": 16, "block_count": 4}))
    rotating = [rotary(layer) for layer in found.values() if layer.rope_type]
    assert {got.layout for got in rotating} == {layout}


@pytest.mark.parametrize(
    "sections",
    [
        [16, 24, 24, 0],
        [24, 20, 20, 0],
        [22, 22, 20, 0],
        [64, 0, 0, 0],
        [16, 16, 16, 16],
        # That end before the pairs do.
        [8, 4, 4, 0],
        [8, 0, 4, 4],
        [11, 11, 10, 0],
        [16, 16, 8, 8],
    ],
)
@pytest.mark.parametrize(("architecture", "imrope"), [("qwen2vl", False), ("qwen3vl", True)])
def test_axes(sections: list[int], architecture: str, *, imrope: bool) -> None:
    keys = {"attention.key_length": 128, "rope.dimension_sections": sections}
    got = rotary(only(model(architecture, keys))).axis
    assert got == tuple(axis_of(i, sections, imrope=imrope) for i in range(64))


def test_axes_of_qwen3_vl_differ_from_transformers_in_two_pairs() -> None:
    keys = {"attention.key_length": 128, "rope.dimension_sections": [24, 20, 20, 0]}
    layer = only(model("qwen3vl", keys))
    ours, theirs = rotary(layer).axis, TRANSFORMERS.rotary(layer, None).axis
    assert ours is not None
    assert theirs is not None
    assert [(i, ours[i], theirs[i]) for i in range(64) if theirs[i] != ours[i]] == [
        (61, 3, 0),
        (62, 3, 0),
    ]


def test_sections_choose_the_mode() -> None:
    keys = {"attention.key_length": 128}
    sections = {**keys, "rope.dimension_sections": [8, 12, 12, 0], "rope.dimension_count": 64}
    got = rotary(only(model("glm4", sections)))
    assert (got.layout, got.axes) == ("half", 3)
    unused = {**sections, "rope.dimension_sections": [32, 0, 0, 0]}
    assert rotary(only(model("glm4", unused))).layout == "interleaved"
    # Architectures without axes pass over them.
    for sections_passed_over in ([8, 12, 12, 0], "x", array(UINT32, 0, b"")):
        spoken = {"rope.dimension_sections": sections_passed_over, **keys}
        assert rotary(only(model("ernie4_5", spoken))).axes == 1


GOOD: dict[str, object] = {"context_length": 4096, "attention.key_length": 16}


SCALING = "rope.scaling."
NO_HEADS: dict[str, object] = {
    "attention.key_length": None,
    "embedding_length": 64,
    "attention.head_count": [0, 0],
}
YARN = {f"{SCALING}type": "yarn"}
ALPHA = {f"{SCALING}alpha": 2.0}
DOUBLE = Typed(12, struct.pack("<d", 1e300))


@pytest.mark.parametrize(
    ("architecture", "keys", "what"),
    [
        ("llama", {"attention.key_length": None}, "llama.embedding_length is missing"),
        ("llama", NO_HEADS, "expected a number above 0"),
        ("llama", {"attention.key_length": 1}, "llama.attention.key_length is 1"),
        ("llama", {"attention.key_length": 70_000}, "attention.key_length is 70000; expected"),
        ("llama", {"attention.key_length": 16.0}, "is 16.0; expected an integer from 1"),
        ("llama", {"attention.key_length": True}, "is True; expected an integer from 1"),
        ("llama", {"rope.dimension_count": 18}, "count is 18; expected at most the head's"),
        ("llama", {"rope.dimension_count": 7}, "dimension_count is 7; expected an even number"),
        ("llama", {"rope.freq_base": 0.0}, "rope.freq_base is 0.0; expected a number from 1e-30"),
        ("llama", {"rope.freq_base": float("nan")}, "freq_base is nan; expected a number from"),
        ("llama", {"rope.freq_base": "10000"}, "is '10000'; expected a floating-point"),
        ("llama", {"rope.freq_base": 10000}, "is 10000; expected a floating-point number"),
        ("llama", YARN | {"rope.freq_base": 1.0}, "freq_base is 1.0"),
        ("llama", YARN | {"context_length": 0}, "context_length is 0"),
        ("llama", {f"{SCALING}factor": -1.0}, "factor is -1.0; expected a number from 1e-30"),
        ("llama", {f"{SCALING}factor": DOUBLE}, "is 1e+300; expected"),
        ("llama", YARN | {f"{SCALING}factor": 1e-5}, "expected a number above e^-10"),
        ("llama", {f"{SCALING}type": "ntk"}, "is 'ntk'; expected one of none, linear, yarn, longr"),
        ("llama", {f"{SCALING}type": 2}, "rope.scaling.type is 2; expected a string"),
        ("grok", {f"{SCALING}yarn_beta_fast": 0.0}, "yarn_beta_fast is 0.0; expected a number"),
        ("deepseek2", {f"{SCALING}yarn_log_multiplier": -1.0}, "is -1.0; expected a number from 0"),
        ("qwen2vl", {}, "qwen2vl.rope.dimension_sections is missing; expected four numbers"),
        ("qwen2vl", {"rope.dimension_sections": [8]}, "expected two to four numbers"),
        ("qwen2vl", {"rope.dimension_sections": [0, 0, 0, 0]}, "expected two to four numbers"),
        ("qwen2vl", {"rope.dimension_sections": [8.0, 8.0]}, "expected integers"),
        ("gpt-oss", {"block_count": 5_000}, "block_count is 5000; expected at most 4,096"),
        ("granite", {f"{SCALING}finetuned": 0}, "finetuned is 0; expected a boolean"),
        ("deepseek4", {}, "attention.compress_rope_freq_base is missing"),
        ("mistral4", {"attention.temperature_scale": 0.1}, "temperature_length is missing"),
        ("hunyuan-dense", ALPHA | {"attention.key_length": 2}, "key_length is 2"),
    ],
)
def test_keys_that_are_refused(
    tmp_path: Path, architecture: str, keys: dict[str, object], what: str
) -> None:
    file = write_and_read(tmp_path, model(architecture, GOOD | keys))
    message = refusal_of(gguf_settings, file)
    assert message.startswith(f"{file.path}: ")
    assert what in message


def test_file_without_an_architecture(tmp_path: Path) -> None:
    message = refusal_of(gguf_settings, write_and_read(tmp_path, {"llama.context_length": 1}))
    assert message.endswith("general.architecture is missing; expected a name such as 'llama'")


@pytest.mark.parametrize(
    ("divisors", "what"),
    [
        ([1.0] * 7, "has shape (7,); expected a number per pair, 8"),
        ([1.0] * 9, "has shape (9,); expected a number per pair, 8"),
        ([1.0] * 7 + [0.0], "holds 0 at index 7; expected finite numbers above 0"),
        ([1.0, -1.0] * 4, "holds -1 at index 1"),
        ([float("inf")] * 8, "holds inf at index 0"),
        ([float("nan")] * 8, "holds nan at index 0"),
    ],
)
@pytest.mark.parametrize("name", [FREQS, LONG])
def test_divisors_that_are_refused(
    tmp_path: Path, name: str, divisors: list[float], what: str
) -> None:
    file = write_and_read(tmp_path, model("llama", GOOD), {name: float32(divisors)})
    assert what in refusal_of(gguf_settings, file)


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e300])
def test_extreme_divisors_give_no_more_than_a_refusal(tmp_path: Path, value: float) -> None:
    divisors = Tensor((8,), F64, np.full(8, value).tobytes())
    (layer,) = gguf_settings(write_and_read(tmp_path, model("llama", GOOD), {FREQS: divisors}))
    if value == 5e-324:  # 1 / value is beyond float64
        refusal_of(rotary, layer, error=ArgumentError)
    else:
        assert rotary(layer).inv_freq[0] == pytest.approx(1 / value)


def test_half_of_the_divisors_of_step_3_5(tmp_path: Path) -> None:
    keys = {**GOOD, "rope.dimension_count": 8, "attention.sliding_window_pattern": [1, 0]}
    keys |= {"block_count": 2, "attention.sliding_window": 512}
    file = write_and_read(tmp_path, model("step35", keys), {FREQS: float32([2.0, 2.0, 1.0, 1.0])})
    full, sliding = gguf_settings(file)
    assert rotary(full).inv_freq.tolist() == pytest.approx([0.5, 0.005])
    assert rotary(sliding).inv_freq.tolist() == pytest.approx([1.0, 0.1, 0.01, 0.001])
