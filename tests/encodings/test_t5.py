"""T5: a bias for each bucket, added to a product that is not scaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding

X = np.random.default_rng(0).standard_normal((5, 8))


def test_no_division_by_sqrt_d() -> None:
    weights = {"bias": np.zeros((32, 2))}
    t5 = encoding("t5", model_dim=8, heads=2, weights=weights)
    nope = encoding("nope", model_dim=8, heads=2)
    m = np.arange(5)
    # A head dim of 4 is divided by 2, which is exact.
    assert_same_bits("t5", got=t5.scores(X, X, m, m), expected=2 * nope.scores(X, X, m, m))


@pytest.mark.parametrize(("bidirectional", "later"), [(True, 17), (False, 0)])
def test_bias_is_that_of_the_key_after_the_query(bidirectional: bool, later: int) -> None:
    bias = np.stack([np.arange(32.0), 100 + np.arange(32.0)], axis=1)
    t5 = encoding("t5", model_dim=8, heads=2, weights={"bias": bias}, bidirectional=bidirectional)
    zero = np.zeros((1, 8))
    assert t5.scores(zero, zero, [4], [5]).ravel().tolist() == [later, 100 + later]
    assert t5.scores(zero, zero, [5], [4]).ravel().tolist() == [1, 101]


def test_moving_all_positions_changes_no_bit() -> None:
    t5, m = encoding("t5", model_dim=8, heads=2), np.arange(5) * 30
    assert_same_bits("t5", got=t5.scores(X, X, m + 37, m + 37), expected=t5.scores(X, X, m, m))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_buckets": 3}, ArgumentError, "an even number from 4 to 1024, got 3"),
        ({"num_buckets": 2}, ArgumentError, "from 4 to 1024, got 2"),
        ({"bidirectional": 0}, ArgumentTypeError, "bidirectional must be true or false, got 0"),
        (
            {"weights": {"bias": np.zeros((2, 32))}},
            ArgumentError,
            r"bias must have shape \(32, 4\), got \(2, 32\)",
        ),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encoding("t5", **options)


def test_positions_between_two_are_refused() -> None:
    t5 = encoding("t5", model_dim=8, heads=2)
    with pytest.raises(
        ArgumentError, match=r"query_positions must be whole for this encoding, got 0\.25"
    ):
        t5.scores(X[:1], X[:1], [0.25], [0])
