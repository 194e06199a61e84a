"""The place of the rotation in a head, and the axis that turns each pair."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from files.folders import refusal_of
from models.gguf.built import only, rotary
from models.gguf.llama_cpp import axis_of
from models.gguf.writer import F64, Tensor, Typed, float32, model, write_and_read

from ropecli.errors import ArgumentError
from ropecli.models.gguf.settings import FREQS, LONG, gguf_settings


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
