"""The bound command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from helpers import assert_refused, read_json, read_stdout

from ropecli import Rotary, bound


def test_document_holds_the_very_values_of_the_library(here: Path) -> None:
    q, k = np.random.default_rng(0).standard_normal((2, 8))
    np.save(here / "q.npy", q)
    np.save(here / "k.npy", np.stack([q, k]))
    got = read_json("bound", "q.npy", "k.npy", "--k-row", "1", "--max-dist", "9", "--at", "2.5")
    result = bound(Rotary(head_dim=8), q, k, max_distance=9, at=2.5)
    assert got["result"]["score"] == result.score.tolist()
    assert got["result"]["envelope"] == result.envelope
    assert got["result"]["pairs"]["product_imaginary"] == result.products.imag.tolist()
    assert got["result"]["pairs"]["contribution"] == result.contributions.tolist()
    assert got["parameters"]["q"] == "q.npy"
    assert (got["parameters"]["dim"], got["parameters"]["k_row"]) == ([8], 1)


def test_the_table_has_every_bound(here: Path) -> None:
    read_stdout("bound", "1,2", "3,4", "--max-dist", "3", "-o", "bound.csv")
    lines = (here / "bound.csv").read_text().splitlines()
    assert lines[0] == "relative_distance,score,max_bound,abel_bound,norms,envelope"
    assert len(lines) == 5


def test_what_is_refused() -> None:
    assert "Q and K must be equally long, got 2 and 4" in assert_refused("bound", "1,2", "1,2,3,4")
    assert "K must have an even number of coordinates" in assert_refused("bound", "1,2", "1")
    assert "--q-row needs a file, got row 1" in assert_refused(
        "bound", "1,2", "3,4", "--q-row", "1"
    )
    assert "max distance must be at least 1, got 0" in assert_refused(
        "bound", "1,2", "3,4", "--max-dist", "0"
    )
