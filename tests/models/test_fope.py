"""FoPE, which is not a RoPE, is named by every command that meets its keys."""

from __future__ import annotations

from typing import Any

import pytest

import ropecli
from ropecli.checks.trace.verdict import Recording
from ropecli.errors import ArgumentError, RopecliError
from ropecli.models.load import load_model

FOPE = {"fope_init_factor": 0.5, "fope_sep_head": True, "num_inv_freq": None}
TEXT = {"model_type": "interns1_pro_text", "hidden_size": 4096, "num_attention_heads": 32}
INTERN: dict[str, Any] = {
    "model_type": "interns1_pro",
    "text_config": TEXT | {"rope_theta": 5e6, "rope_scaling": {"rope_type": "default", **FOPE}},
}
NAMED = "FoPE with fope_init_factor 0.5, fope_sep_head true"


def llama(**keys: Any) -> dict[str, Any]:
    """A model whose class is in Transformers."""
    sizes = {"hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
    return {"model_type": "llama", **sizes, "rope_scaling": {"rope_type": "default", **keys}}


@pytest.mark.parametrize("reading", [None, "vllm", "paper"])
def test_a_class_that_is_not_known_has_what_its_keys_say(reading: str | None) -> None:
    page = str(load_model(INTERN, reading=reading))
    assert page.startswith(f"config.json: {NAMED}; interns1_pro, as its keys say")
    assert f"encoding  {NAMED}, which is not a RoPE" in page
    assert "no model_type 'interns1_pro_text'" in page


def test_without_a_value_the_keys_say_nothing() -> None:
    for keys in ({}, {"use_fope": False}, dict.fromkeys(FOPE)):
        file = {**TEXT, "rope_scaling": {"rope_type": "default", "rope_theta": 5e6, **keys}}
        assert load_model(file).layer().rotary is not None


def test_a_class_of_transformers_reads_none_of_its_keys_and_vllm_its_switch() -> None:
    keys = llama(use_fope=True, **FOPE)
    assert load_model(keys).layer().rotary is not None
    with pytest.raises(ArgumentError, match=f"it has FoPE with use_fope true, {NAMED[10:]}$"):
        load_model(keys, reading="vllm").layer()
    assert load_model(llama(**FOPE), reading="vllm").layer().rotary is not None


@pytest.mark.parametrize("scaling", [{"rope_type": "linear", "factor": 2.0}, {}])
def test_scaling_and_sections_come_before_the_switch_in_vllm(scaling: dict[str, Any]) -> None:
    mrope = {} if scaling else {"mrope_section": [16, 24, 24]}
    keys = llama(**{"use_fope": True, **FOPE, **scaling, **mrope})
    assert load_model(keys, reading="vllm").layer().rotary is not None


def test_lint_names_it_and_says_of_no_key_that_nobody_reads_it() -> None:
    found = ropecli.lint(INTERN)
    assert [finding.rule for finding in found] == ["R004", "R133"]
    assert found[1].key == "text_config.rope_scaling.fope_init_factor"
    assert found[1].message == f"It has {NAMED}: no rule on frequencies is applied."
    (finding,) = [each for each in ropecli.lint(llama(use_fope=True)) if each.rule != "R116"]
    assert (finding.rule, finding.key) == ("R130", "rope_scaling.use_fope")
    assert "without it, in vllm the encoding is RoPE" in finding.message


def test_readings_with_and_without_it_differ() -> None:
    keys = llama(use_fope=True)
    found = ropecli.diff(load_model(keys), load_model(keys, reading="vllm"))
    (field,) = found.layers[0].fields
    assert (field.name, field.a, field.b) == ("encoding", "RoPE", "FoPE with use_fope true")
    assert not found.same
    assert ropecli.diff(load_model(INTERN), load_model(INTERN, reading="vllm")).same


def test_trace_names_it_in_place_of_a_verdict() -> None:
    with pytest.raises(ArgumentError, match=f"trace compares rotations, and .* has {NAMED}$"):
        Recording().verdict(load_model(INTERN))


def test_nothing_is_rotated_by_it() -> None:
    model = load_model(INTERN)
    with pytest.raises(RopecliError, match=f"no layer with a rotary position embedding: .*{NAMED}"):
        model.text_layers()
    assert not model.rotations
