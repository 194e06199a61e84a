"""TUPE: untied projections, the bias of a distance, and [CLS] on its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding
from ropecli.encodings.types.tupe import Tupe

DIM, HEADS, LENGTH = 8, 2, 6
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))
POSITIONS = np.arange(LENGTH)


def build(**options: Any) -> Tupe:
    got = encoding("tupe", model_dim=DIM, heads=HEADS, **{"length": LENGTH} | options)
    assert isinstance(got, Tupe)
    return got


def test_positions_of_cls_are_theta_s() -> None:
    tupe = build()
    place = tupe.scores(np.zeros_like(X), X, POSITIONS, POSITIONS)
    theta1, theta2 = tupe.weights["theta1"], tupe.weights["theta2"]
    assert (place[:, 0, :] == theta1[:, None]).all()
    assert (place[:, 1:, 0] == theta2[:, None]).all()


def test_untying_cls_changes_nothing_else() -> None:
    tied, untied = build(untie_cls=False), build()
    got = untied.scores(X, X, POSITIONS, POSITIONS)[:, 1:, 1:]
    assert (got == tied.scores(X, X, POSITIONS, POSITIONS)[:, 1:, 1:]).all()
    assert "theta1" not in tied.weights


def test_content_is_scaled_by_twice_the_head_dim() -> None:
    tupe, nope = build(), encoding("nope", model_dim=DIM, heads=HEADS)
    zero = np.zeros_like(X)
    place = tupe.scores(zero, zero, POSITIONS, POSITIONS)
    got = tupe.scores(X, X, POSITIONS, POSITIONS) - place
    expected = nope.scores(X, X, POSITIONS, POSITIONS) / np.sqrt(2)
    # The difference rounds by the size of its terms, and 1/sqrt(2d) twice; both are below 100.
    assert_within("content", got=got, expected=expected, tolerance=100 * 6 * 2.0**-53)


def test_bias_is_that_of_key_minus_query() -> None:
    weights = {
        "positions": np.zeros((LENGTH, DIM)),
        "bias": np.stack([np.arange(11.0), np.arange(11.0)], axis=1),
    }
    tupe = build(untie_cls=False, weights=weights)
    place = tupe.scores(np.zeros_like(X), X, POSITIONS, POSITIONS)
    assert (place[0] == POSITIONS[None, :] - POSITIONS[:, None] + LENGTH - 1).all()


def test_moving_all_positions_changes_the_score() -> None:
    m = POSITIONS[:3]
    tupe = build(untie_cls=False)
    moved = tupe.scores(X[:3], X[:3], m + 3, m + 3)
    assert np.abs(moved - tupe.scores(X[:3], X[:3], m, m)).max() > 0.1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"length": 0}, ArgumentError, "length must be from 1 to 1,048,576, got 0"),
        ({"untie_cls": "no"}, ArgumentTypeError, "untie_cls must be true or false, got 'no'"),
        (
            {"weights": {"bias": np.zeros((6, 2))}},
            ArgumentError,
            r"bias must have shape \(11, 2\), got \(6, 2\)",
        ),
        (
            {"untie_cls": False, "weights": {"theta1": np.zeros(2)}},
            ArgumentError,
            "encoding tupe has no weight 'theta1'",
        ),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(**options)


def test_positions_beyond_the_table_are_refused() -> None:
    with pytest.raises(ArgumentError, match="key_positions must be from 0 to 5, the table's last"):
        build().scores(X, X, POSITIONS, POSITIONS + 1)


def test_code_is_the_table() -> None:
    tupe = build()
    assert (tupe.code([5, 0]) == tupe.weights["positions"][[5, 0]]).all()
    with pytest.raises(ArgumentError, match="positions must be from 0 to 5, the table's last"):
        tupe.code([6])
