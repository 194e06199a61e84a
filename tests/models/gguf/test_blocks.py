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
WINDOW: dict[str, object] = {"attention.sliding_window": 4096}


PATTERN = "attention.sliding_window_pattern"
BASE_SWA: dict[str, object] = {"rope.freq_base_swa": 20_000.0}
NO_TYPE: dict[str, object] = {"rope.scaling.type": "none"}
OFF = {"rope.scaling.finetuned": False}
FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("architecture", "keys", "full"),
    [
        # The architecture's period, and the file's own.
        ("gemma2", WINDOW, (1, 3, 5, 7)),
        ("gemma3n", WINDOW, (4,)),
        ("gemma3", WINDOW, (5,)),
        ("cohere2", WINDOW, (3, 7)),
        ("modern-bert", WINDOW, (0, 3, 6)),  # full blocks come first
        ("gpt-oss", {PATTERN: 4}, (3, 7)),
        ("gpt-oss", {PATTERN: [True, False, False]}, tuple(range(1, 8))),
        ("gpt-oss", {PATTERN: 1}, None),
        ("gpt-oss", {PATTERN: 0}, None),
        ("gpt-oss", {"nextn_predict_layers": 2}, (1, 3, 5)),  # those that draft are not counted
        # Which files have sliding blocks.
        ("gemma3", {}, None),
        ("gemma3", {"attention.sliding_window": 0}, None),
        ("gemma2", {}, (1, 3, 5, 7)),
        ("llama4", {}, (3, 7)),
        ("llama4", {"attention.sliding_window": 0}, None),
        ("phi3", WINDOW, None),
        ("llama", WINDOW, None),
        ("exaone4", WINDOW, None),
        ("unheard-of", WINDOW, None),
        ("unheard-of", BASE_SWA, None),
    ],
)
def test_blocks_that_slide(
    architecture: str, keys: dict[str, object], full: tuple[int, ...] | None
) -> None:
    found = settings(model(architecture, {**YARN, **keys}))
    if full is None:
        assert SLIDING not in found
        return
    sliding = set(range(6 if "nextn_predict_layers" in keys else 8)) - set(full)
    assert {name: layer.layers for name, layer in found.items()} == {
        FULL: full,
        SLIDING: tuple(sorted(sliding)),
    }


def test_blocks_that_nobody_counts() -> None:
    found = settings(model("gpt-oss", {**YARN, "block_count": None}))
    assert {name: layer.layers for name, layer in found.items()} == {FULL: None, SLIDING: None}


@pytest.mark.parametrize(
    ("architecture", "keys", "name", "rope_type", "layers"),
    [
        # Full blocks of some do not rotate.
        ("cohere2", WINDOW, FULL, None, (3, 7)),
        ("smallthinker", WINDOW, FULL, None, (0, 4)),
        ("llama4", WINDOW, FULL, None, (3, 7)),
        ("afmoe", WINDOW, FULL, None, (3, 7)),
        ("exaone4", {"block_count": 64}, FULL, None, tuple(range(3, 64, 4))),
        # Every fourth block, or a pattern.
        ("smollm3", {}, "nope", None, (3, 7)),
        ("smollm3", {}, "rope", "yarn", (0, 1, 2, 4, 5, 6)),
        ("granite_swa", {"attention.rope_pattern": [1, 1, 0, 1, 1, 1, 0, 1]}, "nope", None, (2, 6)),
        # All or none: a switch, a size, an architecture.
        ("granite_swa", {}, "all", "yarn", None),
        ("granitehybrid", OFF, "all", None, None),
        ("granitehybrid", {}, "all", "yarn", None),
        ("llama", OFF, "all", "yarn", None),
        ("baichuan", {"block_count": 32}, "all", "yarn", None),
        ("baichuan", {"block_count": 40}, "all", None, None),
        ("gpt2", {}, "all", None, None),
        # Type none forgets the factor, but where it is shared.
        ("gpt-oss", WINDOW | NO_TYPE, FULL, "default", (1, 3, 5, 7)),
        ("gpt-oss", WINDOW | NO_TYPE, SLIDING, "linear", (0, 2, 4, 6)),
        ("cohere2", WINDOW | NO_TYPE, SLIDING, "default", (0, 1, 2, 4, 5, 6)),
    ],
)
def test_rope_type_of_blocks(
    architecture: str,
    keys: dict[str, object],
    name: str,
    rope_type: str | None,
    layers: tuple[int, ...] | None,
) -> None:
    layer = settings(model(architecture, {**YARN, **keys}))[name]
    assert (layer.rope_type, layer.layers) == (rope_type, layers)
    assert layer.context_length == 131_072


@pytest.mark.parametrize(
    ("architecture", "keys", "name", "base"),
    [
        ("exaone4", {"block_count": 64}, SLIDING, 500_000),
        ("gemma3", WINDOW | BASE_SWA, SLIDING, 20_000),
        ("gemma3", WINDOW | BASE_SWA, FULL, 500_000),
        ("gpt-oss", WINDOW | BASE_SWA, SLIDING, 20_000),
        ("olmo2", WINDOW | BASE_SWA, SLIDING, 500_000),
        # An unknown architecture goes by its keys.
        ("unheard-of", WINDOW | BASE_SWA, SLIDING, 20_000),
        ("unheard-of", WINDOW | BASE_SWA, FULL, 500_000),
    ],
)
def test_base_of_blocks(architecture: str, keys: dict[str, object], name: str, base: float) -> None:
    assert rotary(settings(model(architecture, {**YARN, **keys}))[name]).base == base


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


FIXED = {"attention.sliding_window_pattern": [0, 1, 1, 1, 0, 1, 1, 1], **WINDOW}


@pytest.mark.parametrize("architecture", ["llama4", "afmoe"])
def test_every_fourth_block_has_no_rotation_whatever_slides(architecture: str) -> None:
    found = settings(model(architecture, {**YARN, **FIXED}))
    assert {name: (layer.layers, layer.rope_type) for name, layer in found.items()} == {
        FULL: ((0, 4), "yarn"),
        SLIDING: ((1, 2, 5, 6), "yarn"),
        "sliding_attention-nope": ((3, 7), None),
    }


def test_llama_4_without_sliding_blocks_has_one_without_a_rotation() -> None:
    found = settings(model("llama4", {**YARN, "attention.sliding_window": 0}))
    assert {name: layer.layers for name, layer in found.items()} == {
        "rope": (0, 1, 2, 3, 4, 5, 6),
        "nope": (7,),
    }


def test_dense_blocks_of_cohere_2_moe_rotate() -> None:
    keys = {**YARN, **WINDOW, "leading_dense_block_count": 1}
    found = settings(model("cohere2moe", keys))
    assert {name: (layer.layers, layer.rope_type) for name, layer in found.items()} == {
        FULL: ((0,), "yarn"),
        "full_attention-nope": ((4,), None),
        SLIDING: ((1, 2, 3, 5, 6, 7), "yarn"),
    }
