"""Promises of all encodings: the scores of their papers, whole positions, options refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within, for_each

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import ENCODINGS, encoding
from ropecli.reference import scores as reference

X = np.random.default_rng(0).standard_normal((5, 8))
#: Encodings with options.
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("nope", {}),
    ("pope", {}),
    ("rope", {}),
    ("sinusoidal", {}),
    ("sinusoidal", {"order": "concatenated"}),
    ("sinusoidal", {"exponent": "2t/(d-2)"}),
    ("learned", {}),
    ("learned", {"length": 200}),
    ("shaw", {}),
    ("shaw", {"clip": 150}),
    ("shaw", {"as_printed": True}),
    ("transformer_xl", {}),
    ("transformer_xl", {"as_printed": True}),
    ("t5", {}),
    ("t5", {"bidirectional": False}),
    ("t5", {"num_buckets": 10, "max_distance": 77}),
    ("tupe", {}),
    ("tupe", {"length": 200, "untie_cls": False}),
    ("deberta", {}),
    ("deberta", {"clip": 150, "shared": True}),
    ("deberta", {"as_printed": True}),
    ("alibi", {}),
    ("alibi", {"absolute": True}),
    ("xpos", {}),
    ("xpos", {"base": 500.0, "scale_base": 100.0, "gamma": 1.0}),
    ("kerple", {}),
    ("kerple", {"kind": "power"}),
    ("fire", {}),
    ("fire", {"c": 2.0, "threshold": 50.0}),
    ("cope", {}),
    ("cope", {"p_max": 2, "as_listed": True}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
@for_each("seed", [0, 1])
def test_scores_match_the_reference(name: str, options: dict[str, Any], seed: int) -> None:
    assert_scores_match_the_reference(name, options, seed)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
@for_each("seed", range(2, 25))
def test_scores_of_more_sizes_match_the_reference(
    name: str, options: dict[str, Any], seed: int
) -> None:
    assert_scores_match_the_reference(name, options, seed)


def assert_scores_match_the_reference(name: str, options: dict[str, Any], seed: int) -> None:
    random = np.random.default_rng(seed)
    queries, keys = 1 + 5 * seed % 6, 1 + seed % 7  # a single query takes another path
    heads, half = 1 + seed % 3, 1 + seed % 5
    model_dim = 2 * half * heads
    made = encoding(name, model_dim=model_dim, heads=heads, seed=seed, **options)
    x, y = random.standard_normal((queries, model_dim)), random.standard_normal((keys, model_dim))
    m, n = random.integers(0, 200, queries), random.integers(0, 200, keys)
    expected = getattr(reference, name)(x, y, m, n, made.weights, **options)
    # Each side rounds every product and sum of two projections and a dot product, at most
    # 2 model_dim + head_dim of them with 2^-53 of the terms' sizes, and an angle of at most 200
    # radians with 2^-53 of it; some ten terms like that add up to a score.
    size = max(1.0, float(np.abs(x).sum(1).max() * np.abs(y).sum(1).max()))
    largest = max(float(np.abs(w).max()) for w in made.weights.values()) if made.weights else 1.0
    unit = (2 * model_dim + 2 * half + 400) * 2.0**-53
    allowed = 10 * unit * size * max(1.0, largest) ** 2 * model_dim
    # A power of a distance is larger than all of these, and rounded in its own last place.
    allowed = allowed + 2.0**-51 * np.abs(expected)
    assert_within(name, got=made.scores(x, y, m, n), expected=expected, tolerance=allowed)


def test_every_encoding_has_a_row() -> None:
    assert {name for name, _ in OPTIONS} == set(ENCODINGS)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("shaw", {}),
        ("shaw", {"as_printed": True}),
        ("deberta", {}),
        ("deberta", {"as_printed": True}),
        ("t5", {}),
        ("transformer_xl", {}),
    ],
)
def test_moving_all_positions_changes_no_bit(name: str, options: dict[str, Any]) -> None:
    made = encoding(name, model_dim=8, heads=2, **options)
    attend = getattr(made, "attend", made.scores)  # Shaw's values have positions too
    m = np.arange(5) * 9
    assert_same_bits(name, got=attend(X, X, m + 37, m + 37), expected=attend(X, X, m, m))


@pytest.mark.parametrize(("name", "options"), OPTIONS, ids=str)
def test_what_tokens_share_is_that_of_their_positions(name: str, options: dict[str, Any]) -> None:
    each = encoding(name, model_dim=8, heads=2, **options)
    many = each.for_many_tokens()
    for token in (X[:1], -X[1:2]):
        for first in (0, 3, 0):
            query, keys = np.array([first + 4]), np.arange(first, first + 5)
            expected = each.scores(token, X, query, keys)
            assert_same_bits(name, got=many.scores(token, X, query, keys), expected=expected)


@pytest.mark.parametrize("name", ["learned", "shaw", "deberta", "t5", "tupe"])
@pytest.mark.parametrize("side", ["query", "key"])
def test_positions_between_two_are_refused(name: str, side: str) -> None:
    positions = {"query_positions": [0.0], "key_positions": [0.0]} | {f"{side}_positions": [0.25]}
    with pytest.raises(
        ArgumentError, match=rf"{side}_positions must be whole for this encoding, got 0\.25"
    ):
        encoding(name, model_dim=8, heads=2).scores(X[:1], X[:1], **positions)


@pytest.mark.parametrize("name", ["learned", "tupe"])
def test_a_table_ends(name: str) -> None:
    made: Any = encoding(name, model_dim=8, heads=2, length=5)
    assert_same_bits(
        "code", got=made.code([4, 0, 4]), expected=made.weights["positions"][[4, 0, 4]]
    )
    inside, end = range(5), "positions must be from 0 to 4, the table's last, got"
    with pytest.raises(ArgumentError, match=f"^{end} 5"):
        made.code([5])
    with pytest.raises(ArgumentError, match=f"query_{end} 5"):
        made.scores(X, X, [0, 1, 2, 3, 5], inside)
    with pytest.raises(ArgumentError, match=f"key_{end} -1"):
        made.scores(X, X, inside, [-1, 1, 2, 3, 4])


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("cope", {"p_max": 0}, "p_max must be at least 1, got 0"),
    ("deberta", {"clip": 0}, "clip must be from 1 to 1,048,576, got 0"),
    ("fire", {"c": 0.0}, "c must be finite and above 0, got 0"),
    ("fire", {"threshold": np.inf}, "threshold must be finite and above 0, got inf"),
    ("kerple", {"kind": "cosine"}, "kind must be log or power, got 'cosine'"),
    ("learned", {"length": 0}, "length must be from 1 to 1,048,576, got 0"),
    ("learned", {"length": 2**20 + 1}, "length must be from 1 to 1,048,576, got 1048577"),
    ("shaw", {"clip": 0}, "clip must be from 1 to 1,048,576, got 0"),
    ("sinusoidal", {"order": "mixed"}, "order must be interleaved or concatenated, got 'mix"),
    ("sinusoidal", {"order": 3}, "order must be interleaved or concatenated, got 3"),
    ("sinusoidal", {"exponent": "t"}, "exponent must be 2t/d or 2t/(d-2), got 't'"),
    (
        "sinusoidal",
        {"model_dim": 7, "heads": 1, "head_dim": 4},
        "must be even for sinusoids, got 7",
    ),
    ("t5", {"num_buckets": 3}, "num_buckets must be an even number from 4 to 1024, got 3"),
    ("t5", {"num_buckets": 2}, "num_buckets must be an even number from 4 to 1024, got 2"),
    ("t5", {"num_buckets": 2000, "max_distance": 10**6}, "an even number from 4 to 1024, got 2000"),
    ("t5", {"num_buckets": 1, "bidirectional": False}, "must be a number from 2 to 1024, got 1"),
    ("t5", {"num_buckets": -32, "bidirectional": False}, "a number from 2 to 1024, got -32"),
    ("t5", {"max_distance": 8}, "max_distance must be from 9 to 2^31, got 8"),
    ("t5", {"max_distance": 16, "bidirectional": False}, "must be from 17 to 2^31, got 16"),
    ("t5", {"max_distance": 10**60}, "must be from 9 to 2^31, got an integer of 200 bits"),
    ("transformer_xl", {"model_dim": 7, "heads": 1, "head_dim": 4}, "must be even for sinusoids"),
    ("tupe", {"length": 0}, "length must be from 1 to 1,048,576, got 0"),
    ("xpos", {"scale_base": 0.0}, "scale_base must be finite and above 0, got 0"),
    ("xpos", {"gamma": -1.0}, "gamma must be finite and above 0, got -1"),
    ("xpos", {"base": 0.0}, "must be finite and above 0, got 0"),
]
WRONG_TYPE: list[tuple[str, dict[str, Any], str]] = [
    ("alibi", {"absolute": "yes"}, "absolute must be true or false, got 'yes'"),
    ("cope", {"p_max": 2.0}, "p_max must be an integer, got 2.0"),
    ("cope", {"as_listed": 1}, "as_listed must be true or false, got 1"),
    ("deberta", {"shared": 1}, "shared must be true or false, got 1"),
    ("deberta", {"as_printed": 1}, "as_printed must be true or false, got 1"),
    ("learned", {"length": 5.0}, "length must be an integer, got 5.0"),
    ("shaw", {"clip": True}, "clip must be an integer, got True"),
    ("shaw", {"as_printed": 1}, "as_printed must be true or false, got 1"),
    ("t5", {"num_buckets": 32.0}, "num_buckets must be an integer, got 32.0"),
    ("t5", {"bidirectional": 0}, "bidirectional must be true or false, got 0"),
    ("transformer_xl", {"as_printed": "yes"}, "as_printed must be true or false, got 'yes'"),
    ("tupe", {"untie_cls": "no"}, "untie_cls must be true or false, got 'no'"),
    ("xpos", {"gamma": "much"}, "gamma must be a number, got 'much'"),
]
#: Encoding of model dim 8 and two heads, options, a weight, its right shape or None for no weight.
WEIGHTS: list[tuple[str, dict[str, Any], str, tuple[int, ...] | None]] = [
    ("alibi", {}, "slopes", None),
    ("cope", {"p_max": 8}, "position", (8, 4)),
    ("deberta", {}, "positions", (32, 8)),
    ("deberta", {"shared": True}, "position_key", None),
    ("fire", {}, "output", (32, 2)),
    ("kerple", {}, "r1", (2,)),
    ("learned", {}, "positions", (512, 8)),
    ("shaw", {}, "key_positions", (33, 4)),
    ("shaw", {"as_printed": True}, "value_positions", (33, 8)),
    ("sinusoidal", {}, "query", (2, 8, 4)),
    ("t5", {}, "bias", (32, 2)),
    ("transformer_xl", {}, "u", (2, 4)),
    ("transformer_xl", {"as_printed": True}, "v", (8,)),
    ("tupe", {"length": 6}, "bias", (11, 2)),
    ("tupe", {"untie_cls": False}, "theta1", None),
]


@pytest.mark.parametrize(("name", "options", "message"), REFUSED)
def test_value_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        encoding(name, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "options", "message"), WRONG_TYPE)
def test_type_is_refused(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        encoding(name, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(("name", "options", "weight", "shape"), WEIGHTS)
def test_weight_is_refused(
    name: str, options: dict[str, Any], weight: str, shape: tuple[int, ...] | None
) -> None:
    message = f"weight {weight} must have shape {shape}, got (3, 1)"
    if shape is None:
        message = f"encoding {name} has no weight '{weight}'"
    with pytest.raises(ArgumentError) as caught:
        encoding(name, model_dim=8, heads=2, weights={weight: np.zeros((3, 1))}, **options)
    assert message in str(caught.value)


def test_weights_must_be_finite() -> None:
    with pytest.raises(ArgumentError, match="weight r2 must be finite"):
        encoding("kerple", weights={"r2": np.full(4, np.nan)})
