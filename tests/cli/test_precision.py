"""The precision command: what it asks the library for, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import ROOT, read_json, read_stdout
from models.configs import LLAMA_31

from ropecli import Rotary, load_model, precision
from ropecli.analyses.policy import PRESETS, STAGE_DTYPES, STAGES, USUAL
from ropecli.cli.app import build


def test_document_holds_the_values_of_the_library() -> None:
    words = ["--policy", "bf16-positions,tables=float16", "--tolerance", "0.5", "--seed", "2"]
    got = read_json("precision", "--dim", "8", "--context", "600", *words)
    result = precision(
        Rotary(head_dim=8),
        "bf16-positions,tables=float16",
        context_length=600,
        tolerances=[0.5],
        seed=2,
    )
    (own,) = result.policies
    (policy,) = got["result"]["policies"]
    assert policy["name"] == "bf16-positions,tables=float16"
    assert policy["label"] == "dim 8, base 10000"
    assert policy["context_length"] == 600
    assert policy["dtype"] == own.policy.dtypes
    assert policy["positions"] == result.positions.tolist()
    assert policy["max_phase_error"] == own.max_phase_error.tolist()
    assert policy["max_table_error"] == own.max_table_error.tolist()
    assert policy["phase_error"] == own.phase_error.tolist()
    assert policy["safe_context"] == {"0.5": own.safe_context[0.5]}
    names = ["deviation", "shift_violation", "table_error", "score_error", "score_shift_violation"]
    names += ["worst_position", "worst_pair", "first_collision", "distinct_positions"]
    for name in [*names, "largest_group"]:
        assert policy[name] == getattr(own, name), name
    assert got["parameters"]["policy"] == ["bf16-positions,tables=float16"]
    assert got["parameters"]["tolerance"] == [0.5]
    assert got["parameters"]["context"] == 600


def test_without_options_the_usual_policies_are_shown_on_131072_positions() -> None:
    got = read_json("precision", "--dim", "2")
    assert [each["name"] for each in got["result"]["policies"]] == list(USUAL)
    assert {each["context_length"] for each in got["result"]["policies"]} == {131_072}
    assert list(got["result"]["policies"][0]["safe_context"]) == ["0.01", "0.1", "1"]


def test_every_model_has_its_context_and_its_rows(here: Path) -> None:
    (here / "llama.json").write_text(json.dumps(LLAMA_31))
    small = LLAMA_31 | {"max_position_embeddings": 2048, "rope_scaling": None}
    (here / "small.json").write_text(json.dumps(small))
    words = ["--model", "llama.json", "--model", "small.json", "--policy", "bf16-inv-freq"]
    got = read_json("precision", *words)["result"]["policies"]
    contexts = [LLAMA_31["max_position_embeddings"], 2048]
    assert [each["context_length"] for each in got] == contexts
    for each, name in zip(got, ("llama.json", "small.json"), strict=True):
        rope = load_model(name).layers[0].rotary
        assert rope is not None
        (own,) = precision(rope, "bf16-inv-freq", context_length=each["context_length"]).policies
        assert each["deviation"] == own.deviation


def test_a_policy_given_twice_is_shown_once() -> None:
    text = read_stdout("precision", "--dim", "2", "--policy", "float32", "--policy", "float32")
    assert text.count("\nfloat32 ") == 2


def test_presets_stages_and_dtypes_are_on_the_page_and_presets_in_the_help() -> None:
    page = (ROOT / "docs" / "commands" / "precision.md").read_text()
    help_text = build().commands["precision"].help or ""
    for name in (*PRESETS, *STAGES, *STAGE_DTYPES):
        assert f"`{name}`" in page, name
    for name in PRESETS:
        assert name in help_text, name
