"""The construct command: what it prints, and the vectors that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers import assert_refused, assert_same_bits, read_json, read_output, read_stdout
from models.configs import TINY

from ropecli import Rotary, construct, decay


def test_vectors_are_written_and_their_score_is_largest_at_the_distance(here: Path) -> None:
    words = ["--dim", "16", "--distance", "7", "--distance", "0", "--context", "64"]
    read_stdout("construct", *words, "--write-q", "q.npy", "--write-k", "k.npy")
    q, k = np.load(here / "q.npy"), np.load(here / "k.npy")
    assert (q.shape, k.shape, q.dtype, k.dtype) == ((2, 16), (2, 16), np.float64, np.float64)
    curve = decay(Rotary(head_dim=16), q=q[0], k=k[0], max_distance=63)
    assert curve.score is not None
    assert curve.score.argmax() == 7


def test_document_holds_the_very_values_of_the_library() -> None:
    got = read_json("construct", "--dim", "8", "--context", "32", "--epsilon", "0.1")
    result = construct(Rotary(head_dim=8), context_length=32, epsilon=0.1)
    assert [head["squared_norm"] for head in got["result"]["heads"]] == [
        head.squared_norm for head in result.heads
    ]
    assert got["result"]["heads"][1]["score"] == result.heads[1].score.tolist()
    assert got["result"]["worst_match"] == result.worst_match.tolist()
    assert got["parameters"]["distance"] == [0, 1, 16]
    assert (got["parameters"]["dim"], got["parameters"]["context"]) == ([8], 32)


def test_a_direction_from_a_file_sets_the_head_dim(here: Path) -> None:
    psi = np.array([0.0, 0.0, 3.0, 4.0])
    np.save(here / "psi.npy", psi)
    read_stdout("construct", "--psi", "psi.npy", "--context", "8", "--write-q", "q.npy")
    q = np.load(here / "q.npy")
    for row in q:
        assert row[3] / row[2] == pytest.approx(4 / 3)
    rows = np.stack([psi, psi + 1])
    np.save(here / "rows.npy", rows)
    _, notes = read_output("construct", "--psi", "rows.npy", "--context", "8")
    assert "rows.npy: row 0 of 2 taken" in notes


def test_the_context_of_a_model(here: Path) -> None:
    (here / "config.json").write_text(json.dumps(TINY))
    page = read_stdout("construct", "--model", "config.json")
    assert "llama: dim 8, base 10000, context 64, " in page


def test_what_is_refused(here: Path) -> None:
    np.save(here / "psi.npy", np.ones(8))
    psi = ("construct", "--psi", "psi.npy")
    assert "psi and pairs both say" in assert_refused(*psi, "--pair", "1")
    assert "must end in .npy" in assert_refused("construct", "--write-q", "q.csv")
    assert "psi.npy" in assert_refused(*psi, "--write-q", "psi.npy", "--force")
    assert "got k.npy twice" in assert_refused(
        "construct", "--write-q", "k.npy", "--write-k", "k.npy"
    )
    assert "--write-k take one encoding, got 2" in assert_refused(
        "construct", "--base", "10", "--base", "20", "--write-q", "q.npy"
    )
    assert_same_bits("psi", got=np.load(here / "psi.npy"), expected=np.ones(8))
    assert not (here / "k.npy").exists()
