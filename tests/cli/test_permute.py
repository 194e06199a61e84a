"""ropecli permute, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from helpers import read_json, read_stdout

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


def test_scores_that_differ_end_with_1_and_no_file(here: Path) -> None:
    weights = {f"{role}_proj.weight": np.full((32, 6), np.nan) for role in "qk"}
    Path("m.safetensors").write_bytes(serialize(weights))
    lines = read_stdout("permute", *WORDS, "--heads", "4", code=1).splitlines()
    assert lines[0] == "FAIL  out.safetensors was not written: the scores differ"
    assert "  The weights hold NaN, infinities, or numbers whose scores overflow." in lines
    document = read_json("permute", *WORDS, "--heads", "4", code=1)
    assert document["result"]["passed"] is False
    assert not (here / "out.safetensors").exists()
