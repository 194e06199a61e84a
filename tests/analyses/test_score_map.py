"""Maps of score against position."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import ArgumentError
from ropecli.analyses import score_map as maps
from ropecli.encodings import encoding


def test_a_map_is_one_head_of_the_scores() -> None:
    made = encoding("rope", model_dim=8, heads=2)
    tokens = maps.drawn_tokens(5, 8, 1)
    got = maps.score_map(made, tokens, 3, 5, head=1)
    expected = made.scores(tokens[:3], tokens, np.arange(3.0), np.arange(5.0))[1]
    assert_same_bits("scores", got=got.scores, expected=expected)
    assert (got.name, got.equation) == ("rope", "16")


def test_tokens_are_drawn_from_the_seed() -> None:
    first, again, other = (maps.drawn_tokens(4, 6, seed) for seed in (1, 1, 2))
    assert_same_bits("tokens", got=again, expected=first)
    assert first.shape == (4, 6)
    assert (first != other).all()


@pytest.mark.parametrize(
    ("count", "dim", "seed"), [(0, 4, 0), (4, 0, 0), (2**40, 4, 0), (1, 4, -1)]
)
def test_tokens_that_are_not_drawn(count: int, dim: int, seed: int) -> None:
    with pytest.raises(ArgumentError, match="tokens and model dim must be at least 1"):
        maps.drawn_tokens(count, dim, seed)


@pytest.mark.parametrize(
    ("rows", "heads", "head", "message"),
    [
        ((0, 1), 1, 0, "queries must be from 1 to the 4 tokens there are, got 0"),
        ((1, 5), 1, 0, "keys must be from 1 to the 4 tokens there are, got 5"),
        ((1, 1), 2, 2, "head must be from 0 to heads - 1, got 2 of 2"),
        ((1, 1), 2, -1, "head must be from 0 to heads - 1, got -1 of 2"),
        ((4, 4), 2**25, 0, "at most 33,554,432 scores, got 536,870,912; take fewer tokens"),
    ],
)
def test_maps_that_are_refused(rows: tuple[int, int], heads: int, head: int, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        maps.check_map(np.zeros((4, 2)), rows, heads=heads, head=head)
    assert str(caught.value) == message
