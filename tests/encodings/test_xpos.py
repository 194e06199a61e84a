"""xPos: RoPE's scores times a power of the distance."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli.encodings import encoding
from ropecli.errors import ArgumentError


def one_pair(weight: float = 1.0) -> dict[str, np.ndarray]:
    return {"query": weight * np.eye(2)[None], "key": weight * np.eye(2)[None]}


@pytest.mark.parametrize("distance", [0, 1, 512, -512])
def test_a_pair_shrinks_by_the_published_ratio(distance: int) -> None:
    # The one pair of d = 2 has z = 0.4 / 1.4 = 2/7, and theta = 1.
    made = encoding("xpos", model_dim=2, heads=1, weights=one_pair())
    x = np.array([[1.0, 0.0]])
    got = made.scores(x, x, [600 + distance], [600]).item()
    expected = np.cos(distance) * (2 / 7) ** (distance / 512) / np.sqrt(2)
    # Angles up to 1112 radians and exponents up to 1112/512 * ln(3.5) round by 2^-53 of themselves
    # on each side, and the rest is a few products.
    assert abs(got - expected) < 4 * 1112 * 2.0**-53 * 3.5


def test_refuses_positions_whose_growth_no_float_holds() -> None:
    made = encoding("xpos", model_dim=2, heads=1, weights=one_pair())
    x = np.ones((1, 2))
    # ln(7/2) / 512 per position: e^650 is reached at 265,653.
    assert np.isfinite(made.scores(x, x, [265_000], [265_000])).all()
    with pytest.raises(ArgumentError, match="must be within 265653 of 0 for xpos, got 300000 away"):
        made.scores(x, x, [0], [-300_000])
