"""Targets whose tables end soon: a refusal beyond them is not a failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from judging import SMALL, Array, checks_of, failures, judge_small, turn_small

pytestmark = pytest.mark.slow


def looked_up(rows: int) -> Any:
    """A right one with a table of that many rows; other positions are refused."""

    def rotate(x: Array, positions: Array) -> Array:
        if positions.min() < 0:
            raise IndexError("no negative positions")
        return turn_small(x, np.arange(rows)[positions])

    return rotate


@pytest.mark.parametrize("rows", [64, 20, 2, 32, 8, 1])
@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_a_short_table_is_right(rows: int, told: bool) -> None:
    if rows < 20 and not told:
        return  # so few rows do not show which rotation it is
    verdict = judge_small(looked_up(rows), context_length=rows, expect=SMALL if told else None)
    assert failures(verdict) == [], [c for c in verdict.checks if c.passed is False]
    assert checks_of(verdict, "token by token")[0].passed or rows < 4


def test_what_lies_beyond_is_said() -> None:
    verdict = judge_small(looked_up(64), context_length=64, expect=SMALL)
    (beyond,) = checks_of(verdict, "beyond the cache")
    assert beyond.passed is None
    assert str(beyond.note).startswith("refuses positions beyond 64: IndexError")


def test_positions_within_the_context_may_not_be_refused() -> None:
    """Row 40 is refused in one law alone."""

    def gap(x: Array, positions: Array) -> Array:
        if (np.diff(positions) > 10).any() and positions.max() == 47:
            raise IndexError("no gaps")
        return turn_small(x, positions)

    assert failures(judge_small(gap, context_length=64)) == ["gaps in positions"]
    verdict = judge_small(looked_up(64), context_length=128, expect=SMALL)
    assert "long positions" in failures(verdict)


def test_a_context_that_nobody_promised_may_be_short() -> None:
    """64 rows are enough for every law but the far ones."""
    assert failures(judge_small(looked_up(64), context_length=None)) == []


def test_nor_beyond_the_original_length_where_no_context_is_given() -> None:
    options = {"original_context_length": 128, "context_length": None}
    assert failures(judge_small(looked_up(128), **options)) == []
    assert failures(judge_small(looked_up(127), **options)) == ["original length"]


@pytest.mark.parametrize("original", [2, 1, 128])
def test_the_original_length_may_be_the_whole_table(original: int) -> None:
    verdict = judge_small(looked_up(128), context_length=128, original_context_length=original)
    assert failures(verdict) == []
    verdict = judge_small(looked_up(original), context_length=original, expect=SMALL,
                     original_context_length=original)  # fmt: skip
    assert failures(verdict) == []
    last = checks_of(verdict, "original length")[-1]
    assert str(last.note).startswith(f"refuses positions beyond {original}: IndexError")


def test_one_position_has_none_before_it() -> None:
    verdict = judge_small(looked_up(128), context_length=128, original_context_length=1)
    assert checks_of(verdict, "original length")[-1].note == "the original length is one position"


def test_a_shorter_table_than_the_original_length_is_a_fault() -> None:
    verdict = judge_small(
        looked_up(100), context_length=128, original_context_length=128, expect=SMALL
    )
    assert "original length" in failures(verdict)
