"""What is kept between calls, by an instance or by all of them."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import numpy as np
import pytest
from halves import CONTEXT, Array, Module, assert_failed, failed, judged, judged_once, table, turn

from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow


class SharedTable(Module):
    tables: ClassVar[dict[int, float]] = {}

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, table(self.tables.setdefault(x.shape[-1], self.base)))


def test_a_cache_that_ignores_the_base_is_found() -> None:
    SharedTable.tables.clear()
    verdict = judged(SharedTable, form="module", context_length=2048)
    assert set(failed(verdict)) == {"two instances"}
    assert verdict.diagnosis is not None
    assert "base counts for the first instance only" in verdict.diagnosis


class OneBase(Module):
    """The base of the last instance counts."""

    last = 10_000.0

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__(base)
        OneBase.last = base

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, table(OneBase.last))


def test_an_instance_is_left_as_it_was_by_another() -> None:
    verdict = judged_once(OneBase, form="module")
    assert failed(verdict) == ["two instances"]
    assert assert_failed(verdict, "two instances").counterexample is not None


def test_a_base_by_keyword_is_tried_on_functions_too() -> None:
    """Half a million too, which is what is tried beside another base."""

    def rotate(x: Array, positions: Array, base: float = 500_000.0) -> Array:
        return turn(x, positions, table(base))

    verdict = judged_once(rotate)
    assert failed(verdict) == []
    (law,) = [each for each in verdict.checks if each.name == "two instances"]
    assert law.passed is True


class Stale(Module):
    """Keeps the stretch of the longest sequence."""

    longest = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.longest = max(self.longest, int(np.max(positions)) + 1)
        return turn(x, positions, table(self.base * max(1.0, self.longest / 256)))


def test_a_stale_table_is_found() -> None:
    verdict = judged(Stale, form="module", original_context_length=256, context_length=2048)
    assert "long, short, long" in failed(verdict)
    assert verdict.diagnosis is not None
    assert "long call" in verdict.diagnosis


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
    case = assert_failed(judged_once(AfterShort, form="module"), "long, short, long")
    assert case.counterexample is not None
    assert "in a long call, after a short one" in case.counterexample


class HealedByShort(Module):
    """A call far out spoils the short one after it, and that one puts things right."""

    far = False

    def forward(self, x: Array, positions: Array) -> Array:
        spoiled = self.far and x.shape[-2] == 16
        self.far = int(positions.max()) >= 2 * CONTEXT
        return super().forward(x, positions + spoiled)


def test_a_short_call_after_far_positions_is_compared() -> None:
    verdict = judged_once(HealedByShort, form="module", context_length=4 * CONTEXT)
    assert failed(verdict) == ["long, short, long"]


class KeepsFirst(Module):
    """A table as long as the first long call."""

    limit = 0

    def forward(self, x: Array, positions: Array) -> Array:
        largest = int(positions.max())
        if not self.limit and largest > 1000:
            self.limit = largest
        return super().forward(x, np.minimum(positions, self.limit or largest))


def test_a_new_instance_shows_that_a_cache_is_to_blame() -> None:
    case = assert_failed(judged_once(KeepsFirst, form="module"), "long positions")
    assert case.note == (
        "a new instance turns them rightly: a cache keeps the tables of other positions"
    )


class Counts(Module):
    calls = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.calls += 1
        return super().forward(x, positions + self.calls)


def test_counting_calls_is_found() -> None:
    verdict = judged(Counts, form="module", context_length=2048)
    assert "same twice" in failed(verdict)
    assert verdict.diagnosis is not None
    assert verdict.diagnosis.startswith("the same call gives another result")


class Drifts(Module):
    """Longer from the second call on, by far less than a rotation is identified to."""

    calls = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.calls += 1
        turned = super().forward(x.astype(np.float64), positions)
        return (turned * (1 + 6e-6 * (self.calls > 1))).astype(x.dtype)


def test_a_little_drift_between_calls_is_found() -> None:
    """6e-6 is some six times what may be lost twice to rounding."""
    assert "same twice" in failed(judged_once(Drifts, form="module", context_length=512))


class Wears(Module):
    """A new instance would not show it."""

    calls = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.calls += 1
        return turn(x, positions, table(self.base * (1 if self.calls < 6 else 2)))


def test_what_wears_out_after_some_calls_is_found() -> None:
    assert "same twice" in failed(judged_once(Wears, form="module", context_length=2048))


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

    verdict = judged(Keeps, form="module", dtypes=["float32", first])
    assert set(failed(verdict)) == {"same twice"}
    assert verdict.diagnosis is not None
    assert f"what is kept has the dtype of the first call, {first}" in verdict.diagnosis
