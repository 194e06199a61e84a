"""Kinds of blocks: which of them slide, and which rotate by what."""

from __future__ import annotations

import pytest
from models.gguf.built import assert_turns, only, rotary, settings
from models.gguf.llama_cpp import turned
from models.gguf.writer import model

from ropecli.rotary.factors import Temperature

YARN = {
    "context_length": 131_072,
    "attention.key_length": 64,
    "rope.freq_base": 500_000.0,
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 8_192,
    "block_count": 8,
}
OF_ROPE = {name.removeprefix("rope."): value for name, value in YARN.items()}
WINDOW = {"attention.sliding_window": 4096}


def kinds(architecture: str, **more: object) -> dict[str, tuple[int, ...] | None]:
    keys = {**YARN, **{name.replace("__", "."): value for name, value in more.items()}}
    return {name: layer.layers for name, layer in settings(model(architecture, keys)).items()}


@pytest.mark.parametrize(
    ("architecture", "full"),
    [("gemma2", (1, 3, 5, 7)), ("gemma3n", (4,)), ("gemma3", (5,)), ("cohere2", (3, 7))],
)
def test_period_of_the_architecture(architecture: str, full: tuple[int, ...]) -> None:
    found = kinds(architecture, attention__sliding_window=4096)
    assert list(found) == ["full_attention", "sliding_attention"]
    assert found["full_attention"] == full
    assert found["sliding_attention"] == tuple(i for i in range(8) if i not in full)


def test_full_block_comes_first_in_some() -> None:
    found = kinds("modern-bert", attention__sliding_window=128)
    assert found["full_attention"] == (0, 3, 6)


def test_pattern_of_the_file() -> None:
    pattern = "attention__sliding_window_pattern"
    assert kinds("gpt-oss", **{pattern: 4})["full_attention"] == (3, 7)
    flags = kinds("gpt-oss", **{pattern: [True, False, False]})
    assert flags["sliding_attention"] == (0,)
    assert kinds("gpt-oss", **{pattern: 1}) == {"all": tuple(range(8))}
    assert kinds("gpt-oss", **{pattern: 0}) == {"all": tuple(range(8))}
    assert kinds("gpt-oss", block_count=None) == {"full_attention": None, "sliding_attention": None}


def test_blocks_that_draft_are_not_counted() -> None:
    assert kinds("gpt-oss", nextn_predict_layers=2)["full_attention"] == (1, 3, 5)


@pytest.mark.parametrize(
    ("architecture", "window", "slides"),
    [
        ("gemma3", None, False),
        ("gemma3", 0, False),
        ("gemma2", None, True),
        ("llama4", None, True),
        ("llama4", 0, False),
        ("phi3", 4096, False),
        ("llama", 4096, False),
        ("exaone4", 4096, False),
    ],
)
def test_which_files_have_sliding_blocks(
    architecture: str, window: int | None, *, slides: bool
) -> None:
    found = kinds(architecture, attention__sliding_window=window)
    assert ("sliding_attention" in found) is slides


def test_exaone_4_slides_with_64_blocks() -> None:
    found = settings(model("exaone4", {**YARN, "block_count": 64}))
    assert found["full_attention"].rope_type is None
    assert rotary(found["sliding_attention"]).base == 500_000


@pytest.mark.parametrize(
    ("architecture", "base", "freq_scale", "plain"),
    [
        ("gpt-oss", 500_000.0, 1 / 4, False),  # inherits all
        ("gemma3", 10_000.0, 1.0, False),  # keeps the factor that is divided out, and no more
        ("muse-glimmer", 500_000.0, 1.0, False),
        ("dots3note", 10_000.0, 1 / 4, False),
        ("laguna", 500_000.0, 1.0, True),
        ("olmo2", 500_000.0, 1.0, True),
        ("cohere2", 500_000.0, 1 / 4, False),
    ],
)
def test_sliding_blocks_rotate(
    architecture: str, base: float, freq_scale: float, *, plain: bool
) -> None:
    layer = settings(model(architecture, {**YARN, **WINDOW}))["sliding_attention"]
    keys = {"context_length": 131_072, "freq_base": base} if plain else OF_ROPE
    inv_freq, attention, _ = turned(keys, n_dims=64, sliding=(base, freq_scale))
    assert_turns(architecture, layer, inv_freq, attention)


def test_key_of_the_sliding_base() -> None:
    keys = {**YARN, **WINDOW, "rope.freq_base_swa": 20_000.0}
    for architecture, base in (("gemma3", 20_000), ("gpt-oss", 20_000), ("olmo2", 500_000)):
        layer = settings(model(architecture, keys))["sliding_attention"]
        assert rotary(layer).base == base, architecture
        full = settings(model("gemma3", keys))["full_attention"]
        assert rotary(full).base == 500_000


def test_type_none_forgets_the_factor_where_it_is_shared() -> None:
    keys = {**YARN, **WINDOW, "rope.scaling.type": "none"}
    found = settings(model("gpt-oss", keys))
    assert found["full_attention"].rope_type == "default"
    assert found["sliding_attention"].rope_type == "linear"
    assert settings(model("cohere2", keys))["sliding_attention"].rope_type == "default"


@pytest.mark.parametrize(
    ("architecture", "silent"),
    [("cohere2", (3, 7)), ("smallthinker", (0, 4)), ("llama4", (3, 7)), ("afmoe", (3, 7))],
)
def test_full_blocks_that_do_not_rotate(architecture: str, silent: tuple[int, ...]) -> None:
    full = settings(model(architecture, {**YARN, **WINDOW}))["full_attention"]
    assert (full.rope_type, full.layers) == (None, silent)


def test_every_fourth_block_of_smollm3_does_not_rotate() -> None:
    found = settings(model("smollm3", YARN))
    assert {name: layer.rope_type for name, layer in found.items()} == {
        "nope": None,
        "rope": "yarn",
    }
    assert found["nope"].layers == (3, 7)


def test_pattern_of_rotating_blocks() -> None:
    pattern = {"attention.rope_pattern": [1, 1, 0, 1, 1, 1, 0, 1]}
    assert settings(model("granite_swa", {**YARN, **pattern}))["nope"].layers == (2, 6)
    assert list(settings(model("granite_swa", YARN))) == ["all"]


def test_switch_of_granite() -> None:
    off = {**YARN, "rope.scaling.finetuned": False}
    assert only(model("granitehybrid", off)).rope_type is None
    assert only(model("granitehybrid", YARN)).rope_type == "yarn"
    assert only(model("llama", off)).rope_type == "yarn"


def test_large_baichuan_does_not_rotate() -> None:
    assert only(model("baichuan", {**YARN, "block_count": 32})).rope_type == "yarn"
    assert only(model("baichuan", {**YARN, "block_count": 40})).rope_type is None


def test_architecture_without_rotation() -> None:
    layer = only(model("gpt2", {"context_length": 1024}))
    assert (layer.rope_type, layer.context_length) == (None, 1024)


def test_unknown_architecture_goes_by_its_keys() -> None:
    keys = {**YARN, **WINDOW}
    assert list(settings(model("unheard-of", keys))) == ["all"]
    no_window = {**YARN, "rope.freq_base_swa": 10_000.0}
    assert list(settings(model("unheard-of", no_window))) == ["all"]
    found = settings(model("unheard-of", {**keys, "rope.freq_base_swa": 10_000.0}))
    assert rotary(found["sliding_attention"]).base == 10_000
    assert rotary(found["full_attention"]).base == 500_000


def test_temperatures() -> None:
    scale = {"attention.temperature_scale": 0.125, "attention.temperature_length": 16_384}
    keys = {**YARN, **scale}
    assert only(model("mistral3", keys)).temperature == Temperature(beta=0.125, length=8192)
    assert only(model("mistral4", keys)).temperature == Temperature(beta=0.125, length=16_384)
    assert only(model("llama", keys)).temperature is None
    assert only(model("mistral3", YARN)).temperature is None
    found = settings(model("llama4", YARN))
    assert found["full_attention"].temperature == Temperature(beta=0.1, length=8192, shift=1)
    assert found["sliding_attention"].temperature is None
