"""How the axes of an image share the pairs: the ways that released encoders do it."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import assert_within_ulps

from ropecli import ArgumentError, rope

BASE = 10_000.0
OWN = [1.0, BASE**-0.25, BASE**-0.5, BASE**-0.75]  # of 8 of the head's 16 coordinates
ALL = [BASE ** (-i / 8) for i in range(8)]  # of all 16


@pytest.mark.parametrize(
    ("parameters", "expected", "axis"),
    [
        ({}, OWN + OWN, (0,) * 4 + (1,) * 4),
        ({"axis_order": [1, 0]}, OWN + OWN, (1,) * 4 + (0,) * 4),
        ({"take_turns": True}, [w for w in OWN for _ in range(2)], (0, 1) * 4),
        (
            {"take_turns": True, "axis_order": [1, 0]},
            [w for w in OWN for _ in range(2)],
            (1, 0) * 4,
        ),
        ({"deal_out": True}, ALL[::2] + ALL[1::2], (0,) * 4 + (1,) * 4),
        ({"deal_out": True, "take_turns": True}, ALL, (0, 1) * 4),
        ({"axes": 3}, [1.0, BASE**-0.5] * 3, (0, 0, 1, 1, 2, 2)),
    ],
)
def test_shares(parameters: dict[str, Any], expected: list[float], axis: tuple[int, ...]) -> None:
    made = rope("axial", head_dim=16, **parameters)
    assert made.axis == axis
    # One power each, here and there: at most 4 ulp apart.
    assert_within_ulps("inv_freq", got=made.inv_freq, expected=expected, ulps=4)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 1, 2], [1, 2]])
def test_order_names_each_axis_once(order: list[int]) -> None:
    with pytest.raises(ArgumentError, match="axis_order must name each of the 2 axes once, got"):
        rope("axial", head_dim=16, axis_order=order)
