"""The scale command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_output
from models.configs import GEMMA_3, LLAMA_31, PHI_3

from ropecli import load_model, scale

SHORT = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "rope_theta": 100.0,
}


def write(**configs: dict[str, Any]) -> list[str]:
    for name, config in configs.items():
        Path(f"{name}.json").write_text(json.dumps(config))
    return [word for name in configs for word in ("--model", f"{name}.json")]


def test_a_model_starts_from_its_own_length(here: Path) -> None:
    got = read_json("scale", *write(short=SHORT), "--context", "160", "--method", "yarn")
    (found,) = got["result"]["encodings"]
    assert (found["original_length"], found["context_length"], found["factor"]) == (64, 160, 2.5)
    assert [each["method"] for each in found["methods"]] == ["unscaled", "yarn"]
    rotary = load_model(SHORT).layer().rotary
    assert rotary is not None
    wanted = scale(rotary, original_length=64, context_length=160, methods=["yarn"]).methods[1]
    made = found["methods"][1]
    assert made["frequency_ratio"] == wanted.frequency_ratio.tolist()
    assert made["upper_bound"] == wanted.upper_bound.tolist()
    assert made["longest_context"] == wanted.base_bound.longest_context
    assert got["parameters"]["method"] == ["yarn"]
    assert got["parameters"]["original"] == 64


def test_scaled_models_keep_their_lengths_and_have_a_row_of_their_own(here: Path) -> None:
    small = {"max_position_embeddings": 512, "original_max_position_embeddings": 128}
    llama = LLAMA_31 | {
        "max_position_embeddings": 512,
        "rope_scaling": LLAMA_31["rope_scaling"] | {"original_max_position_embeddings": 128},
    }
    models = write(llama=llama, phi=PHI_3 | small)
    out, err = read_output("scale", *models, "--json")
    first, second = json.loads(out)["result"]["encodings"]
    for each in (first, second):
        assert (each["original_length"], each["context_length"]) == (128, 512)
        assert each["methods"][1]["method"] == "own"
    assert [each["method"] for each in first["methods"]][-1] == "llama3"
    own, longrope = second["methods"][1], second["methods"][-1]
    assert longrope["method"] == "longrope"
    assert own["inv_freq"] == longrope["inv_freq"]
    np.testing.assert_allclose(
        own["frequency_ratio"], PHI_3["rope_scaling"]["long_factor"], rtol=1e-15
    )
    assert "sequence" not in err


def test_layers_with_a_window_are_left_out_unless_named(here: Path) -> None:
    gemma = GEMMA_3 | {
        "head_dim": 16,
        "sliding_window": 32,
        "max_position_embeddings": 128,
        "rope_scaling": None,
    }
    words = ["scale", *write(gemma=gemma), "--factor", "2", "--method", "ntk"]
    out, err = read_output(*words, "--json")
    (found,) = json.loads(out)["result"]["encodings"]
    assert "full_attention" in found["label"]
    assert "sliding_attention: left out, no distance is beyond its window of 32" in err
    named = read_json(*words, "--layer", "sliding_attention")["result"]["encodings"]
    assert "sliding_attention" in named[0]["label"]


def test_options_without_a_model() -> None:
    words = ["scale", "--dim", "16", "--original", "300", "--factor", "2", "--base", "50"]
    got = read_json(*words, "--set", "yarn.beta_fast=4", "--set", "llama3.high_freq_factor=2")
    methods = {each["method"]: each for each in got["result"]["encodings"][0]["methods"]}
    plain = {
        each["method"]: each for each in read_json(*words)["result"]["encodings"][0]["methods"]
    }
    changed = {name for name in plain if plain[name]["inv_freq"] != methods[name]["inv_freq"]}
    assert changed == {"yarn", "llama3"}
    lists = "longrope.long_factor=[1,2,3,4,5,6,7,8]"
    got = read_json(*words, "--method", "longrope", "--set", lists)
    assert got["result"]["encodings"][0]["methods"][1]["frequency_ratio"][7] == 8
    longest = read_json(*words, "--sequence-length", "300", "--method", "dynamic")
    assert set(longest["result"]["encodings"][0]["methods"][1]["frequency_ratio"]) == {1.0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the context length or the factor must be given"),
        ("--factor 2 --method pi", "method must be one of linear, ..."),
        ("--factor 2 --set pi.factor=2", "method must be one of linear, ..."),
        ("--factor 2 --write x.json", "--write requires --model"),
        (
            "--model short.json --factor 2 --write x.json",
            "--write takes one --model and one --method, got 7 results",
        ),
        (
            "--model short.json --factor 2 --method yarn_paper --write x.json",
            "cannot write x.json: no file has the ramp of yarn_paper",
        ),
        (
            "--model short.json --factor 2 --method ntk --write x.json",
            "cannot write x.json: Transformers has no rope type ntk",
        ),
        (
            "--model layers.json --factor 2 --method linear --write x.json",
            "--write takes one --model and one --method, got 2 results; "
            "choose one of the layers with --layer",
        ),
        (
            "--model short.json --factor 2 --method yarn --set yarn.ramp=paper --write x.json",
            "cannot write x.json: no file has the parameter ramp",
        ),
        (
            "--model none.json --factor 2 -q",
            "none.json: the file has no context length; give it with --original",
        ),
    ],
)
def test_refusals(here: Path, words: str, message: str) -> None:
    none = {"head_dim": 16, "rope_theta": 100.0}
    layers = GEMMA_3 | {"head_dim": 16, "max_position_embeddings": 128, "rope_scaling": None}
    write(short=SHORT, none=none, layers=layers)
    line = assert_refused("scale", *words.split())
    assert line == message or line.startswith(message.removesuffix("..."))
    assert not Path("x.json").exists()
