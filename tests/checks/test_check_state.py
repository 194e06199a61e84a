"""State kept between calls, by an instance or by all of them."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
import pytest
from implementations.plain import inv_freq
from judging import (
    CONTEXT,
    DIM,
    THETA,
    Array,
    Module,
    assert_failed,
    failures,
    judge,
    judge_once,
    turn,
)

from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow


class SharedBase(Module):
    """The base of the first instance counts."""

    bases: ClassVar[list[float]] = []

    def forward(self, x: Array, positions: Array) -> Array:
        self.bases.append(self.base)
        return turn(x, positions, inv_freq(DIM, self.bases[0]))


class LastBase(Module):
    """The base of the last instance counts."""

    last = 10_000.0

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__(base)
        LastBase.last = base

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, inv_freq(DIM, LastBase.last))


def test_an_instance_is_left_as_it_was_by_another() -> None:
    SharedBase.bases.clear()
    verdict = judge(SharedBase, form="module", context_length=2048)
    assert failures(verdict) == ["two instances"]
    assert "counts for the first instance only" in str(verdict.diagnosis)
    verdict = judge_once(LastBase, form="module")
    assert failures(verdict) == ["two instances"]
    assert assert_failed(verdict, "two instances").counterexample is not None


class UnusedBase(Module):
    """Its base counts for nothing."""

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (UnusedBase, "base has no effect"),
        (SharedBase, "base counts for the first instance only: what is kept is kept for all"),
    ],
)
def test_a_base_without_effect_is_told_from_one_that_is_kept(target: Any, words: str) -> None:
    SharedBase.bases.clear()
    verdict = judge_once(target, form="module", select="two instances", isolated=True)
    assert str(verdict.diagnosis).endswith(words)
    assert ("share" in str(verdict.diagnosis)) is (target is SharedBase)


class AfterShort(Module):
    """A short call after a long one cuts the table of the next long one."""

    limit = sys.maxsize
    most = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.most = max(self.most, x.shape[-2])
        if x.shape[-2] == 16 and self.most == CONTEXT:
            self.limit = 1000
        return super().forward(x, np.minimum(positions, self.limit))


def test_a_long_call_after_a_short_one_is_compared() -> None:
    case = assert_failed(judge_once(AfterShort, form="module"), "long, short, long")
    assert "in a long call, after a short one" in str(case.counterexample)


class HealedByShort(Module):
    """A call far out spoils the short one after it, and that one puts things right."""

    far = False

    def forward(self, x: Array, positions: Array) -> Array:
        spoiled = self.far and x.shape[-2] == 16
        self.far = int(positions.max()) >= 2 * CONTEXT
        return super().forward(x, positions + spoiled)


def test_a_short_call_after_far_positions_is_compared() -> None:
    verdict = judge_once(HealedByShort, form="module", context_length=4 * CONTEXT)
    assert failures(verdict) == ["long, short, long"]


class KeepsFirst(Module):
    """A table as long as the first long call."""

    limit = 0

    def forward(self, x: Array, positions: Array) -> Array:
        largest = int(positions.max())
        if not self.limit and largest > 1000:
            self.limit = largest
        return super().forward(x, np.minimum(positions, self.limit or largest))


def test_a_new_instance_shows_that_a_cache_is_to_blame() -> None:
    case = assert_failed(judge_once(KeepsFirst, form="module"), "long positions")
    assert case.note == (
        "a fresh instance rotates them correctly: a cache keeps the tables of other positions"
    )


class Counting(Module):
    """Another one for each call."""

    calls = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.calls += 1
        return self.turn_again(x, positions)

    def turn_again(self, x: Array, positions: Array) -> Array:
        return turn(x, positions + self.calls)


class Drifts(Counting):
    """Longer from the second call on, by some six times what may be lost twice to rounding."""

    def turn_again(self, x: Array, positions: Array) -> Array:
        y = turn(x.astype(np.float64), positions)
        return (y * (1 + 6e-6 * (self.calls > 1))).astype(x.dtype)


class Wears(Counting):
    """A new instance would not show it."""

    def turn_again(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, THETA if self.calls < 6 else inv_freq(DIM, 20_000.0))


@pytest.mark.parametrize("kind", [Counting, Drifts, Wears])
def test_what_changes_from_call_to_call_is_found(kind: type[Counting]) -> None:
    verdict = judge_once(kind, form="module", context_length=512)
    assert "same twice" in failures(verdict)
    if kind is Counting:
        assert str(verdict.diagnosis).startswith("the same call gives another result")


@pytest.mark.parametrize("first", ["float16", "bfloat16"])
def test_positions_kept_in_the_dtype_of_the_first_call_are_found(first: str) -> None:
    """All below 256 and 2,048 are right."""

    class Keeps(Module):
        kept: Any = None

        def forward(self, x: Array, positions: Array) -> Array:
            if self.kept is None:
                half = x.dtype == DTYPES[first]
                self.kept = x.dtype if half else np.dtype(np.float64)
            return super().forward(x, np.asarray(positions).astype(self.kept))

    verdict = judge(Keeps, form="module", dtypes=["float32", first])
    assert failures(verdict) == ["same twice"]
    words = f"what is kept has the dtype of the first call, {first}"
    assert words in str(verdict.diagnosis)


def test_an_offset_of_each_sequence_is_that_of_all_its_rows() -> None:
    def by_offsets(x: Array, offsets: Array) -> Array:
        return turn(x, offsets[:, None] + np.arange(x.shape[-2]))

    verdict = judge_once(
        by_offsets,
        call="by_offsets(x, offsets)",
        axes_of_x="b h s d",
        select=["batched positions", "left padding", "packed sequences"],
    )
    assert failures(verdict) == []
