"""What the first rows do not show of a rotation may not be held against those far out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conventions import made
from halves import (
    DIM,
    THETA,
    Array,
    assert_failed,
    failed,
    judged,
    judged_once,
    table,
    turn,
)

import ropecli

pytestmark = pytest.mark.slow

#: Frequencies that no formula gives.
CUSTOM = THETA * np.random.default_rng(0).uniform(0.8, 1.2, DIM // 2)
FEW: dict[str, Any] = {"original_context_length": 64, "context_length": 32_768}


def by(theta: Array) -> Any:
    return lambda x, positions: turn(x, positions, theta)


@pytest.mark.parametrize("theta", [CUSTOM * THETA, table(5e8)], ids=["custom", "slow"])
def test_pairs_too_slow_for_half_precision_may_turn_far_out(theta: Array) -> None:
    """64 rows of bfloat16 show a phase of 2^-8: at 32,767 it may be 2 rad."""
    assert failed(judged(by(theta), dtypes=["bfloat16"], **FEW)) == []


def test_coordinates_whose_pairs_do_not_show_may_turn_far_out() -> None:
    """Pairs at random places that 64 rows of float16 do not show are coordinates in no pair."""
    pairs = np.random.default_rng(0).permutation(DIM).reshape(-1, 2)
    rope = ropecli.Rotary(head_dim=DIM, base=1e12, pairs_in=pairs)
    assert failed(judged(made(rope), dtypes=["float16"], **FEW)) == []


def test_measured_frequencies_are_as_sure_as_the_rows_show_them() -> None:
    """16 rows of float32 show some 2^-24 / 16 rad per position: at 2^20 it is 0.004 rad."""
    options = {"original_context_length": 16, "context_length": 2**20}
    assert failed(judged_once(by(CUSTOM), **options)) == []


def test_a_frequency_that_half_precision_nearly_shows_is_measured() -> None:
    """1 + 3e-4 times the formula's is recognised as the formula, and 0.04 rad off at 2,304."""
    theta = THETA.copy()
    theta[5] *= 1 + 3e-4
    verdict = judged(by(theta), dtypes=["bfloat16"])
    assert failed(verdict) == []
    assert verdict.identified is not None
    assert verdict.identified.rope_type == "default"


def test_what_only_drifts_is_no_other_table() -> None:
    drifted = THETA.copy()
    drifted[0] *= 1 + 8e-4

    def rotate(x: Array, positions: Array) -> Array:
        return turn(x, positions, drifted if positions.max() > 3000 else THETA)

    assert_failed(judged_once(rotate), "long positions")


def test_a_table_that_turns_the_other_way_is_no_other_table() -> None:
    def rotate(x: Array, positions: Array) -> Array:
        return turn(x, positions, -THETA if positions.max() > 3000 else THETA)

    assert_failed(judged_once(rotate), "long positions")


@pytest.mark.parametrize("rows", [600, 100, 40])
def test_a_rotation_is_known_by_the_rows_that_its_table_has(rows: int) -> None:
    def looked_up(x: Array, positions: Array) -> Array:
        if positions.max() >= rows:
            msg = "position out of range"
            raise IndexError(msg)
        return turn(x, positions)

    verdict = judged_once(looked_up, context_length=None)
    assert verdict.identified is not None
    assert verdict.identified.rope_type == "default"
    assert "rotation" not in failed(verdict)
