"""The similarity command."""

from __future__ import annotations

from helpers import assert_refused, read_json

from ropecli import Rotary, similarity


def test_document_holds_the_values_of_the_library() -> None:
    got = read_json("similarity", "--dim", "16", "--base", "500", "--max-dist", "20")
    result = similarity(Rotary(head_dim=16, base=500.0), max_distance=20)
    assert result.limit is not None
    assert got["result"] == {
        "label": "dim 16, base 500",
        "distance": result.distance.tolist(),
        "similarity": result.similarity.tolist(),
        "limit": result.limit.tolist(),
        "first_negative": result.first_negative,
        "lowest": result.lowest[0],
        "lowest_at": result.lowest[1],
    }
    assert got["parameters"]["max_dist"] == 20
    assert got["parameters"]["dim"] == [16]


def test_scaled_frequencies_have_no_limit() -> None:
    words = ["--dim", "8", "--rope-type", "linear", "--set", "factor=2", "--max-dist", "3"]
    assert read_json("similarity", *words)["result"]["limit"] is None


def test_a_distance_out_of_range_is_refused() -> None:
    assert "must be from 0 to" in assert_refused("similarity", "--max-dist", "-1")
