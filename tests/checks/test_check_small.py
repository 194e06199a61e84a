"""Targets whose tables end soon: what is refused beyond them is no failure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from eight import ROPE, failed, judged, looked_up, of, plain
from implementations.plain import Array


@pytest.mark.parametrize("rows", [64, 32, 20, 8, 2, 1])
@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_a_short_table_is_right(rows: int, told: bool) -> None:
    if rows < 20 and not told:
        return  # so few rows do not show which rotation it is
    verdict = judged(looked_up(rows), context_length=rows, expect=ROPE if told else None)
    assert failed(verdict) == [], [c for c in verdict.checks if c.passed is False]
    for law in ("relative position", "norm", "composition", "attention factor", "token by token"):
        assert of(verdict, law)[0].passed or rows < 4


def test_what_lies_beyond_is_said() -> None:
    verdict = judged(looked_up(64), context_length=64, expect=ROPE)
    for law, words in (
        ("score", "refuses positions beyond 64: IndexError"),
        ("beyond the cache", "refuses positions beyond 64: IndexError"),
    ):
        assert of(verdict, law)[-1].passed is None
        assert str(of(verdict, law)[-1].note).startswith(words)


def test_positions_within_the_context_may_not_be_refused() -> None:
    """Row 40 is refused in one law alone."""

    def gap(x: Array, positions: Array) -> Array:
        if (np.diff(positions) > 10).any() and positions.max() == 47:
            msg = "no gaps"
            raise IndexError(msg)
        return plain(x, positions)

    assert failed(judged(gap, context_length=64)) == ["gaps in positions"]
    assert "score" in failed(judged(looked_up(64), context_length=128, expect=ROPE))


def test_a_context_that_nobody_promised_may_be_short() -> None:
    """64 rows are enough for every law but the far ones."""
    verdict = judged(looked_up(64), context_length=None)
    assert failed(verdict) == []
    assert str(of(verdict, "score")[-1].note).startswith("refuses position 110: IndexError")


def test_nor_beyond_the_original_length_where_no_context_is_given() -> None:
    options = {"original_context_length": 128, "context_length": None}
    assert failed(judged(looked_up(128), **options)) == []
    assert failed(judged(looked_up(127), **options)) == ["original length"]


@pytest.mark.parametrize("original", [1, 2, 128])
def test_the_original_length_may_be_the_whole_table(original: int) -> None:
    verdict = judged(looked_up(128), context_length=128, original_context_length=original)
    assert failed(verdict) == []
    verdict = judged(looked_up(original), context_length=original, expect=ROPE,
                     original_context_length=original)  # fmt: skip
    assert failed(verdict) == []
    last = of(verdict, "original length")[-1]
    assert last.passed is None
    assert str(last.note).startswith(f"refuses positions beyond {original}: IndexError")


def test_one_position_has_none_before_it() -> None:
    verdict = judged(looked_up(128), context_length=128, original_context_length=1)
    assert of(verdict, "original length")[-1].note == "the original length is one position"


def test_a_shorter_table_than_the_original_length_is_a_fault() -> None:
    verdict = judged(looked_up(100), context_length=128, original_context_length=128, expect=ROPE)
    assert "original length" in failed(verdict)


def test_what_a_law_has_found_is_kept_when_a_later_call_raises() -> None:
    """Scores at 0 and 5 are judged before the sequence that raises."""

    def raises(x: Array, positions: Array) -> Array:
        if positions.max() == 110:
            msg = "not 110"
            raise ValueError(msg)
        return plain(x, positions)

    verdict = judged(raises, expect=ROPE)
    assert [each.passed for each in of(verdict, "score")] == [True, True, True, False]


def test_what_a_decoder_can_not_be_asked_keeps_what_it_was_asked() -> None:
    """Its positions begin at 0, or 5: at 100, 101, 102, 110 nobody can ask it."""

    class Decoder:
        length = 0

        def prefill(self, x: Array) -> Array:
            self.length = x.shape[-2]
            return plain(x, np.arange(self.length))

        def step(self, x: Array) -> Any:
            self.length += 1
            return plain(x, np.array([self.length - 1]))

    verdict = judged(Decoder, form="decoder", expect=ROPE)
    assert failed(verdict) == []
    assert [each.passed for each in of(verdict, "score")] == [True, True, True, None]
