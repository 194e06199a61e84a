"""The score, with the factors that multiply it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from halves import DIM, HALF, Array, assert_failed, failed, judged, judged_once, turn

import ropecli

pytestmark = pytest.mark.slow


def test_a_factor_is_wrong_in_the_score_too() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", attention_factor=1.25)
    verdict = judged_once(turn, expect=expect)
    case = assert_failed(verdict, "attention factor")
    assert case.counterexample == "position 0: vectors grow by 1, expected 1.25"
    assert failed(verdict).count("score") == 1


def scores(
    change: Callable[[Array], Any] = np.asarray, factor: float = 1.0, alone: float | None = None
) -> Any:
    """Scores as they must be, at other positions, times a factor, or another for one token."""

    def score(q: Array, k: Array, positions: Array) -> Array:
        q, k = (turn(x.astype(np.float64), change(np.asarray(positions))) for x in (q, k))
        first = len(positions) == 1 and positions[0] == 0
        times = alone if first and alone is not None else factor
        return times * (q @ k.swapaxes(-1, -2)) / math.sqrt(DIM)

    return score


@pytest.mark.parametrize(
    ("target", "law"),
    [
        (scores(), None),
        (scores(np.abs), None),
        (scores(np.zeros_like), "score"),
        (scores(lambda p: p * (1 + 2e-4)), "score"),
        (scores(lambda p: p + (p == 110)), "score"),
        (scores(factor=1.0002), "softmax factor"),
        (scores(alone=1.5), "softmax factor"),
    ],
    ids=["right", "no negatives", "not turned", "a little faster", "far", "a little more", "at 0"],
)
def test_scores_at_position_0_and_beyond(target: Any, law: str | None) -> None:
    names = failed(judged_once(target, form="score", expect=HALF))
    assert names[:1] == ([] if law is None else [law])
    assert len(names) == len(set(names))


def test_scores_are_judged_with_their_factor() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", softmax_factor=1.5)
    assert failed(judged(scores(factor=1.5), form="score", expect=expect)) == []
    verdict = judged(scores(), form="score", expect=expect)
    assert set(failed(verdict)) == {"softmax factor"}
    assert verdict.diagnosis == "the softmax factor is wrong: softmax factor 1, expected 1.5"
    other = ropecli.Rotary(head_dim=DIM, softmax_factor=1.5)
    assert "score" in failed(judged_once(scores(factor=1.5), form="score", expect=other))
