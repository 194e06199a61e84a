"""Which distances `decay` computes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within

from ropecli import Rotary, decay

U = 2.0**-53


@pytest.mark.parametrize("last", [0, 1, 255, 256, 257, 512])
def test_max_distance_is_included(last: int) -> None:
    curve = decay(Rotary(head_dim=2), max_distance=last)
    assert curve.relative_distance.tolist() == list(range(last + 1))
    assert len(curve.relative_upper_bound) == last + 1


def test_default_is_512() -> None:
    assert len(decay(Rotary(head_dim=2)).relative_distance) == 513


@pytest.mark.parametrize(
    ("start", "last", "step", "count"),
    [
        (0, 256, 0.02, 12_801),
        (0, 0.3, 0.1, 4),
        (0, 1, 0.1, 11),
        (0, 49 * 0.1, 0.1, 50),
        (5, 5, 3, 1),
        (5, 9, 3, 2),
        (2.5, 10, 2.5, 4),
        (100, 100.5, 0.125, 5),
    ],
)
def test_steps_end_on_max_distance_where_they_can(
    start: float, last: float, step: float, count: int
) -> None:
    distances = decay(Rotary(head_dim=2), start=start, max_distance=last, step=step)
    got = distances.relative_distance
    assert len(got) == count
    assert got[0] == start
    # One product and one sum, each rounded once.
    expected = start + step * np.arange(count)
    assert_within("distances", got=got, expected=expected, tolerance=2 * U * last)


def test_step_of_the_papers_frame_ends_exactly_on_256() -> None:
    curve = decay(Rotary(head_dim=2), max_distance=256, step=0.02)
    assert curve.relative_distance[-1] == 256
