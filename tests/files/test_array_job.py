"""Counting what is not finite."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ropecli import Rotary
from ropecli.arrays import DTYPES
from ropecli.files.array_job import all_finite, count_nonfinite, count_overflowed


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
@pytest.mark.parametrize(
    "value", [np.nan, -np.nan, np.inf, -np.inf], ids=["nan", "-nan", "inf", "-inf"]
)
def test_a_single_one_is_found(dtype: np.dtype[Any], value: float) -> None:
    block = np.zeros((5, 7), dtype)
    block[0] = np.nextafter(np.array(np.inf, dtype), np.array(0, dtype))
    block[1] = -block[0]
    assert all_finite(block)
    assert count_nonfinite(block) == 0
    block[3, 2] = value
    assert not all_finite(block)
    assert count_nonfinite(block) == 1


@pytest.mark.parametrize(("inverse", "written"), [(False, 2), (True, 4)])
def test_pairs_are_looked_for_where_they_were_written(inverse: bool, written: int) -> None:
    # Forward, the pair (0, 1) is written to (2, 3); turned back, to (4, 5).
    rope = Rotary(
        head_dim=8,
        rotary_dim=6,
        pairs_in=[(0, 1), (2, 3), (4, 5)],
        pairs_out=[(2, 3), (4, 5), (0, 1)],
    )
    before, after = np.ones((3, 8)), np.ones((3, 8))
    after[0, written] = np.inf  # overflowed
    before[1, 0] = after[1, written] = np.nan  # was so before
    before[2, 7] = after[2, 7] = np.inf  # in no pair
    assert count_overflowed(before, after, rope, inverse=inverse) == 1


def test_signalling_nans_are_counted_without_a_warning() -> None:
    bits = np.array([0x7F81, 0x3F80, 0xFF82], np.uint16)
    assert count_nonfinite(bits.view(ml_dtypes.bfloat16)) == 2
