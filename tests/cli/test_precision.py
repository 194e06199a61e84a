"""The precision command: what it asks the library for, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path

from helpers import ROOT, read_json
from models.configs import LLAMA_31

from ropecli import load_model, precision
from ropecli.analyses.policy import PRESETS, STAGE_DTYPES, STAGES, USUAL
from ropecli.cli.app import build


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


def test_presets_stages_and_dtypes_are_on_the_page_and_presets_in_the_help() -> None:
    page = (ROOT / "docs" / "commands" / "precision.md").read_text()
    help_text = build().commands["precision"].help or ""
    for name in (*PRESETS, *STAGES, *STAGE_DTYPES):
        assert f"`{name}`" in page, name
    for name in PRESETS:
        assert name in help_text, name
