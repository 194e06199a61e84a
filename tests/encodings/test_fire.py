"""FIRE: a network of the distance, over a denominator that grows with the query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within

from ropecli.encodings import Encoding, encoding
from ropecli.errors import ArgumentError


def with_identity(**options: Any) -> Encoding:
    """FIRE whose network gives its input back, plus 1, so that the ratio can be seen."""
    hidden, output = np.zeros((1, 32)), np.zeros((32, 1))
    hidden[0, 7], output[7, 0] = 2.0, 0.5
    weights = {
        "hidden": hidden,
        "hidden_bias": np.zeros(32),
        "output": output,
        "output_bias": np.ones(1),
    }
    return encoding("fire", model_dim=4, heads=1, weights=weights, **options)


@pytest.mark.parametrize(
    ("m", "n", "expected"),
    [
        (3, 3, 1.0),  # distance 0
        (7, 4, 1 + np.log(4) / np.log(11)),  # query within L = 10
        (4, 7, 1 + np.log(4) / np.log(11)),  # a key after its query
        (31, 0, 2.0),  # the first key from beyond L
        (31, 16, 1 + np.log(16) / np.log(32)),
    ],
)
def test_ratio_by_hand(m: int, n: int, expected: float) -> None:
    made = with_identity(c=1.0, threshold=10.0)
    silent = np.zeros((1, 4))
    got = made.scores(silent, silent, [m], [n]).item()
    # Two logarithms and a division on each side, of values below 2.
    assert abs(got - expected) < 8 * 2.0**-52


def test_a_unit_below_0_is_off() -> None:
    made = with_identity()
    made.weights["hidden"][0, 7] = -2.0
    silent = np.zeros((1, 4))
    assert made.scores(silent, silent, [100], [0]).item() == 1.0


def test_a_shift_changes_scores_beyond_the_threshold_only() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 16))
    made = encoding("fire", model_dim=16, heads=2, threshold=100.0)
    positions = np.arange(4) * 10
    start = made.scores(x, x, positions, positions)
    within = made.scores(x, x, positions + 60, positions + 60)
    # The very same numbers go into the very same sums.
    assert_within("score", got=within, expected=start, tolerance=0)
    beyond = made.scores(x, x, positions + 500, positions + 500)
    assert np.abs(beyond - start).max() > 0.01


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"c": 0.0}, "c must be finite and above 0, got 0"),
        ({"threshold": np.inf}, "threshold must be finite and above 0, got inf"),
        ({"weights": {"output": np.ones((32, 3))}}, r"output must have shape \(32, 4\)"),
    ],
)
def test_refuses(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentError, match=problem):
        encoding("fire", **arguments)
