"""Positions far out, and vectors that are very large, very small, or nothing."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from rotated import Array, normals, told, why

from ropecli import Rotary, rotate
from ropecli.checks.identify import identify

WIDE = Rotary(head_dim=64, layout="half")
PLAIN = Rotary(head_dim=16, layout="half")
WHERE = np.arange(64)


@pytest.mark.parametrize("start", [10**8, 10**9, 2**31, 10**12])
def test_right_rotations_far_out(start: int) -> None:
    """Angles are rounded to float64, and that grows with the position."""
    found = told(WIDE, start + np.arange(256), before=normals(256, 64, dtype="float64"))
    assert found.recognised, found.reason
    assert (found.base, found.precision, found.position_offset) == (10_000.0, "exact", 0.0)


def test_one_vector_turned_too_far_is_still_seen_far_out() -> None:
    where = 10**6 + np.arange(256)
    before = normals(256, 64, dtype="float64")
    after = rotate(before, WIDE, where)
    after[100] = rotate(before[100:101], WIDE, where[100:101] + 1)[0]
    assert "some are off by" in why(before, after, where)


def test_the_worst_phase_is_that_of_the_furthest_position() -> None:
    """Of many rows some are left out, and the furthest may be one of them."""
    where = np.arange(10_000)
    where[6001] = 10**6
    near = Rotary(head_dim=16, layout="half", base=10_001.0)
    found = told(PLAIN, where, before=normals(len(where), 16), near=near)
    (match,) = [each for each in found.matches if each.name == "near"]
    assert match.max_phase_error == 10**6 * np.abs(near.inv_freq - PLAIN.inv_freq).max()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_pair_of_subnormals_is_rounded_by_more_of_its_length(dtype: str) -> None:
    before = normals(64, 16, dtype=dtype)
    tiny = float(np.ldexp(1.0, {"float64": -1074, "float32": -149}.get(dtype, -24)))
    before[30, 3], before[30, 11] = 2 * tiny, tiny
    found = told(PLAIN, before=before)
    assert found.recognised, found.reason
    assert found.max_residual is not None
    assert found.max_residual < 2


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-160, 1e160, 1e300])
def test_float64_vectors_of_any_size(scale: float) -> None:
    """Subnormals at 1e-310 have 45 bits, which still show that it is a rotation."""
    found = told(PLAIN, before=normals(64, 16, dtype="float64") * scale)
    assert found.recognised, found.reason
    assert (found.layout, found.base) == ("half", 10_000.0)


@pytest.mark.parametrize("times", [1e-300, 1e-200, 1e-35, 1e35, 1e200, 1e300])
def test_lengths_that_change_beyond_measure(times: float) -> None:
    before = normals(64, 16, dtype="float64")
    reason = why(before, rotate(before, PLAIN) * times, WHERE)
    (power,) = re.findall(r"vectors are about 2\^(\S+) times as long after as before", reason)
    # The largest of each is within a power of two, and turning changes it by less than another.
    assert int(power) == pytest.approx(math.log2(times), abs=2)


@pytest.mark.parametrize("times", [1e-25, 1e25])
def test_lengths_that_change_by_much(times: float) -> None:
    before = normals(64, 16, dtype="float64")
    found = identify(before, rotate(before, PLAIN) * times, WHERE)
    assert found.recognised, found.reason
    assert found.attention_factor == pytest.approx(times, rel=1e-7)


@pytest.mark.parametrize("given", [WHERE, None])
def test_vectors_that_are_nothing(given: Array | None) -> None:
    zeros, some = np.zeros((64, 16)), normals(64, 16, dtype="float64")
    assert why(zeros, some, given) == "before is zero everywhere: no rotation can be seen"
    assert why(some, zeros, given) == "after is zero everywhere: no rotation can be seen"
