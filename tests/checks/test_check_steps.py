"""Positions that count g times, where nothing is expected."""

from __future__ import annotations

import numpy as np
import pytest
from implementations.plain import inv_freq
from judging import SMALL, SMALL_THETA, Array, failures, judge_small, turn_small

pytestmark = pytest.mark.slow


def step_by(dim: int, step: float) -> object:
    theta = inv_freq(dim)
    return lambda x, p: turn_small(x, np.asarray(p, float) * step, theta)


@pytest.mark.parametrize("dim", [64, 8])
@pytest.mark.parametrize("step", [1.5, 2.0, 3.0, 4.0, 100.0])
def test_positions_that_count_more_than_once_are_one_fault(dim: int, step: float) -> None:
    verdict = judge_small(step_by(dim, step), head_dim=dim)
    assert failures(verdict) == ["rotation"]
    twice = ", or rows are rotated twice" if step == 2 else ""
    assert verdict.diagnosis == f"positions or frequencies are multiplied by {step:g}{twice}"


def test_pairs_that_make_whole_turns_seem_to_stand_still() -> None:
    """The first one does: what is left begins at 2 pi 10000^(-1/32)."""
    verdict = judge_small(step_by(64, 2 * np.pi), head_dim=64)
    assert failures(verdict) == ["rotation"]
    assert str(verdict.diagnosis).startswith("positions or frequencies are multiplied by 4.7117")


@pytest.mark.parametrize("step", [0.5, -1.0, 0.25])
def test_slower_positions_are_a_linear_factor(step: float) -> None:
    verdict = judge_small(step_by(64, step), head_dim=64)
    assert verdict.passed


CUSTOM = {
    "drawn": np.sort(np.random.default_rng(0).uniform(0.001, 3, 32))[::-1],
    "below one": np.sort(np.random.default_rng(1).uniform(0.001, 1, 32))[::-1],
    "one for all": np.full(32, 0.3),
    "bent": inv_freq(64) * np.linspace(1, 0.5, 32),
    "fast and bent": inv_freq(64) * np.linspace(5, 1, 32),
    "fast and hardly bent": inv_freq(64) * np.linspace(4.4, 4, 32),
    "hardly faster": inv_freq(64) * np.linspace(1.01, 1, 32),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_a_table_of_its_own_is_a_convention(name: str) -> None:
    theta: Array = CUSTOM[name]
    verdict = judge_small(lambda x, p: turn_small(x, p, theta), head_dim=64)
    assert verdict.passed, verdict.diagnosis


def test_the_step_is_part_of_the_convention_where_one_is_expected() -> None:
    verdict = judge_small(step_by(8, 2.0), expect=SMALL)
    assert failures(verdict) == ["convention"]
    assert str(verdict.diagnosis).startswith("positions or frequencies are multiplied by 2")


def test_a_step_and_another_fault_are_told_apart() -> None:
    """Checks include the step: other failures are failures of their own."""
    verdict = judge_small(lambda x, p: turn_small(x, 2 * np.abs(p)))
    assert failures(verdict) == ["rotation", "negative positions"]


def test_a_step_stays_where_the_table_changes_with_the_length() -> None:
    def growing(x: Array, positions: Array) -> Array:
        if positions.ndim == 2:
            return np.stack([growing(*row) for row in zip(x, positions, strict=True)])
        stretch = max(1.0, (int(positions.max()) + 1) / 128)
        return turn_small(x, 2 * np.asarray(positions), SMALL_THETA / stretch)

    verdict = judge_small(growing, original_context_length=128)
    assert failures(verdict) == ["rotation"]
    assert str(verdict.diagnosis).startswith("positions or frequencies are multiplied by 2")
