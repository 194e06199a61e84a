"""The map of `decay --axes 2` is the score of vectors that are rotated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, Rotary, decay_map, rope, rotate

ROPES = {
    "axial": rope("axial", head_dim=16),
    "mixed": Rotary.from_inv_freq(np.random.default_rng(0).standard_normal((2, 8))),
    "reversed half": rope("axial", head_dim=16, layout="half", direction="reversed"),
}


@given(st.sampled_from(sorted(ROPES)), st.tuples(*[st.integers(-9, 9)] * 2), st.integers(0, 99))
def test_map_is_the_score_of_rotated_vectors(
    name: str, distance: tuple[int, int], start: int
) -> None:
    found = decay_map(ROPES[name], max_distance=9)
    point = np.array([start, start + 5])
    q, k = rotate(np.ones((2, 16)), ROPES[name], np.stack([point + distance, point]))
    # Angles of some hundred radians, rounded three times, and a sum of 16 products.
    np.testing.assert_allclose(
        found.score[9 + distance[0], 9 + distance[1]], q @ k / 16, rtol=0, atol=1e-12
    )


def test_lines_run_along_axes_and_diagonals() -> None:
    found = decay_map(ROPES["mixed"], max_distance=5)
    x, y = ROPES["mixed"].inv_freq
    steps = np.arange(6)[:, None]
    for name, along in {
        "axis 0": x,
        "axis 1": y,
        "diagonal": x + y,
        "other diagonal": x - y,
    }.items():
        expected = np.cos(steps * along).mean(axis=1)
        np.testing.assert_allclose(found.lines[name], expected, rtol=0, atol=1e-14)


def test_refused() -> None:
    with pytest.raises(ArgumentError, match="a map needs an encoding of 2 axes, got 1"):
        decay_map(Rotary(head_dim=8))
    with pytest.raises(ArgumentError, match="max_distance must be from 1 to 1,024"):
        decay_map(ROPES["axial"], max_distance=0)
