"""Architectures whose code fixes the base: what a file says of it is told to change nothing."""

from __future__ import annotations

import pytest
from models.lint.cases import Json, config

from ropecli.models.lint.rule import Finding
from ropecli.models.lint.run import lint
from ropecli.models.load import load_model

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
