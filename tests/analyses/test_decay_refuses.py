"""Arguments that `decay` refuses, each with a message that says what is allowed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ropecli import ArgumentError, ArgumentTypeError, RopecliError, Rotary, decay

ROPE = Rotary(head_dim=4)
ONES = np.ones(4)
NAN = np.array([1.0, np.nan, 1.0, 1.0])

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_distance": -1}, "max distance must be finite and at least 0, got -1"),
    ({"max_distance": float("nan")}, "max distance must be finite and at least 0, got nan"),
    ({"max_distance": float("inf")}, "max distance must be finite and at least 0, got inf"),
    (
        {"max_distance": 1e17, "step": 1e16},
        "max distance must be from start, 0, to 2^53, got 1e+17",
    ),
    ({"start": 7, "max_distance": 6}, "max distance must be from start, 7, to 2^53, got 6"),
    ({"start": -0.5}, "start must be finite and at least 0, got -0.5"),
    ({"start": float("nan")}, "start must be finite and at least 0, got nan"),
    ({"step": 0}, "step must be finite and above 0, got 0"),
    ({"step": -1}, "step must be finite and above 0, got -1"),
    ({"step": float("inf")}, "step must be finite and above 0, got inf"),
    ({"step": 1e-6}, "at most 100,000,000 distances, got 512000001; take a larger step"),
    ({"step": 1e-320}, "at most 100,000,000 distances, got inf; take a larger step"),
    ({"reduce": "Mean"}, "reduce must be mean or sum, got 'Mean'"),
    ({"q": ONES}, "q and k belong together, got only q"),
    ({"k": ONES}, "q and k belong together, got only k"),
    ({"q": np.ones(3), "k": ONES}, "q must have shape (4,), got (3,)"),
    ({"q": ONES, "k": np.ones((1, 4))}, "k must have shape (4,), got (1, 4)"),
    ({"q": ONES, "k": 3.0}, "k must have shape (4,), got ()"),
    ({"q": NAN, "k": ONES}, "q must be finite, got nan"),
    ({"q": ONES, "k": -np.inf * ONES}, "k must be finite, got -inf"),
    (
        {"q": 1e200 * ONES, "k": 1e200 * ONES},
        "q and k are too large: the bound of their products passes float64's 1.8e308",
    ),
    # The products and their differences fit, their sums over the pairs do not.
    (
        {"q": 1e154 * ONES, "k": np.array([7e153, 7e153, -7e153, -7e153])},
        "q and k are too large: the bound of their products passes float64's 1.8e308",
    ),
]
WRONG_TYPE: list[tuple[dict[str, Any], str]] = [
    ({"max_distance": "512"}, "max distance must be a number, got '512'"),
    ({"start": None}, "start must be a number, got None"),
    ({"step": 1j}, "step must be a number, got 1j"),
    ({"q": ONES, "k": 1j * ONES}, "k must hold real numbers, got complex128"),
    ({"q": ONES > 0, "k": ONES}, "q must hold real numbers, got bool"),
    ({"q": ["a"] * 4, "k": ONES}, "q must be an array of numbers, got list"),
    ({"q": object(), "k": ONES}, "q must be an array of numbers, got object"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_value_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        decay(ROPE, **arguments)
    assert str(caught.value) == message
    assert isinstance(caught.value, RopecliError | ValueError)


@pytest.mark.parametrize(("arguments", "message"), WRONG_TYPE)
def test_type_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        decay(ROPE, **arguments)
    assert str(caught.value) == message


def test_largest_distance_is_allowed() -> None:
    curve = decay(ROPE, start=2.0**53, max_distance=2.0**53)
    assert curve.relative_distance.tolist() == [2.0**53]
    assert 0 <= curve.start <= 1.5
