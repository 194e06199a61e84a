"""Distances that `decay` computes, arguments that it refuses, and what its result says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within

from ropecli import ArgumentError, ArgumentTypeError, Decay, Rotary, decay
from ropecli.analyses.decay import ROUNDING

U = 2.0**-53
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
    ({"step": 1e-6}, "at most 100,000,001 distances, got 512000001; take a larger step"),
    ({"step": 1e-320}, "at most 100,000,001 distances, got inf; take a larger step"),
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


@pytest.mark.parametrize(
    ("start", "last", "step", "count"),
    [
        *((0, last, 1, last + 1) for last in (0, 1, 255, 256, 257, 512)),
        (0, 256, 0.02, 12_801),
        (0, 0.3, 0.1, 4),
        (0, 1, 0.1, 11),
        (0, 49 * 0.1, 0.1, 50),
        (5, 5, 3, 1),
        (5, 9, 3, 2),
        (2.5, 10, 2.5, 4),
        (100, 100.5, 0.125, 5),
        (2.0**53, 2.0**53, 1, 1),
    ],
)
def test_steps_end_on_max_distance_where_they_can(
    start: float, last: float, step: float, count: int
) -> None:
    curve = decay(ROPE, start=start, max_distance=last, step=step)
    got = curve.relative_distance
    assert len(got) == len(curve.relative_upper_bound) == count
    assert got[0] == start
    # One product and one sum, each rounded once; nothing where all are whole.
    expected = start + step * np.arange(count)
    whole = all(float(value).is_integer() for value in (start, last, step))
    assert_within("distances", got=got, expected=expected, tolerance=0 if whole else 2 * U * last)
    if (last, step) == (256, 0.02):  # of the paper's figure
        assert got[-1] == 256


@pytest.mark.parametrize(
    ("arguments", "message", "kind"),
    [
        *((arguments, message, ArgumentError) for arguments, message in REFUSED),
        *((arguments, message, ArgumentTypeError) for arguments, message in WRONG_TYPE),
    ],
)
def test_argument_is_refused(
    arguments: dict[str, Any], message: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        decay(ROPE, **arguments)
    assert str(caught.value) == message


# What a result says about itself, on curves made by hand.


def curve(*bounds: float, step: float = 1.0, start: float = 0.0) -> Decay:
    return Decay(
        rope=Rotary(head_dim=2),
        reduce="mean",
        relative_distance=np.array([start + step * index for index in range(len(bounds))]),
        relative_upper_bound=np.array(bounds, dtype=float),
    )


def test_start_is_the_first_bound() -> None:
    assert curve(8, 4, 9).start == 8


def test_lowest_is_the_smallest_and_the_first_of_equals() -> None:
    assert curve(8, 4, 2, 3, 2, step=0.5, start=10).lowest == (2, 11)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [((8, 5, 4, 3), 2), ((8, 4.0001), None), ((8, 5, 3, 9, 1), 2), ((8,), None), ((0, 0), 0)],
)
def test_halved_at_is_the_first_at_most_half(
    bounds: tuple[float, ...], expected: float | None
) -> None:
    assert curve(*bounds).halved_at == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((8, 5, 4, 3), None),
        ((8, 5, 6, 3, 4), 2),
        ((1, 2), 1),
        ((8,), None),
        ((5, 5, 5), None),
        ((1, 1 + ROUNDING / 2), None),
        ((1, 1 + ROUNDING * 2), 1),
    ],
)
def test_first_rise_is_where_the_bound_first_grows(
    bounds: tuple[float, ...], expected: float | None
) -> None:
    assert curve(*bounds).first_rise == expected


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((8, 6, 1, 1, 1, 1, 2, 4), (7, 3)),
        ((8, 4, 2, 1), (8, 1)),
        ((8, 4, 2), (8, 2)),
        ((8,), (8, 8)),
        ((9, 1, 1, 1, 5), (9, 5)),
    ],
)
def test_quarters_are_the_means_at_both_ends(
    bounds: tuple[float, ...], expected: tuple[float, float]
) -> None:
    assert curve(*bounds).quarters == expected
