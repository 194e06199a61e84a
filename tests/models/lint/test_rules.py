"""Every rule fires on a defect, and stays silent on nearly the same file without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from golden import assert_golden
from helpers import ROOT
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
from ropecli.models.lint.rule import RETIRED, Finding, Match, Rule, rules
from ropecli.models.lint.run import lint
from ropecli.models.load import load_model

FEWEST = 25
FIXED = ("gptj", "codegen", "roformer")  #: Architectures whose code fixes the base.


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


def rule_now(rule_id: str) -> str:
    """Return the rule that finds the case of a rule, which may be gone."""
    return RETIRED.get(rule_id, rule_id)


@pytest.mark.parametrize("rule_id", CASES)
def test_rule_of_config_json(rule_id: str) -> None:
    case = CASES[rule_id]
    assert_fires(rule_now(rule_id), case.key, lint(case.fires))
    found = lint(case.quiet)
    assert_silent(rule_now(rule_id), tuple(f for f in found if f.key == case.key or not f.key))


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


def test_every_rule_is_tried() -> None:
    assert {rule_now(each) for each in (*CASES, *GGUF_CASES, *TEXT_CASES)} == set(rules())
    assert len(rules()) >= FEWEST


def test_ids_are_in_order_and_what_is_said_of_them_is_whole() -> None:
    assert list(rules()) == sorted(rules())
    titles = [each.title for each in rules().values()]
    assert len(set(titles)) == len(titles)
    for each in rules().values():
        assert re.fullmatch(r"R\d{3}", each.id)
        for text in (each.why, each.hint, each.fires):
            assert text.endswith("."), f"{each.id}: {text}"
        for thread in each.threads:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", thread), f"{each.id}: {thread}"


@pytest.mark.parametrize(("id", "level"), [("R001", "note"), ("R011", "note"), ("R999", "fatal")])
def test_an_id_is_given_once_and_a_level_is_one_of_three(id: str, level: str) -> None:
    with pytest.raises(ValueError, match=f"rule {id} must have an id of its own"):
        Rule(id, level, "", why="", hint="")
    assert Match("key", "message").hint == ""


# Sound configurations of released models: no error, no warning that is not deserved.

PUBLISHED = list(published_configs().values())
#: Warnings that entries of the data file deserve, and why.
WARNED = {
    "llama-yarn-lone-mscale": {"R130"},  # what it is there for
    "glm4v_moe_text.Glm4vMoeTextRotaryEmbedding": {"R083", "R092"},  # class defaults: 4096 / 96
    "molmo2_text.Molmo2RotaryEmbedding": {"R092"},  # class default of the base; the model has 1e6
    "phi4_multimodal.Phi4MultimodalRotaryEmbedding": {"R092"},  # class default without LongRoPE
}


@pytest.mark.slow
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


# All findings of a file, as they were looked at.

BOTH: Json = {"full_attention": YARN | {"rope_theta": 1e6}}
SMALL = {"num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4}
SIZES = SMALL | {"intermediate_size": 8, "rms_norm_eps": 1e-5, "vocab_size": 8}
QWEN = config(model_type="qwen2", hidden_size=512, **SIZES)
DYNAMIC = {"rope_type": "dynamic", "factor": 4.0, "original_max_position_embeddings": 4096}
LINEAR = {"rope_type": "linear", "factor": 2.0}
WITHOUT_BASE: dict[str, Json] = {
    "nowhere": {"rope_theta": None},
    "rotary_emb_base": {"rope_theta": None, "rotary_emb_base": 500_000},
    "rope_parameters": {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5}},
    "rope_scaling": {"rope_theta": None, "rope_scaling": {"rope_theta": 5e5}},
}
FLAT: Json = {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6}
FILES: dict[str, Json] = {
    "Gemma 3, flat keys in the new form": {
        **{key: value for key, value in GEMMA_3.items() if not key.startswith("rope_")},
        "sliding_window": 1024,
        "rope_parameters": FLAT,
    },
    **{rule_id: case.fires for rule_id, case in CASES.items()},
    "YaRN, a lone mscale without a stretch": with_scaling(YARN, factor=1.0, mscale=0.707),
    "YaRN, attention factor of four digits": with_scaling(YARN | {"attention_factor": 1.139}),
    "YaRN, another attention factor": with_scaling(YARN | {"attention_factor": 1.15}),
    "YaRN, attn_factor": with_scaling(YARN, attn_factor=0.5),
    "YaRN, two types": with_scaling(YARN, type="linear"),
    "YaRN, truncate is null": with_scaling(YARN, truncate=None),
    "Llama 3, low_freq_factor is null": with_scaling(LLAMA3, low_freq_factor=None),
    "dynamic, an original length": with_scaling(DYNAMIC),
    "LongRoPE, short_mscale": with_scaling(LONG, short_mscale=1.2),
    "LongRoPE, factor is null": with_scaling(LONG, factor=None),
    "LongRoPE, factors that fall": with_scaling(
        LONG | {"long_factor": [1.0] * 30 + [3.0, 4.0, 2.0] + [5.0] * 31}
    ),
    "linear, original length is null": with_scaling(LINEAR, original_max_position_embeddings=None),
    "by layer type, truncate": by_layer_type({**YARN, "rope_theta": 1e6, "truncate": False}),
    **{
        f"by layer type, {model_type}": config(
            model_type=model_type, rope_theta=None, rope_parameters=BOTH
        )
        for model_type in ("llama", "qwen3")
    },
    "by layer type, llama, a base outside": config(
        rope_theta=None, rope_parameters=BOTH | {"rope_theta": 5e5, "rope_type": "default"}
    ),
    "Gemma 3, a window of 512": CASES["R060"].fires | {"sliding_window": 512},
    "two shares": config(partial_rotary_factor=1.0, rotary_dim=32),
    "a share that llama does not read": config(partial_rotary_factor=0.5),
    # Architectures whose code fixes the base, or has another name for it.
    **{f"{each}, its own base": config(model_type=each, rope_theta=1e4) for each in FIXED},
    **{f"{each}, another base": config(model_type=each, rope_theta=5e5) for each in FIXED},
    **{f"gptj, base {k}": config(model_type="gptj", **v) for k, v in WITHOUT_BASE.items()},
    "gpt_neox, rope_theta": config(model_type="gpt_neox", rope_theta=500_000.0),
    "gpt_neox, both": config(model_type="gpt_neox", rope_theta=5e5, rotary_emb_base=5e5),
    "gpt_neox, two": config(model_type="gpt_neox", rope_theta=4e4, rotary_emb_base=20_000),
    "gpt_neox, neither": config(model_type="gpt_neox", rope_theta=None),
    "two bases": QWEN | {"rope_parameters": {"rope_theta": 5e5}, "rope_theta": 1e6},
    "dual chunk attention": QWEN | {"dual_chunk_attention_config": {"chunk_size": 262_144}},
    # The context that a base holds, which the analysis finds in another way.
    "base 500000": config(),
    "base 1000000": config(rope_theta=1e6),
    "base 2000000, which holds a quarter": config(rope_theta=2e6),
    "half of the coordinates stand still": config(partial_rotary_factor=0.5, model_type="glm4"),
    "base 10000": config(rope_theta=1e4),
    "YaRN": with_scaling(YARN),
    "a window": config(sliding_window=4096, model_type="mistral"),
    "beyond what is searched": config(max_position_embeddings=2**53, rope_theta=1e30),
}


def gguf_files() -> Iterator[tuple[str, bytes]]:
    """GGUF files by name."""
    for rule_id, case in GGUF_CASES.items():
        yield rule_id, gguf(case.fires, case.tensors[0])
    yield "a factor on attention", gguf(llama(**GGUF_YARN, rope__scaling__attn_factor=1.2))
    mla = of_architecture("deepseek2", **GGUF_YARN | {"rope.scaling.factor": 40.0})
    yield "a factor on the score", gguf(mla)
    for name in ("gptneox", "phi2"):  # whose converters write no base
        header = of_architecture(name, rope__freq_base=None, rope__dimension_count=16)
        yield f"{name} without a base", gguf(header)
    for kind, factor in product(("linear", "yarn"), (0.0, 2.0)):
        keys = {"rope.scaling.type": kind, "rope.scaling.original_context_length": 8192}
        yield f"{kind}, factor {factor:g}", gguf(llama(**keys | {"rope.scaling.factor": factor}))
    yield "an ext_factor that is not read", gguf(llama(rope__scaling__yarn_ext_factor=64.0))
    for context in (40_960, 131_072):
        sizes = {"attention.key_length": 128, "rope.dimension_count": 128, "rope.freq_base": 1e6}
        header = of_architecture("qwen3moe", context_length=context, **sizes)
        yield f"Qwen3-MoE, {context} positions", gguf(header)
    original: Json = {"rope__scaling__original_context_length": 4096}
    for name, keys, context in (
        ("", {}, 131_072),
        (" 4k", original, 4096),
        (" 8k", original, 8192),
    ):
        header = of_architecture("phi3", rope__freq_base=1e4, context_length=context, **keys)
        yield f"Phi-3{name} without factors", gguf(header)
    for dim, base in ((64, 5e5), (128, 5e5), (128, 1e6)):
        divisors = float32([1 / each for each in llama3_scale(base, dim)])
        sizes = {"attention.key_length": dim, "rope.dimension_count": dim}
        for used in (base, 1e4, 4e5):
            header = llama(**sizes | {"rope.freq_base": used})
            name = f"divisors of dim {dim}, base {base:g}, with base {used:g}"
            yield name, gguf(header, {"rope_freqs.weight": divisors})


def findings(folder: Path) -> Iterator[tuple[str, str]]:
    for name, keys in FILES.items():
        yield name, "\n".join(map(str, lint(keys)))
    for name, content in gguf_files():
        yield name, "\n".join(map(str, lint(save(folder, content))))


@pytest.mark.slow
def test_findings_are_as_they_were_looked_at(tmp_path: Path) -> None:
    assert_golden("findings", findings(tmp_path))


@pytest.mark.parametrize("model_type", FIXED)
def test_assumed_says_that_the_code_fixes_the_base(model_type: str) -> None:
    for base in (None, 500_000.0):
        (layer,) = load_model(config(model_type=model_type, rope_theta=base)).layers
        (said,) = [each for each in layer.settings.assumed if "base" in each]
        assert said == f"base 10000: the code of model_type {model_type} fixes it"


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


def test_blocks_of_a_class_are_layer_types_in_their_place() -> None:
    types = ["full_attention", "mlp", "sliding_attention", "mlp"]
    keys = {"model_type": "dory", "num_hidden_layers": 4}
    assert "R068" not in {finding.rule for finding in lint(keys | {"layer_types": types})}
    for other in (types[1:] + types[:1], ["full_attention", "sliding_attention", "mlp", "mlp"]):
        assert "R068" in {finding.rule for finding in lint(keys | {"layer_types": other})}
    llama = keys | {"model_type": "llama", "layer_types": types}
    assert "R068" in {finding.rule for finding in lint(llama)}
