"""The base-bound command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, read_json, read_stdout

from ropecli import base_scan


def test_context_is_that_of_the_model_or_its_window(here: Path) -> None:
    config = {
        "model_type": "gemma3_text",
        "head_dim": 32,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "num_hidden_layers": 6,
        "max_position_embeddings": 2000,
        "sliding_window": 100,
        "rope_theta": 1e6,
        "rope_local_base_freq": 10_000.0,
    }
    Path("config.json").write_text(json.dumps(config))
    got = read_json("base-bound", "--model", "config.json", "--positions", "10")
    found = {each["label"].split(":")[0]: each for each in got["result"]["encodings"]}
    lengths = {name.split()[-1]: each["context_length"] for name, each in found.items()}
    assert lengths == {"sliding_attention": 100, "full_attention": 2000}
    assert {each["searched"] for each in found.values()} == {100, 2000}


def test_scan_is_that_of_the_library(here: Path) -> None:
    words = ["--scan", "--dim", "16", "--context", "60", "--grid", "20"]
    got = read_json("base-bound", *words)
    scan = base_scan(context_length=60, head_dim=16, grid=20)
    assert got["result"]["base"] == scan.base.tolist()
    assert got["result"]["holds"] == scan.holds.tolist()
    assert got["result"]["proven_above"] == scan.proven_above
    parameters = got["parameters"]
    assert (parameters["low"], parameters["high"]) == (scan.base[0], scan.base[-1])
    assert parameters["grid"] == 20
    assert "positions" not in parameters
    read_stdout("base-bound", *words, "-o", "scan.csv")
    assert Path("scan.csv").read_text().startswith("base,holds,first_negative\n60.0")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--low 3", "--low requires --scan"),
        ("--scan", "--scan needs --context, or a --model with a context length"),
        (
            "--scan --context 9 --dim 8 --dim 16",
            "--scan takes one --dim, --model or --layer, got 2",
        ),
        (
            "--scan --context 9 --base 5 --positions 3",
            "--positions, --base cannot be combined with --scan",
        ),
        ("--context 0", "context must be from 1 to 2^53, got 0"),
        ("--positions 0", "positions must be from 1 to 2^32, got 0"),
    ],
)
def test_refusals(words: str, message: str) -> None:
    assert assert_refused("base-bound", *words.split()) == message
