"""What a result says about itself, on curves made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import Decay, Rotary
from ropecli.analyses.decay import ROUNDING


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
