"""Shaw et al.: clipped distances in keys and values, and RoFormer's print of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding
from ropecli.encodings.types.shaw import Shaw
from ropecli.reference import scores as reference

X = np.random.default_rng(0).standard_normal((4, 8))


def build(**options: Any) -> Shaw:
    got = encoding("shaw", model_dim=8, heads=2, **options)
    assert isinstance(got, Shaw)
    return got


@given(
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    clip=st.integers(1, 30),
    printed=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_attend_matches_the_reference(
    queries: int, keys: int, clip: int, printed: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x, y = random.standard_normal((queries, 8)), random.standard_normal((keys, 8))
    m, n = random.integers(0, 40, (2, 6)).astype(np.float64)
    m, n = m[:queries], n[:keys]
    options = {"clip": clip, "as_printed": printed}
    shaw = build(seed=seed, **options)
    # A score s is off by 8 + 8 + 4 roundings of its terms, at most 3 (|x| |y| + |x|) |W|^2 large,
    # its share of the attention by twice that, and an output by a share of the largest value.
    largest = max(1.0, *(float(np.abs(w).max()) for w in shaw.weights.values()))
    size = (1 + float(np.abs(x).sum(1).max())) * (8 + float(np.abs(y).sum(1).max())) * largest**2
    assert_within(
        "attend",
        got=shaw.attend(x, y, m, n),
        expected=reference.shaw_attention(x, y, m, n, shaw.weights, clip=clip, as_printed=printed),
        tolerance=2.0**-53 * (2 * 3 * 20 * size + 100) * 8 * (8 + size),
    )


def test_weight_of_a_distance_is_a_row() -> None:
    # q = (1, 0) whatever the token, k = 0: the score is the first coordinate of a row, / sqrt(2).
    rows = np.arange(7.0)
    weights = {
        "query": np.array([[[1.0, 0.0]]]),
        "key": np.zeros((1, 1, 2)),
        "key_positions": np.stack([rows, np.zeros(7)], axis=1),
    }
    for printed, sign in ((False, 1), (True, -1)):
        table = weights | ({"key_positions": weights["key_positions"][:, :1]} if printed else {})
        if printed:
            table["key"] = np.array([[[1.0, 0.0]]])
        shaw = encoding(
            "shaw", model_dim=1, heads=1, head_dim=2, clip=3, as_printed=printed, weights=table
        )
        n = np.arange(11)
        got = shaw.scores(np.ones((1, 1)), np.zeros((11, 1)), [5], n)[0, 0] * np.sqrt(2)
        expected = np.clip(sign * (n - 5), -3, 3) + 3
        # One rounding each of 1/sqrt(2), sqrt(2) and two products, of at most 6.
        assert_within("scores", got=got, expected=expected, tolerance=6 * 4 * 2.0**-52)


@pytest.mark.parametrize("printed", [False, True])
def test_moving_all_positions_changes_no_bit(printed: bool) -> None:
    shaw, m = build(as_printed=printed), np.arange(4) * 9
    moved = shaw.attend(X, X, m + 37, m + 37)
    assert_same_bits("attend", got=moved, expected=shaw.attend(X, X, m, m))


def test_no_query() -> None:
    assert build().attend(X[:0], X, [], [0, 1, 2, 3]).shape == (2, 0, 4)


def test_no_key() -> None:
    assert (build().attend(X, X[:0], [0, 1, 2, 3], []) == np.zeros((2, 4, 4))).all()


def test_huge_scores_do_not_overflow() -> None:
    assert np.isfinite(build().attend(1e6 * X, 1e6 * X, range(4), range(4))).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"clip": 0}, ArgumentError, "clip must be from 1 to 1,048,576, got 0"),
        ({"clip": True}, ArgumentTypeError, "clip must be an integer, got True"),
        ({"as_printed": 1}, ArgumentTypeError, "as_printed must be true or false, got 1"),
        (
            {"weights": {"key_positions": np.zeros((32, 4))}},
            ArgumentError,
            r"key_positions must have shape \(33, 4\), got \(32, 4\)",
        ),
        (
            {"as_printed": True, "weights": {"value_positions": np.zeros((33, 4))}},
            ArgumentError,
            r"value_positions must have shape \(33, 8\), got \(33, 4\)",
        ),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(**options)


def test_positions_between_two_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"key_positions must be whole for this encoding, got 0\.5"
    ):
        build().scores(X, X, range(4), [0, 0.5, 1, 2])
