"""Mistakes that people made, at the level that is wanted, and sound files without a finding."""

from __future__ import annotations

import json
from typing import Any

import pytest
from golden import assert_golden
from helpers import for_each
from models.configs import QWEN3_VL, published_configs
from models.stacks.measured import lines

from ropecli import load_model
from ropecli.models.lint import lint
from ropecli.models.lint.rule import LEVELS
from ropecli.models.source import EXAMPLES

pytestmark = pytest.mark.slow

#: The lowest level that will do; every finding will do for what cannot be seen.
WANTED = {
    "error": LEVELS[:1],
    "at least a warning": LEVELS[:2],
    "at least a note": LEVELS,
}
MISTAKES = {f"{line['base']}: {line['mistake']}": line for line in lines("mistakes")}
SOUND = {
    f"{line['group']}: {line['source']}": line["config"]
    for line in lines("transformers")
    if line["group"] in ("base", "gathered") and "refused_by_transformers" not in line
}
#: Warnings that files from public repositories deserve.
DESERVED = {
    "gathered: sgl-project/SpecForge:configs/llama3-70B-ealge3.json": {
        "R024": "a draft model whose context of 4,096 is not beyond its original length"
    },
}


@for_each("name", [n for n, each in MISTAKES.items() if each["wanted"] in WANTED])
def test_a_mistake_is_found_at_the_level_that_is_wanted(name: str) -> None:
    line = MISTAKES[name]
    found = {finding.level for finding in lint(line["config"])}
    assert found & set(WANTED[line["wanted"]]), found


@for_each("name", SOUND)
def test_a_sound_file_gets_no_error_and_no_false_warning(name: str) -> None:
    found = [finding for finding in lint(SOUND[name]) if finding.level != "note"]
    assert {finding.rule for finding in found} == set(DESERVED.get(name, {})), found


#: Defects that were measured on purpose, and files that Transformers refuses, by their names.
PLANTED = {
    "edge:llama3 low>high": "R050",
    "linear missing factor": "R018",
    "llama3 low 0": "R001",
    "llama3 low>high": "R050",
    "longrope phi3 type su": "R001",
    "longrope phi3 type yarn": "R001",
    "longrope wrong length": "R001",
    "mistake-yarn": "R012",
    "nemotron": "R001",
    "nemotron rope_percent": "R001",
    "rope_type null": "R001",
    "string factor": "R001",
    "theta null": "R001",
    "type null": "R001",
    "yarn attention_factor 0.0": "R001",
    "yarn betas swapped": "R035",
    "yarn share leaves odd": "R001",
    # A share next to a rope type: the attention of Transformers' Llama takes no such table.
    "linear partial at top": "R001",
    "llama3 partial": "R001",
    "yarn half-odd share": "R001",
    "yarn partial at top": "R001",
    "yarn partial in rope_parameters": "R001",
    # The text model of Qwen2.5-VL in a class that has no axes.
    "G:sgl-project/SpecForge:configs/qwen2-5-vl-7b-eagle3.json": "R001",
    "G:sgl-project/SpecForge:configs/qwen2.5-vl-32b-eagle3.json": "R001",
}
STACKS = ("transformers", "vllm", "mlx_lm", "llama_cpp_config", "remote_code")
MEASURED = {
    f"{stack}: {line.get('source', line.get('name'))}": line
    for stack in STACKS
    for line in lines(stack)
    if "refused_by_transformers" not in line
}
CORPUS = {
    **{name: line["config"] for name, line in MEASURED.items()},
    **{f"published: {name}": entry["config"] for name, entry in published_configs().items()},
    **{f"example: {path.stem}": json.loads(path.read_text()) for path in EXAMPLES.glob("*.json")},
}
#: A name of each file, as several stacks were measured with the same ones.
DISTINCT = {json.dumps(keys): name for name, keys in CORPUS.items()}


@for_each("name", DISTINCT.values())
def test_no_rule_of_level_error_fires_on_a_sound_file(name: str) -> None:
    found = {finding.rule for finding in lint(CORPUS[name]) if finding.level == "error"}
    planted = PLANTED.get(name.partition(": ")[2])
    assert found == ({planted} if planted else set())


ORIGINAL = "original_max_position_embeddings"


def without_original(keys: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without its original lengths."""
    return {
        name: without_original(value) if isinstance(value, dict) else value
        for name, value in keys.items()
        if name != ORIGINAL
    }


@for_each("name", [name for keys, name in DISTINCT.items() if ORIGINAL in keys])
def test_no_stack_both_refuses_a_file_and_takes_a_length(name: str) -> None:
    for finding in lint(without_original(CORPUS[name])):
        if finding.rule == "R023":
            takes, *refused = finding.message.split("The file is refused by ")
            both = [s for s in ("Transformers", "vllm", "llama.cpp", "mlx-lm") if s in takes]
            assert not [s for s in both for text in refused if s in text], finding.message


LLAMA = MISTAKES["LLAMA31: factor missing"]["config"]
SCALING: dict[str, Any] = {"rope_scaling": {**LLAMA["rope_scaling"], "factor": 8.0}}


def message_of(keys: dict[str, Any], rule: str) -> str:
    """Return the only message of a rule about Llama 3.1 with other keys; nothing without one."""
    found = [finding.message for finding in lint(LLAMA | SCALING | keys) if finding.rule == rule]
    assert len(found) < 2
    return "".join(found)


YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0}


def test_what_is_said_of_a_stack_is_what_its_reading_does() -> None:
    lone = YARN | {"original_max_position_embeddings": 32_768, "mscale": 0.707}
    assert "in mlx-lm cos and sin" in message_of({"rope_scaling": lone}, "R130")
    assert message_of({"rope_scaling": lone | {"mscale": 1.0}}, "R130") == ""
    assert "refuse" not in message_of({"rope_scaling": YARN}, "R023")
    assert "refused by Transformers" in message_of(
        {"rope_scaling": YARN | {"rope_type": "su"}}, "R016"
    )
    dynamic = {"type": "dynamic", "factor": 4.0}
    at_context = load_model(
        LLAMA | {"rope_scaling": dynamic}, reading="vllm", sequence_length=131_072
    )
    rotary = at_context.layer().rotary
    assert rotary is not None
    assert ("vllm" in message_of({"rope_scaling": dynamic}, "R026")) is (rotary.base != 500_000.0)


def example(name: str, **keys: Any) -> dict[str, Any]:
    """Return an example of the package with other keys."""
    return {**CORPUS[f"example: {name}"], **keys}


GEMMA3_27B = example(
    "gemma-3-4b",
    hidden_size=5376,
    num_hidden_layers=62,
    num_attention_heads=32,
    head_dim=128,
)
PHI2: dict[str, Any] = {
    "model_type": "phi",
    "hidden_size": 2560,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "partial_rotary_factor": 0.4,
    "rope_theta": 10_000.0,
}
NEMO: dict[str, Any] = {
    "model_type": "mistral",
    "hidden_size": 5120,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 128_000,
    "rope_theta": 1_000_000.0,
}
HUNYUAN: dict[str, Any] = {
    "model_type": "hunyuan_v1_dense",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 32_768,
    "rope_theta": 10_000.0,
    "rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0},
}
LINEAR: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 16_384,
    "rope_theta": 10_000.0,
    "rope_scaling": {"type": "linear", "factor": 4.0, ORIGINAL: 4096},
}
DEEPSEEK_CODER = LINEAR | {
    "rope_theta": 100_000,
    "rope_scaling": {"type": "linear", "factor": 4.0},
}
QWEN = example("qwen2.5-7b")
SCALED_VL = {"type": "yarn", "factor": 4.0, ORIGINAL: 32_768}
CONTEXT = "max_position_embeddings"
YARN_4: dict[str, Any] = {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, ORIGINAL: 32_768}}
KIMI = example("kimi-k2")
MINIMAX_M2: dict[str, Any] = {
    "model_type": "minimax_m2",
    "hidden_size": 3072,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "head_dim": 128,
    "rotary_dim": 64,
    "max_position_embeddings": 196_608,
    "rope_theta": 5_000_000,
}
#: Each mistake: a sound file, other keys, and the rule that finds it.
MEANT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (GEMMA3_27B, {"rope_scaling": None}, "R005"),
    (PHI2, {"partial_rotary_factor": 0.5}, "R005"),
    (LINEAR, {"rope_scaling": LINEAR["rope_scaling"] | {"factor": 2.0}}, "R021"),
    (DEEPSEEK_CODER, {"rope_scaling": {"type": "linear", "factor": 2.0}}, "R005"),
    (
        example("llama-3.2-1b"),
        {"rope_scaling": example("llama-3.2-1b")["rope_scaling"] | {"factor": 8.0}},
        "R005",
    ),
    (
        example("qwen2-vl-7b"),
        {"rope_scaling": SCALED_VL, "max_position_embeddings": 131_072},
        "R005",
    ),
    (HUNYUAN, {"rope_scaling": {"type": "dynamic", "factor": 1.0}}, "R121"),
    (
        example("gpt-oss-20b"),
        {"layer_types": ["sliding_attention", "full_attn"] * 12},
        "R068",
    ),
    (example("deepseek-v3"), {"qk_rope_head_dim": 128}, "R005"),
    (NEMO, {"head_dim": None}, "R005"),
    (QWEN, {"rope_theta": 10_000.0}, "R005"),
    (example("phi-4-mini"), {ORIGINAL: None}, "R023"),
    *(
        (example("qwen3-8b"), {**YARN_4, "rope_theta": base, CONTEXT: context}, rule)
        for base, context, rule in (
            (None, 40_960, "R005"),
            (None, 131_072, "R005"),
            (10_000, 40_960, "R005"),
            (1000, 40_960, "R005"),
            (1000, 40_960, "R092"),
        )
    ),
    (
        example("llama-3.1-8b"),
        {"rope_theta": 1.2e6, "rope_scaling": {"rope_type": "dynamic", "factor": 8.0}},
        "R005",
    ),
    (
        KIMI,
        {"rope_scaling": {k: v for k, v in KIMI["rope_scaling"].items() if k != "beta_fast"}},
        "R005",
    ),
    (MINIMAX_M2, {"rotary_dim": None}, "R005"),
    # Of nearly the same shape, and of its own.
    (example("qwen3-8b", num_hidden_layers=34), {"rope_theta": None}, "R005"),
]


def without_null(keys: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keys.items() if value is not None}


@for_each("sound, keys, rule", MEANT)
def test_a_value_that_no_released_file_has_is_found_and_the_released_is_not(
    sound: dict[str, Any], keys: dict[str, Any], rule: str
) -> None:
    wrong = without_null(sound | keys)
    assert rule in {each.rule for each in lint(wrong) if each.level != "note"}
    assert {each.rule for each in lint(sound) if each.level != "note"} == set()


@for_each(
    "keys, bases",
    [
        ({}, "1000000"),
        ({"num_hidden_layers": 34, "rope_theta": 10_000.0}, "1000000"),
        ({"num_hidden_layers": 34, "rope_theta": 500_000.0}, ""),  # chosen, as it is no tenth
        ({"num_hidden_layers": 18, "rope_theta": 10_000.0}, ""),  # another model
        ({"hidden_size": 2560, "rope_theta": 1000.0}, "1000000 or 5000000"),
        ({"hidden_size": 2560, "rope_theta": 5_000_000.0}, ""),
    ],
)
def test_a_base_is_compared_with_the_nearest_released_shape(
    keys: dict[str, Any], bases: str
) -> None:
    found = lint(example("qwen3-8b", **{"rope_theta": 1e5, **keys}))
    (message,) = [each.message for each in found if each.rule == "R005"] or [""]
    said = f"head_dim 128 have rope_theta {bases}; here rope_theta is "
    assert said in message if bases else message == ""


#: SmolLM2 135M: SmolLM and SmolLM2 are the only ones with this key.
SMOLLM2: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "rope_interleaved": False,
    "rope_scaling": None,
    "rope_theta": 100_000,
}
MISSPELT = YARN | {ORIGINAL: 32_768}
PHI35 = MISTAKES["PHI35: longrope original lost"]["config"]
DSV3 = MISTAKES["DSV3: deepseek original 163840"]["config"]
QWEN_YARN = MISTAKES["QWEN25Y: yarn context not raised"]["config"]
INSIDE = example("llama-3.1-8b")["rope_scaling"] | {"rope_theta": 500_000.0}
AXES = {"rope_type": "default", "mrope_section": [24, 20, 20], "mrope_interleaved": False}
#: Files of which all findings are looked at, by what is in them.
LOOKED_AT: dict[str, dict[str, Any]] = {
    # A key without effect under the right name is not misspelt.
    "SmolLM2": SMOLLM2,
    "SmolLM2, interleaved; llama has no axes that take turns": SMOLLM2 | {"rope_interleaved": True},
    "Qwen3-VL, whose class reads neither spelling": QWEN3_VL | {"mrope_interleavd": False},
    "SmolLM2, a misspelt base that is the default": without_null(
        SMOLLM2 | {"rope_theta": None, "rope_thet": 10_000.0}
    ),
    "YaRN, a misspelt beta_fast": LLAMA | {"rope_scaling": MISSPELT | {"beta_fst": 64}},
    "YaRN, the same with its default": LLAMA | {"rope_scaling": MISSPELT | {"beta_fst": 32}},
    "no rope type": LLAMA | {"rope_scaling": {"rope_type": "lama3"}},
    # Values of the wrong kind.
    "factor as text": LLAMA | {"rope_scaling": {**SCALING["rope_scaling"], "factor": "8.0"}},
    "base as text": LLAMA | SCALING | {"rope_theta": "500000"},
    "context as words": LLAMA | SCALING | {"max_position_embeddings": "long"},
    "base 0": LLAMA | SCALING | {"rope_theta": 0},
    "a part with its base as text": {
        "model_type": "llava",
        "text_config": LLAMA | SCALING | {"rope_theta": "500000"},
    },
    # Values that released files don't have.
    "Phi-4 mini, no original length": without_original(CORPUS["example: phi-4-mini"]),
    "Phi-3.5 mini, another original length": PHI35 | {ORIGINAL: 131_072},
    "Llama 3.1, linear": LLAMA | {"rope_scaling": {"type": "linear", "factor": 8.0}},
    "Llama 3.1, dynamic": LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 8.0}},
    "Llama 3.1, a share": LLAMA
    | {"rope_scaling": {**SCALING["rope_scaling"], "partial_rotary_factor": 0.5}},
    "Llama 3.1, no scaling": LLAMA | {"rope_scaling": None},
    "Llama 3.2, no scaling": LLAMA | {"rope_scaling": None, "tie_word_embeddings": True},
    "Qwen3-VL, axes in another order": QWEN3_VL | {"num_hidden_layers": 36, "rope_scaling": AXES},
    "Qwen2.5, another original length": QWEN_YARN
    | {"rope_scaling": QWEN_YARN["rope_scaling"] | {ORIGINAL: 4096}},
    "Olmo 3, sliding layers first": LLAMA
    | {
        "model_type": "olmo3",
        "max_position_embeddings": 65_536,
        "sliding_window": 4096,
        "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, ORIGINAL: 4096},
    },
    # A base inside the older form, and one at the top as well.
    "Llama 3.1, a base inside": without_null(
        example("llama-3.1-8b", rope_theta=None, rope_scaling=INSIDE)
    ),
    "Llama 3.1, a base on both sides": example("llama-3.1-8b", rope_scaling=INSIDE),
    # Moonlight and Kimi-VL have DeepSeek-V3's architecture, and bases of their own.
    **{
        f"DeepSeek-V3, base {base}": DSV3
        | {"rope_theta": base, "max_position_embeddings": 131_072, "rope_scaling": None}
        for base in (50_000, 800_000)
    },
    # Qwen2.5-Math has 4,096 positions, its distilled model 131,072.
    **{
        f"Qwen2.5, base 10000, {context} positions": QWEN
        | {"rope_theta": 10_000.0, "max_position_embeddings": context}
        for context in (4096, 131_072)
    },
}


def test_findings_are_as_they_were_looked_at() -> None:
    blocks = ((name, "\n".join(map(str, lint(keys)))) for name, keys in LOOKED_AT.items())
    assert_golden("mistakes", blocks)


def test_a_refused_null_is_no_default() -> None:
    assert message_of({"rope_theta": None}, "R091") == ""
    assert "rope_theta is null" in message_of({"rope_theta": None}, "R001")
