"""Every rule fires on a defect, and stays silent on nearly the same file without it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import ROOT, slow_rows
from models.configs import GEMMA_3, RELEASED, published_configs
from models.gguf.writer import float32, gguf, save
from models.lint.cases import (
    CASES,
    GGUF_CASES,
    GGUF_YARN,
    LLAMA3,
    LONG,
    TEXT_CASES,
    YARN,
    Json,
    by_layer_type,
    config,
    llama,
    llama3_scale,
    of_architecture,
    with_scaling,
)

from ropecli import Model, Rotary
from ropecli.models.lint.readings import difference
from ropecli.models.lint.rule import Finding, Hit, Rule, rules
from ropecli.models.lint.run import lint
from ropecli.models.load import load_model

FEWEST = 25


def assert_fires(rule_id: str, key: str, found: tuple[Finding, ...]) -> None:
    """Assert that exactly one finding is of this rule, and names that key."""
    __tracebackhide__ = True
    mine = [finding for finding in found if finding.rule == rule_id]
    assert [finding.key for finding in mine] == [key], f"{rule_id}: {found}"
    assert mine[0].level == rules()[rule_id].level
    for sentence in (mine[0].message, mine[0].hint):
        assert re.fullmatch(r"[^\n]+\.", sentence), sentence


def assert_silent(rule_id: str, found: tuple[Finding, ...]) -> None:
    """Assert that no finding is of this rule."""
    __tracebackhide__ = True
    assert rule_id not in {finding.rule for finding in found}, found


@pytest.mark.parametrize("rule_id", CASES)
def test_rule_of_config_json(rule_id: str) -> None:
    case = CASES[rule_id]
    assert_fires(rule_id, case.key, lint(case.fires))
    assert_silent(rule_id, lint(case.quiet))


@pytest.mark.parametrize("rule_id", GGUF_CASES)
def test_rule_of_gguf(rule_id: str, tmp_path: Path) -> None:
    case = GGUF_CASES[rule_id]
    assert_fires(rule_id, case.key, lint(save(tmp_path, gguf(case.fires, case.tensors[0]))))
    assert_silent(rule_id, lint(save(tmp_path, gguf(case.quiet, case.tensors[1]))))


@pytest.mark.parametrize("rule_id", TEXT_CASES)
def test_rule_of_text(rule_id: str, tmp_path: Path) -> None:
    key, fires, quiet = TEXT_CASES[rule_id]
    path = tmp_path / "config.json"
    path.write_text(fires)
    assert_fires(rule_id, key, lint(path))
    path.write_text(quiet)
    assert_silent(rule_id, lint(path))


def test_a_lone_mscale_without_a_stretch_is_as_good_as_none() -> None:
    assert_silent("R030", lint(with_scaling(YARN, factor=1.0, mscale=0.707)))


def test_every_rule_is_tried() -> None:
    assert {*CASES, *GGUF_CASES, *TEXT_CASES} == set(rules())
    assert len(rules()) >= FEWEST


def test_ids_are_in_order_and_what_is_said_of_them_is_whole() -> None:
    assert list(rules()) == sorted(rules())
    titles = [each.title for each in rules().values()]
    assert len(set(titles)) == len(titles)
    for each in rules().values():
        assert re.fullmatch(r"R\d{3}", each.id)
        for text in (each.why, each.cure, each.fires):
            assert text.endswith("."), f"{each.id}: {text}"
        for thread in each.threads:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread), f"{each.id}: {thread}"


@pytest.mark.parametrize(("id", "level"), [("R001", "note"), ("R999", "fatal")])
def test_an_id_is_given_once_and_a_level_is_one_of_three(id: str, level: str) -> None:
    with pytest.raises(ValueError, match=f"rule {id} must have an id of its own"):
        Rule(id, level, "", why="", cure="")
    assert Hit("key", "message").hint == ""


@pytest.mark.parametrize(
    ("model_type", "words"),
    [
        ("llama", "reads none of it in model_type llama; it rotates by default, base 10,000."),
        ("qwen3", "fails on it: model_type qwen3 has one object for all its layers."),
    ],
)
def test_scaling_keys_by_layer_type(model_type: str, words: str) -> None:
    nested_keys = {"full_attention": YARN | {"rope_theta": 1e6}}
    given = config(model_type=model_type, rope_theta=None, rope_parameters=nested_keys)
    (found,) = (each for each in lint(given) if each.level == "error")
    assert (found.rule, found.message) == ("R069", f"Transformers {words}")


def test_values_outside_of_objects_that_are_not_read_count() -> None:
    both = {"full_attention": YARN | {"rope_theta": 1e6}, "rope_theta": 5e5, "rope_type": "default"}
    found = lint(config(model_type="llama", rope_theta=None, rope_parameters=both))
    (error,) = (each for each in found if each.rule == "R069")
    assert "base 500,000" in error.message
    assert "R066" not in {each.rule for each in found}


# Sound configurations of released models: no error, no warning that is not deserved.

PUBLISHED = list(published_configs().values())
#: Warnings that entries of the data file deserve, and why.
WARNED = {
    "llama-yarn-lone-mscale": {"R030"},  # what it is there for
    "glm4v_moe_text.Glm4vMoeTextRotaryEmbedding": {"R083", "R092"},  # class defaults: 4096 / 96
    "molmo2_text.Molmo2RotaryEmbedding": {"R092"},  # class default of the base; the model has 1e6
    "phi4_multimodal.Phi4MultimodalRotaryEmbedding": {"R092"},  # class default without LongRoPE
}


def test_published_configurations_have_no_error_and_as_few_notes_as_the_page_says() -> None:
    found = {entry["name"]: lint(entry["config"]) for entry in PUBLISHED}
    levels = {
        level: {
            (name, finding.rule)
            for name, findings in found.items()
            for finding in findings
            if finding.level == level
        }
        for level in ("error", "warning")
    }
    assert levels["error"] == set()
    assert levels["warning"] == {(name, rule) for name, rules in WARNED.items() for rule in rules}
    notes = sum(finding.level == "note" for findings in found.values() for finding in findings)
    said = f"the {len(PUBLISHED)} published configurations\nthat ropecli is tested with, and among "
    assert said + f"them there are {notes} notes." in (ROOT / "docs" / "lint.md").read_text()


@pytest.mark.parametrize("name", RELEASED)
def test_released_model(name: str) -> None:
    keys, noted = RELEASED[name]
    found = lint(keys)
    assert {finding.rule for finding in found} == noted
    assert {finding.level for finding in found} <= {"note"}


def test_an_attention_factor_rounded_to_four_digits_is_the_one_that_follows() -> None:
    assert_silent("R036", lint(with_scaling(YARN | {"attention_factor": 1.139})))
    assert_fires(
        "R036",
        "rope_scaling.attention_factor",
        lint(with_scaling(YARN | {"attention_factor": 1.15})),
    )


def test_the_numbers_that_decrease_are_those_of_the_place() -> None:
    falls = [1.0] * 30 + [3.0, 4.0, 2.0] + [5.0] * 31
    config = with_scaling(LONG | {"long_factor": falls})
    (message,) = [f.message for f in lint(config) if f.rule == "R042"]
    assert message.startswith("It decreases from 4 to 2 at index 32, the first of 1 places.")


def test_the_switch_of_longrope_names_what_stacks_do_at_both_lengths() -> None:
    (message,) = [f.message for f in lint(CASES["R044"].fires) if f.rule == "R044"]
    assert re.search(r"At 4,096 positions, in .* At 131,072 positions, in ", message)


# Architectures whose code fixes the base: a file that names another is warned of.

FIXED = ("gptj", "codegen", "roformer")
BASES = ("R090", "R091", "R094", "R097")


def about_the_base(keys: Json) -> list[Finding]:
    return [each for each in lint(keys) if each.rule in BASES]


@pytest.mark.parametrize("model_type", FIXED)
@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"rope_theta": 500_000.0}, "rope_theta"),
        ({"rope_theta": None, "rotary_emb_base": 500_000}, "rotary_emb_base"),
        (
            {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5}},
            "rope_parameters.rope_theta",
        ),
        ({"rope_theta": None, "rope_scaling": {"rope_theta": 5e5}}, "rope_scaling.rope_theta"),
    ],
)
def test_another_base_is_ignored_and_told(model_type: str, given: Json, key: str) -> None:
    keys = config(model_type=model_type, **given)
    (finding,) = about_the_base(keys)
    assert (finding.rule, finding.level, finding.key) == ("R097", "warning", key)
    assert "10000" in finding.message
    assert "500000" in finding.message
    (layer,) = load_model(keys).layers
    assert layer.rotary is not None
    assert layer.rotary.base == 10_000.0


@pytest.mark.parametrize("model_type", FIXED)
@pytest.mark.parametrize("base", [None, 10_000.0, 10_000])
def test_without_another_one_there_is_nothing_to_cure(model_type: str, base: object) -> None:
    assert about_the_base(config(model_type=model_type, rope_theta=base)) == []


@pytest.mark.parametrize("model_type", FIXED)
@pytest.mark.parametrize("base", [None, 500_000.0])
def test_assumed_says_that_the_code_fixes_it(model_type: str, base: object) -> None:
    (layer,) = load_model(config(model_type=model_type, rope_theta=base)).layers
    (said,) = [each for each in layer.settings.assumed if "base" in each]
    assert said == f"base 10000: the code of model_type {model_type} fixes it"


def test_key_of_another_name_counts_in_gpt_neox() -> None:
    keys = config(model_type="gpt_neox", rope_theta=500_000.0)
    (finding,) = about_the_base(keys)
    assert (finding.rule, finding.hint) == ("R097", "Rename it to rotary_emb_base.")
    assert about_the_base(keys | {"rotary_emb_base": 500_000.0}) == []
    (finding,) = about_the_base(config(model_type="gpt_neox", rope_theta=None))
    assert finding.rule == "R091"
    assert "Add rotary_emb_base" in finding.hint


@pytest.mark.parametrize(
    ("rule_id", "keys", "words"),
    [
        (
            "R060",
            CASES["R060"].fires | {"sliding_window": 512},
            "their window of 512 the fastest pair would be off by 448 rad.",  # 512 - 512 / 8
        ),
        ("R081", CASES["R081"].fires, "are 51: 52 rotate, with exponents over 51."),
        (
            "R084",
            config(partial_rotary_factor=1.0, rotary_dim=32),
            "It is 32, and partial_rotary_factor gives 128;",
        ),
    ],
)
def test_numbers_that_a_finding_names(rule_id: str, keys: Json, words: str) -> None:
    (finding,) = [each for each in lint(keys) if each.rule == rule_id]
    assert words in finding.message


# What a finding says of stacks, as they were measured.

NEITHER = "It has no effect in Transformers, vllm, llama.cpp and mlx-lm"
SMALL = {"num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4}
SIZES = SMALL | {"intermediate_size": 8, "rms_norm_eps": 1e-5, "vocab_size": 8}
QWEN = config(model_type="qwen2", hidden_size=512, **SIZES)
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("rule_id", "keys", "words"),
    [
        ("R012", with_scaling(YARN, attn_factor=0.5), [NEITHER, "Transformers uses 1.1386"]),
        (
            "R015",
            with_scaling(YARN, type="linear"),
            ["in Transformers and llama.cpp; ", "in vllm the"],
        ),
        (
            "R019",
            with_scaling(YARN, truncate=None),
            ["in llama.cpp and mlx-lm; ", "Transformers and vllm ang"],
        ),
        (
            "R019",
            with_scaling(LLAMA3, low_freq_factor=None),
            ["requires a value. The file is refused by Transformers, vllm, llama.cpp and mlx-lm."],
        ),
        ("R025", with_scaling(DYNAMIC), [NEITHER, "not beyond 4,096."]),
        (
            "R033",
            by_layer_type({**YARN, "rope_theta": 1e6, "truncate": False}),
            ["in Transformers and llama.cpp; without it, in vllm angles differ"],
        ),
        ("R045", with_scaling(LONG, short_mscale=1.2), ["; without it, in vllm cos and sin are"]),
        ("R085", config(partial_rotary_factor=0.5), ["; without it, in vllm angles", "not 0.5 of"]),
        (
            "R094",
            QWEN | {"rope_parameters": {"rope_theta": 5e5}, "rope_theta": 1e6},
            ["500000.0 at rope_parameters.rope_theta, which is used.", "in mlx-lm angles differ"],
        ),
        (
            "R094",
            config(model_type="gpt_neox", rope_theta=4e4, rotary_emb_base=20_000),
            ["It is 40000.0 here and 20000 at rotary_emb_base, which is used."],
        ),
        ("R096", config(use_dynamic_ntk=True), [NEITHER]),
        (
            "R096",
            QWEN | {"dual_chunk_attention_config": {"chunk_size": 262_144}},
            ["Transformers, llama.cpp and mlx-lm; without it, in vllm the file is not refused."],
        ),
    ],
)
def test_stacks_that_a_finding_names(rule_id: str, keys: Json, words: list[str]) -> None:
    (finding,) = [each for each in lint(keys) if each.rule == rule_id]
    assert [each for each in words if each not in finding.message] == [], finding.message


@pytest.mark.parametrize(
    "keys",
    [
        with_scaling(LONG, factor=None),  # Transformers takes the ratio of the lengths
        with_scaling({"rope_type": "linear", "factor": 2.0}, original_max_position_embeddings=None),
    ],
)
def test_a_null_that_transformers_fills_in_is_no_defect(keys: Json) -> None:
    assert_silent("R019", lint(keys))


@pytest.mark.parametrize(
    ("rule_id", "header", "message"),
    [
        (
            "R106",
            llama(**GGUF_YARN, rope__scaling__attn_factor=1.2),
            "cos and sin are multiplied by 1.3664, 1.2 times 1.1386, and scores by 1.8669.",
        ),
        (
            "R114",
            of_architecture("deepseek2", **GGUF_YARN | {"rope.scaling.factor": 40.0}),
            "cos and sin are multiplied by 1.3689, and the whole score by 1.8739.",
        ),
    ],
)
def test_factors_of_llama_cpp(
    rule_id: str, header: dict[str, object], message: str, tmp_path: Path
) -> None:
    (finding,) = [e for e in lint(save(tmp_path, gguf(header))) if e.rule == rule_id]
    assert finding.message == message


@pytest.mark.parametrize("architecture", ["gptneox", "phi2"])
def test_an_architecture_whose_converter_writes_no_base_lacks_none(
    architecture: str, tmp_path: Path
) -> None:
    header = of_architecture(architecture, rope__freq_base=None, rope__dimension_count=16)
    assert lint(save(tmp_path, gguf(header))) == ()


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_a_factor_of_0_is_none(kind: str, tmp_path: Path) -> None:
    keys = {"rope.scaling.type": kind, "rope.scaling.original_context_length": 8192}
    for factor, fired in ((0.0, {"R101"}), (2.0, set())):
        header = llama(**keys | {"rope.scaling.factor": factor})
        found = {each.rule for each in lint(save(tmp_path, gguf(header)))}
        assert found & {"R101"} == fired


@pytest.mark.parametrize(("dim", "base"), [(64, 5e5), (128, 5e5), (128, 1e6)])
def test_divisors_are_those_of_their_own_base(dim: int, base: float, tmp_path: Path) -> None:
    tensors = {"rope_freqs.weight": float32([1 / each for each in llama3_scale(base, dim)])}
    sizes = {"attention.key_length": dim, "rope.dimension_count": dim}
    for used in (base, 1e4, 4e5):
        header = llama(**sizes | {"rope.freq_base": used})
        found = [
            each for each in lint(save(tmp_path, gguf(header, tensors))) if each.rule == "R126"
        ]
        assert bool(found) is (used != base)
        assert all(f"those of base {base:,.0f}, " in each.message for each in found)


# The context that a base holds, which the analysis finds in another way.


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({}, "Base 500000 holds up to 18,437 positions of 131,072: at distance 18,438 the"),
        ({"rope_theta": 1e6}, "Base 1000000 holds up to 27,114 positions of 131,072: "),
        *slow_rows(({"head_dim": 64}, "Base 500000 holds up to 9,936 positions of 131,072: ")),
    ],
)
def test_the_longest_context_of_a_base_is_said(keys: Json, words: str) -> None:
    (finding,) = [each for each in lint(config(**keys)) if each.rule == "R116"]
    assert (finding.level, finding.key) == ("note", "rope_theta")
    assert finding.message.startswith(words)


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_theta": 2e6},  # 131,072 is less than four times of what it holds
        {"partial_rotary_factor": 0.5, "model_type": "glm4"},  # as many coordinates stand still
        {"rope_theta": 1e4},  # R092 says more
        {"rope_scaling": YARN},
        {"sliding_window": 4096, "model_type": "mistral"},
        {"max_position_embeddings": 2**53, "rope_theta": 1e30},  # beyond what is searched
    ],
)
def test_no_context_is_said_where_the_base_is_not_the_cause(keys: Json) -> None:
    assert_silent("R116", lint(config(**keys)))


def test_the_factors_that_are_farthest_apart_are_named() -> None:
    def scaled_by(*factors: float) -> Model:
        model = load_model(GEMMA_3)
        pairs = zip(model.layers, factors, strict=True)
        return replace(
            model,
            layers=tuple(
                replace(layer, rotary=Rotary(head_dim=8, attention_factor=factor))
                for layer, factor in pairs
            ),
        )

    words = "cos and sin are multiplied by 2 instead of 1"
    assert words in difference(scaled_by(1.0, 1.0), scaled_by(1.1, 2.0))
    assert words in difference(scaled_by(1.0, 1.0), scaled_by(2.0, 1.1))
