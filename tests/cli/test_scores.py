"""The scores command, as a user meets it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, assert_within, read_json, read_stdout
from models.configs import LLAMA_31
from safetensors.numpy import save_file

from ropecli import rope
from ropecli.analyses.scores import random_tokens
from ropecli.encodings import encoding
from ropecli.encodings.types.rope import Rope

pytestmark = pytest.mark.usefixtures("here")

SMALL = ("--model-dim", "8", "--heads", "2", "--length", "4")


def test_scores_are_those_of_the_library(here: Path) -> None:
    x = np.random.default_rng(5).standard_normal((6, 8))
    np.save(here / "x.npy", x)
    options = ("--heads", "2", "--head", "1", "--queries", "3", "--seed", "7")
    got = read_json("scores", "--encodings", "rope", "--x", "x.npy", *options)
    (found,) = got["result"]["encodings"]
    made = encoding("rope", model_dim=8, heads=2, seed=7)
    expected = made.scores(x[:3], x, np.arange(3), np.arange(6))[1]
    # JSON holds the shortest digits that mean the same float.
    assert found["scores"] == expected.tolist()


def test_length_is_of_queries_and_keys_unless_they_are_given() -> None:
    shapes = []
    for options in (["--length", "3"], ["--length", "5", "--keys", "2"], ["--queries", "40"]):
        got = read_json("scores", "--encodings", "nope", *SMALL[:4], *options)
        shapes.append(np.array(got["result"]["encodings"][0]["scores"]).shape)
    assert shapes == [(3, 3), (5, 2), (40, 32)]


def test_measurement_against_theory_fails_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rope, "theory", dataclasses.replace(Rope.default_theory, symmetric=True))
    text = read_stdout("scores", "--encodings", "nope,rope", *SMALL, code=1)
    assert text.startswith(
        "FAIL: 1 disagreement with theory, seed 0\n\n  rope: symmetric was measured no"
    )
    got = read_json("scores", "--encodings", "rope", *SMALL, code=1)
    assert not got["result"]["agrees"]
    assert got["result"]["encodings"][0]["symmetry"]["agrees"] is False


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_weights_by_the_encoding_s_name(suffix: str, here: Path) -> None:
    query = np.random.default_rng(3).standard_normal((2, 8, 4))
    named = {"rope.query": query, "nope.query": 2 * query}
    if suffix == "npz":
        np.savez(here / "w.npz", **named)  # type: ignore[arg-type]
    else:
        save_file(named, here / "w.safetensors")
    options = (*SMALL, "--weights", f"w.{suffix}", "--queries", "1", "--keys", "1")
    got = read_json("scores", "--encodings", "rope,nope", *options)
    rope, nope = (each["scores"][0][0] for each in got["result"]["encodings"])
    # Twice the query is twice the score, at position 0 and but for the order of 12 sums.
    assert_within("nope", got=nope, expected=2 * rope, tolerance=1e-13)
    alone = read_json("scores", "--encodings", "rope", *options)
    assert alone["result"]["encodings"][0]["scores"][0][0] == rope


def test_plain_weights_of_one_encoding(here: Path) -> None:
    np.savez(here / "w.npz", query=np.zeros((2, 8, 4)))
    got = read_json("scores", "--encodings", "nope", *SMALL, "--weights", "w.npz")
    assert not np.any(got["result"]["encodings"][0]["scores"])
    line = assert_refused("scores", "--encodings", "nope,rope", *SMALL, "--weights", "w.npz")
    assert line == "w.npz: 'query' must be NAME.WEIGHT, NAME one of nope, rope"


def test_weights_that_do_not_fit(here: Path) -> None:
    np.savez(here / "shape.npz", query=np.zeros((2, 8, 3)))
    np.savez(here / "name.npz", bias=np.zeros(3))
    for name, message in [
        ("shape.npz", "weight query must have shape (2, 8, 4), got (2, 8, 3)"),
        ("name.npz", "encoding nope has no weight 'bias'; it has query, key, value"),
    ]:
        line = assert_refused("scores", "--encodings", "nope", *SMALL, "--weights", name)
        assert line == message


def test_options_of_an_encoding() -> None:
    shown = []
    for options in (
        [],
        ["--set", "order=concatenated"],
        ["--set", "sinusoidal.order=concatenated"],
    ):
        got = read_json("scores", "--encodings", "sinusoidal", *SMALL, *options)
        shown.append(got["result"]["encodings"][0]["scores"])
    assert shown[0] != shown[1]
    assert shown[1] == shown[2]


def test_options_of_rope() -> None:
    words = ("scores", "--encodings", "rope,nope", *SMALL)
    (plain, _), (other, _) = (
        read_json(*words, *options)["result"]["encodings"] for options in ((), ("--base", "9"))
    )
    assert plain["scores"] != other["scores"]
    linear = ("--rope-type", "linear", "--set", "rope.factor=2")
    halved = read_json(*words, *linear)["result"]["encodings"][0]["scores"]
    rotary = rope("linear", head_dim=4, factor=2)
    made = encoding("rope", model_dim=8, heads=2, rotary=rotary)
    tokens = np.repeat(random_tokens(1, 8, 0), 4, axis=0)
    assert halved == made.scores(tokens, tokens, np.arange(4), np.arange(4))[0].tolist()
    line = assert_refused("scores", "--encodings", "nope", "--base", "9")
    assert line == "--base is for the encoding rope, got nope"


@pytest.mark.slow
def test_a_model(here: Path) -> None:
    (here / "config.json").write_text(json.dumps(LLAMA_31))
    got = read_json("scores", "--encodings", "rope", "--model", "config.json", "--length", "3")
    assert np.array(got["result"]["encodings"][0]["output"]).shape == (3, 128)
