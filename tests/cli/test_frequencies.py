"""The frequencies command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import read_json, read_output
from models.configs import GPT_OSS, LLAMA_31

from ropecli import frequency_table, load_model


def test_models_have_their_own_contexts_and_lengths_before_scaling(here: Path) -> None:
    configs = {"llama.json": LLAMA_31, "gpt-oss.json": GPT_OSS}
    for name, config in configs.items():
        Path(name).write_text(json.dumps(config))
    models = [word for name in configs for word in ("--model", name)]
    got = read_json("frequencies", *models, "--layer", "all")["result"]["encodings"]
    llama = load_model(LLAMA_31).layer()
    assert llama.rotary is not None
    wanted = frequency_table(llama.rotary, context_length=131_072, trained_length=8192)
    assert got[0]["context_length"] == 131_072
    assert got[0]["trained_length"] == 8192
    assert got[0]["critical_dim"] == wanted.critical_dim == 70
    for name in ("inv_freq", "wavelength", "degrees_per_token", "turns", "angle"):
        assert got[0][name] == getattr(wanted, name).tolist()
    assert got[1]["trained_length"] == 4096
    linear = LLAMA_31 | {"rope_scaling": {"rope_type": "linear", "factor": 16.0}}
    Path("linear.json").write_text(json.dumps(linear))
    (scaled,) = read_json("frequencies", "--model", "linear.json")["result"]["encodings"]
    assert (scaled["context_length"], scaled["trained_length"]) == (131_072, 8192)
    shorter = read_json(
        "frequencies", *models, "--layer", "all", "--context", "100", "--trained", "50"
    )
    assert {each["context_length"] for each in shorter["result"]["encodings"]} == {100}
    assert {each["trained_length"] for each in shorter["result"]["encodings"]} == {50}


def test_critical_dim_is_that_of_training_at_another_context() -> None:
    """Of Llama 3, trained on 8,192 positions: 70 (LongRoPE2)."""
    model = ["frequencies", "--model", "example:llama-3-8b"]
    linear = ["--rope-type", "linear", "--set", "factor=16"]
    for words in ([], ["--context", "131072"], ["--context", "4096"], linear):
        (got,) = read_json(*model, *words)["result"]["encodings"]
        assert (got["trained_length"], got["critical_dim"]) == (8192, 70), words
    (got,) = read_json(*model, "--context", "131072", "--trained", "131072")["result"]["encodings"]
    assert (got["trained_length"], got["critical_dim"]) == (131_072, 98)


def test_wavelengths_beyond_all_digits_have_an_exponent() -> None:
    words = ["--dim", "8", "--base", "1e300"]
    alone, _ = read_output("frequencies", *words)
    assert "  slowest pair           3: 6.28319e+225 positions per turn, 6.519e-223 turns" in alone
    both, _ = read_output("frequencies", *words, "--base", "10000")
    assert max(map(len, both.splitlines())) <= 100


@pytest.mark.parametrize(
    "words",
    [
        ["frequencies"],
        ["decay", "--max-dist", "9"],
        ["construct", "--context", "9"],
        ["base-bound", "--context", "9", "--positions", "9"],
        ["rotate", "1,2,3,4"],
        ["scores", "--encodings", "rope", "--length", "2", "--model-dim", "8", "--heads", "1"],
    ],
    ids=lambda words: words[0],
)
def test_a_base_of_1_is_noted_where_all_pairs_rotate_alike(words: list[str]) -> None:
    note = "note: base 1 rotates all pairs alike: its powers are all 1\n"
    dim = ["--dim", "4"]
    assert read_output(*words, *dim, "--base", "1")[1] == note
    # A single pair has no others.
    assert read_output("rotate", "1,2", "--base", "1")[1] == ""
    assert read_output("rotate", "1,2,3,4", "--base", "2")[1] == ""
