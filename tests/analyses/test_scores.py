"""Scores of encodings on the same tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within

from ropecli import ArgumentError
from ropecli.analyses.invariance import invariance
from ropecli.analyses.scores import random_tokens, scores
from ropecli.encodings import ENCODINGS, Encoding, encoding
from ropecli.encodings.types.sinusoidal import sinusoids

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
    without = scores([ROPE], queries=2, keys=3, seed=1, same_token=False)
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


X = random_tokens(6, 8, 3)
M = np.arange(6.0)


@pytest.mark.slow
def test_one_token_at_every_position_shows_positions_alone() -> None:
    for name in ENCODINGS:
        made = encoding(name, model_dim=8, heads=2)
        found = scores([made], queries=6, keys=6)
        (only,) = found.maps
        assert found.same_token
        (theory,) = found.invariances
        if theory.translation_invariance.holds:
            for offset in range(-5, 6):
                stripe = np.diagonal(only.scores, offset)
                assert_within(
                    name, got=stripe, expected=stripe[:1].repeat(len(stripe)), tolerance=1e-13
                )


@pytest.mark.parametrize("name", [name for name in ENCODINGS if name != "cope"])
def test_terms_add_up_to_the_score(name: str) -> None:
    made = encoding(name, model_dim=8, heads=2)
    (only,) = scores([made], X, queries=6, keys=6, head=1).maps
    total = np.sum(list(only.terms.values()), axis=0)
    # Nine scores of at most 20 in sums and differences, each of some 20 roundings.
    assert_within("sum of terms", got=total, expected=only.scores, tolerance=9 * 20 * 20 * 2.0**-53)


def test_terms_are_those_that_the_paper_prints() -> None:
    """Eq. 6 by its matrices, and Eq. 7, 8, 9 and 10 by their weights."""
    made = encoding("sinusoidal", model_dim=8, heads=1)
    q, k = made.weights["query"][0], made.weights["key"][0]
    p = sinusoids(M, 8)
    found = scores([made], X, queries=6, keys=6).maps[0].terms
    for name, (a, b) in {
        "content_content": (X, X),
        "content_position": (X, p),
        "position_content": (p, X),
        "position_position": (p, p),
    }.items():
        expected = (a @ q) @ (b @ k).T / np.sqrt(8)
        assert_within(name, got=found[name], expected=expected, tolerance=1e-13)

    xl = encoding("transformer_xl", model_dim=8, heads=1)
    found = scores([xl], X, queries=6, keys=6).maps[0].terms
    expected = xl.weights["u"][0] @ (X @ xl.weights["key"][0]).T / np.sqrt(8)  # for every query
    assert_within(
        "u", got=found["position_content"], expected=np.tile(expected, (6, 1)), tolerance=1e-13
    )

    zero = {
        "t5": ("content_position", "position_content"),
        "tupe": ("content_position", "position_content"),
        "deberta": ("position_position",),
        "rope": ("content_position", "position_content", "position_position"),
        "shaw": ("position_content", "position_position"),
    }
    for name, none in zero.items():
        found = scores([encoding(name, model_dim=8, heads=1)], X, queries=6, keys=6).maps[0].terms
        for term, values in found.items():
            assert values.any() == (term not in none), (name, term)


def test_attention_and_output_are_those_of_equation_2() -> None:
    made = encoding("rope", model_dim=8, heads=2)
    (only,) = scores([made], X, queries=6, keys=6, head=1, causal=True).maps
    raw = made.scores(X, X, M, M)[1]
    for m in range(6):
        share = np.exp(raw[m, : m + 1]) / np.exp(raw[m, : m + 1]).sum()
        got = only.attention[m]
        assert_within("attention", got=got[: m + 1], expected=share, tolerance=1e-14)
        assert not got[m + 1 :].any()
        expected = share @ (X[: m + 1] @ made.weights["value"][1])
        assert_within("output", got=only.output[m], expected=expected, tolerance=1e-13)
    assert np.isneginf(only.scores[np.triu_indices(6, 1)]).all()


def test_names_stand_for_encodings_of_random_weights() -> None:
    named = scores(["rope", encoding("t5", model_dim=8, heads=2, seed=3)], X, queries=6, keys=6)
    made = scores([encoding("rope", model_dim=8, heads=2)], X, queries=6, keys=6)
    np.testing.assert_array_equal(named.maps[0].scores, made.maps[0].scores)
    assert [each.name for each in named.maps] == ["rope", "t5"]
    of_tokens = scores(["rope"], X, queries=6, keys=6, seed=5).maps[0]
    expected = scores([encoding("rope", model_dim=8, seed=5)], X, queries=6, keys=6).maps[0]
    np.testing.assert_array_equal(of_tokens.scores, expected.scores)
    assert [each.name for each in scores(["nope"], queries=2, keys=2).maps] == ["nope"]
    with pytest.raises(ArgumentError, match="encoding must be one of"):
        scores(["ropes"])


CAUSAL = {"alibi", "cope", "fire", "kerple", "nope", "pope", "rope", "transformer_xl", "xpos"}
SIZES: dict[str, Any] = {"model_dim": 8, "heads": 1}
MADE = [
    *((encoding(name, **SIZES), name in CAUSAL) for name in ENCODINGS),
    (encoding("alibi", **SIZES, absolute=True), False),
    (encoding("t5", **SIZES, bidirectional=False), True),
]


@pytest.mark.parametrize(("made", "causal"), MADE, ids=lambda value: getattr(value, "name", value))
def test_attention_is_causal_where_the_models_are(made: Encoding, causal: bool) -> None:
    """Scores are of all keys, and a mask that is asked for is that of attention and scores."""
    (only,) = scores([made], X, queries=6, keys=6).maps
    (free,) = scores([made], X, queries=6, keys=6, causal=False).maps
    (masked,) = scores([made], X, queries=6, keys=6, causal=True).maps
    assert only.causal is causal
    np.testing.assert_array_equal(only.scores, free.scores)
    expected = masked if causal else free
    np.testing.assert_array_equal(only.attention, expected.attention)
    np.testing.assert_array_equal(only.output, expected.output)
    later = np.triu_indices(6, 1)
    assert np.isneginf(masked.scores[later]).all()
    assert not masked.attention[later].any()
    assert free.attention.all()


def test_shaw_adds_vectors_to_the_values() -> None:
    """Values of Eq. 5."""
    made = encoding("shaw", model_dim=8, heads=1, clip=2)
    (only,) = scores([made], X, queries=6, keys=6).maps
    table = made.weights["value_positions"]
    values = X @ made.weights["value"][0]
    for m in range(6):
        rows = np.clip(M.astype(int) - m, -2, 2) + 2
        expected = only.attention[m] @ (values + table[rows])
        assert_within("output", got=only.output[m], expected=expected, tolerance=1e-13)


def test_entropy_is_that_of_the_attention() -> None:
    nope = encoding("nope", model_dim=8, heads=2)
    (only,) = scores([nope], queries=4, keys=4, causal=False).maps
    assert only.entropy == pytest.approx(np.log(4), rel=1e-14)
    (causal,) = scores([nope], queries=4, keys=4, causal=True).maps
    assert causal.entropy == pytest.approx(np.log([1, 2, 3, 4]).mean(), rel=1e-14)
