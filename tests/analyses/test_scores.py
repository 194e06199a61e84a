"""Scores of encodings on the same tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import ArgumentError
from ropecli.analyses.invariance import invariance
from ropecli.analyses.scores import random_tokens, scores
from ropecli.encodings import encoding

ROPE = encoding("rope", model_dim=8, heads=2)


def test_maps_are_one_head_of_the_scores() -> None:
    tokens = random_tokens(5, 8, 1)
    nope = encoding("nope", model_dim=8, heads=2)
    got = scores([ROPE, nope], tokens, queries=3, keys=5, head=1, seed=1)
    for each, made in zip(got.maps, (ROPE, nope), strict=True):
        expected = made.scores(tokens[:3], tokens, np.arange(3.0), np.arange(5.0))[1]
        assert_same_bits("scores", got=each.scores, expected=expected)
    assert [(each.name, each.equation) for each in got.maps] == [("rope", "16"), ("nope", "2")]
    assert got.invariances[0] == invariance(ROPE, seed=1)
    assert got.agrees


def test_tokens_are_random_with_the_seed() -> None:
    first, again, other = (random_tokens(4, 6, seed) for seed in (1, 1, 2))
    assert_same_bits("tokens", got=again, expected=first)
    assert first.shape == (4, 6)
    assert (first != other).all()
    without = scores([ROPE], queries=2, keys=3, seed=1)
    with_tokens = scores([ROPE], random_tokens(3, 8, 1), queries=2, keys=3, seed=1)
    assert_same_bits("scores", got=without.maps[0].scores, expected=with_tokens.maps[0].scores)


@pytest.mark.parametrize(
    ("count", "dim", "seed"), [(0, 4, 0), (4, 0, 0), (2**40, 4, 0), (1, 4, -1)]
)
def test_tokens_that_are_refused(count: int, dim: int, seed: int) -> None:
    with pytest.raises(ArgumentError, match="tokens and model dim must be at least 1"):
        random_tokens(count, dim, seed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"queries": 0}, "queries must be from 1 to the number of tokens, 4, got 0"),
        ({"keys": 5}, "keys must be from 1 to the number of tokens, 4, got 5"),
        ({"head": 2}, "head must be from 0 to heads - 1, got 2 of 2"),
        ({"head": -1}, "head must be from 0 to heads - 1, got -1 of 2"),
        ({"shift": 0}, "shift must be at least 1, got 0"),
    ],
)
def test_maps_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        scores([ROPE], np.zeros((4, 8)), **{"queries": 4, "keys": 4} | arguments)
    assert str(caught.value) == message


def test_a_map_that_is_too_large_and_no_encodings_are_refused() -> None:
    tokens = np.zeros((2**13, 8))
    with pytest.raises(ArgumentError, match=r"at most 33,554,432 scores, got 134,217,728; take"):
        scores([ROPE], tokens, queries=2**13, keys=2**13)
    with pytest.raises(ArgumentError, match="encodings must not be empty"):
        scores([])
