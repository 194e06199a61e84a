"""ropecli permute, as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, read_json, read_output, read_stdout
from models.configs import LLAMA_31

from ropecli.files.formats.safetensors import serialize

pytestmark = pytest.mark.slow

WORDS = ["m.safetensors", "-o", "out.safetensors", "--to", "half"]
SIZES = ["--heads", "4", "--kv-heads", "2"]


@pytest.fixture
def here(here: Path) -> Path:
    random = np.random.default_rng(0)
    arrays = {
        f"layers.{layer}.attn.{name}_proj.weight": random.standard_normal((rows, 6))
        for layer in range(7)
        for name, rows in (("q", 32), ("k", 16), ("v", 16))
    }
    Path("m.safetensors").write_bytes(serialize(arrays))
    small = {"hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
    Path("config.json").write_text(json.dumps(LLAMA_31 | small))
    return here


def test_weights_are_converted_and_back(here: Path) -> None:
    page = read_stdout("permute", *WORDS, *SIZES)
    for row in (
        "PASS  out.safetensors: 14 tensors in layout half, scores are equal\n",
        "  4 query and 2 key heads of 8\n",
        "  ... and 2 more: --json\n",
        "  7 other tensors, and the metadata, unchanged\n",
    ):
        assert row in page
    back = ["out.safetensors", "-o", "back.safetensors", "--to", "interleaved", *SIZES]
    read_stdout("permute", *back)
    assert (here / "back.safetensors").read_bytes() == (here / "m.safetensors").read_bytes()
    assert (here / "out.safetensors").read_bytes() != (here / "m.safetensors").read_bytes()


def test_json(here: Path) -> None:
    document = read_json("permute", *WORDS, *SIZES, "--seed", "3")
    assert document["parameters"]["head_dim"] == 8
    assert document["parameters"]["seed"] == 3
    result = document["result"]
    assert result["tensors"][0] == {
        "name": "layers.0.attn.q_proj.weight",
        "shape": [32, 6],
        "dtype": "F64",
        "heads": 4,
        "permuted": True,
        "found": None,
    }
    assert result["tensors"][2]["permuted"] is False
    assert 0 < result["max_score_error"] < 1e-12
    assert 0 < result["max_tolerance_share"] < 1
    assert result["passed"] is result["written"] is True


def test_a_model_says_the_sizes(here: Path) -> None:
    out, err = read_output("permute", *WORDS, "--model", "config.json", "--json")
    assert "note: config.json has weights in layout half: these may have it" in err
    parameters = json.loads(out)["parameters"]
    assert [parameters[key] for key in ("heads", "kv_heads", "head_dim")] == [4, 2, 8]
    by_model = (here / "out.safetensors").read_bytes()
    read_stdout("permute", *WORDS, *SIZES, "--force")
    assert (here / "out.safetensors").read_bytes() == by_model


def test_scores_that_differ_end_with_1_and_no_file(here: Path) -> None:
    weights = {f"{role}_proj.weight": np.full((32, 6), np.nan) for role in "qk"}
    Path("m.safetensors").write_bytes(serialize(weights))
    lines = read_stdout("permute", *WORDS, "--heads", "4", code=1).splitlines()
    assert lines[0] == "FAIL  out.safetensors was not written: the scores differ"
    assert "  The weights hold NaN, infinities, or numbers whose scores overflow." in lines
    document = read_json("permute", *WORDS, "--heads", "4", code=1)
    assert document["result"]["passed"] is False
    assert not (here / "out.safetensors").exists()


def test_a_conversion_by_others_is_checked(here: Path) -> None:
    read_stdout("permute", *WORDS, *SIZES)
    words = ["permute", "m.safetensors", "--check", "out.safetensors", "--to", "half", *SIZES]
    first = "PASS  out.safetensors against m.safetensors in layout half: the scores are equal"
    assert read_stdout(*words).splitlines()[0] == first
    words[3] = "m.safetensors"
    text = read_stdout(*words, "-q", code=1)
    assert text.startswith("FAIL  m.safetensors against m.safetensors in layout half")
    assert "rows as before the conversion: layers.0.attn.q_proj.weight and 13 more" in text
    assert "-o cannot be combined with --check" in assert_refused(*words, "-o", "x.safetensors")
    assert assert_refused("permute", "m.safetensors", "--to", "half", *SIZES) == (
        "-o FILE or --check FILE is needed, got neither"
    )
