"""One pair in time is slowed, so that a longer video does not repeat itself."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.rotary import Rotary, rope
from ropecli.rotary.riflex import riflex

HUNYUAN = rope("axial", head_dim=128, rope_theta=256.0, axes=3, sections=[8, 28, 28])


def test_hunyuan_video_with_twice_the_frames() -> None:
    slowed = riflex(HUNYUAN, pair=4, sequence_length=66)
    before, after = HUNYUAN.inv_freq, slowed.inv_freq
    changed = np.argwhere(before != after).tolist()
    assert changed == [[0, 3]]
    assert before[0, 3] == 0.125
    assert after[0, 3] == pytest.approx(0.0857, abs=5e-5)
    assert after[0, 3] * 66 == pytest.approx(0.9 * 2 * math.pi)


def test_another_axis_counts_its_own_pairs() -> None:
    slowed = riflex(HUNYUAN, pair=1, sequence_length=100, axis=2)
    assert np.argwhere(HUNYUAN.inv_freq != slowed.inv_freq).tolist() == [[2, 36]]
    assert (slowed.axis, slowed.pairs_in.tolist()) == (HUNYUAN.axis, HUNYUAN.pairs_in.tolist())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pair": 0}, "pair must be one of the 8 of axis 0, from 1, got 0"),
        ({"pair": 9}, "pair must be one of the 8 of axis 0, from 1, got 9"),
        ({"axis": 3}, "pair must be one of the 0 of axis 3, from 1, got 4"),
        ({"sequence_length": 45}, r"above 0\.9 periods of pair 4, 45\.24 positions, got 45"),
        ({"sequence_length": 0}, "sequence_length must be from 1 to"),
    ],
)
def test_what_can_not_be_slowed_is_refused(arguments: dict[str, Any], error: str) -> None:
    with pytest.raises(ArgumentError, match=error):
        riflex(HUNYUAN, **{"pair": 4, "sequence_length": 66, **arguments})


def test_pairs_of_several_axes_have_no_intrinsic_one() -> None:
    mixed = Rotary.from_inv_freq(np.ones((2, 4)))
    with pytest.raises(ArgumentError, match="one of the 0 of axis 0"):
        riflex(mixed, pair=1, sequence_length=66)
    with pytest.raises(ArgumentTypeError, match="rope must be a Rotary"):
        riflex("axial", pair=1, sequence_length=66)  # type: ignore[arg-type]
