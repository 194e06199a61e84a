"""Implementations that one law alone sees, by a little, at one end, or in one place."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ropecli
from ropecli.checks.law import Check
from ropecli.checks.target.check import check
from ropecli.checks.target.verdict import Verdict

Array = NDArray[Any]

DIM = 32
THETA = 10_000.0 ** (-np.arange(0, DIM, 2) / DIM)
HALF = ropecli.Rotary(head_dim=DIM, layout="half")
CONTEXT = 4096


def turn(x: Array, positions: Any, theta: Array = THETA, factor: Any = 1.0) -> Array:
    """A right one, half-split; the factor is a number, or one for each row."""
    angle = np.asarray(positions, np.float64)[..., None] * theta
    factor = np.asarray(factor, float)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
        factor = factor[:, None] if factor.ndim == 3 else factor
    cosine, sine = factor * np.cos(angle), factor * np.sin(angle)
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1).astype(x.dtype)


def judged(target: Any, **options: Any) -> Verdict:
    given: dict[str, Any] = {"head_dim": DIM, "context_length": CONTEXT, "dtypes": ["float32"]}
    return check(target, **(given | options))


def failed(verdict: Verdict) -> list[str]:
    return [each.name for each in verdict.checks if each.passed is False]


def failure(verdict: Verdict, law: str) -> Check:
    assert law in failed(verdict)
    return next(c for c in verdict.checks if c.name == law and c.passed is False)


def at(change: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    """Turned by other positions."""
    return lambda x, positions: turn(x, change(np.asarray(positions)))


def test_every_law_is_judged() -> None:
    assert {each.name for each in judged(turn).checks} == {
        "rotation", "convention", "relative position", "norm", "composition", "attention factor",
        "softmax factor", "precision", "long positions", "offset positions", "gaps in positions",
        "repeated positions", "positions backwards", "negative positions", "batched positions",
        "left padding", "packed sequences", "axes", "long, short, long", "original length",
        "beyond the cache", "token by token", "two instances", "input untouched",
        "dtype and shape", "same twice", "score",
    }  # fmt: skip


def test_a_verdict_passes_if_no_law_fails() -> None:
    assert judged(turn).passed
    assert not judged(at(lambda p: np.minimum(p, 3000))).passed


def grown(rate: float) -> Callable[[Array, Array], Array]:
    """Longer from position 5 on."""
    return lambda x, p: turn(x, p, factor=1 + rate * np.maximum(np.asarray(p)[..., None] - 4, 0))


#: Growth by position, and positions moved, that are a few times what rounding may do.
SLIGHT = {
    "norm": grown(2e-6),
    "relative position": grown(1e-3),
    "composition": at(lambda p: p + 1e-3 * (p > 4)),
}


@pytest.mark.parametrize("law", SLIGHT)
def test_a_little_is_too_much(law: str) -> None:
    assert law in failed(judged(SLIGHT[law]))


def test_sixteen_roundings_of_a_factor_are_allowed_and_no_more() -> None:
    """2^-20 is 9.5e-7."""
    names = failed(judged(lambda x, p: turn(x, p, factor=1 + 1.5e-6), expect=HALF))
    assert "attention factor" in names


def test_positions_that_begin_elsewhere_are_followed_all_the_same() -> None:
    assert failed(judged(at(lambda p: p + 1))) == ["composition"]


#: A position that is wrong, and the law that asks for it.
PLACES: list[tuple[str, Callable[[Array], Any]]] = [
    ("long positions", lambda p: np.minimum(p, CONTEXT - 2)),
    ("beyond the cache", lambda p: np.minimum(p, 2 * CONTEXT - 1)),
    ("positions backwards", lambda p: p - (np.diff(p, axis=-1, prepend=p[..., :1]) == -1)),
    ("left padding", lambda p: p - (p.ndim == 2) * (p[..., :1] == p[..., 1:2])),
    ("batched positions", lambda p: p - (p.ndim == 2) * (p[..., :1] > 0)),
]


@pytest.mark.parametrize(("law", "change"), PLACES, ids=[law for law, _ in PLACES])
def test_one_place_is_enough(law: str, change: Callable[[Array], Any]) -> None:
    assert law in failed(judged(at(change)))


def test_a_block_of_a_long_table_may_be_wrong_alone() -> None:
    def block(p: Array) -> Any:
        return p + ((p >= 16_384) & (p < 20_480))

    assert failed(judged(at(block), context_length=131_072)) == ["long positions"]


def test_what_is_promised_must_not_be_refused() -> None:
    def short(x: Array, positions: Array) -> Array:
        if positions.max() >= CONTEXT - 1:
            msg = "too far"
            raise IndexError(msg)
        return turn(x, positions)

    case = failure(judged(short), "long positions")
    assert case.note == "a call that must be answered failed: IndexError: too far"
    assert judged(short, context_length=None).passed


def test_a_law_that_the_target_raises_in_fails() -> None:
    def distinct(x: Array, positions: Array) -> Array:
        if positions.ndim == 1 and len(np.unique(positions)) < len(positions):
            msg = "a position twice"
            raise ValueError(msg)
        return turn(x, positions)

    case = failure(judged(distinct), "repeated positions")
    assert case.note == "a call that must be answered failed: ValueError: a position twice"


def test_axes_say_which_pair_is_wrong() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", axis=[0] * 8 + [1] * 8)

    def by(axis: Array, corner: bool = False) -> Callable[[Array, Array], Array]:
        def rotate(x: Array, positions: Array) -> Array:
            grid = np.asarray(positions, float)
            if corner and np.ptp(grid, axis=-1).any():
                grid = grid - grid.min(axis=-2, keepdims=True)
            angle = grid[..., axis] * THETA
            if angle.ndim == 3 and x.ndim == 4:
                angle = angle[:, None]
            a, b = np.split(x.astype(float), 2, axis=-1)
            c, s = np.cos(angle), np.sin(angle)
            return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)

        return rotate

    right = np.repeat([0, 1], 8)
    assert failed(judged(by(right), expect=expect)) == []
    case = failure(judged(by(1 - right), expect=expect), "axes")
    assert case.counterexample == "pair 0 follows axis 1 of the position, expected 0"
    # A grid that does not begin at its corner.
    assert failed(judged(by(right, corner=True), expect=expect)) == ["axes"]


def test_a_factor_is_wrong_in_the_score_too() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", attention_factor=1.25)
    verdict = judged(turn, expect=expect)
    case = failure(verdict, "attention factor")
    assert case.counterexample == "position 0: vectors grow by 1, expected 1.25"
    assert failed(verdict).count("score") == 1


def scores(
    change: Callable[[Array], Any] = np.asarray, factor: float = 1.0, alone: float = 1.0
) -> Any:
    """Scores as they must be, at other positions, times a factor, or another for one token."""

    def score(q: Array, k: Array, positions: Array) -> Array:
        q, k = (turn(x.astype(np.float64), change(np.asarray(positions))) for x in (q, k))
        times = alone if len(positions) == 1 and positions[0] == 0 else factor
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
    names = failed(judged(target, form="score", expect=HALF))
    assert names[:1] == ([] if law is None else [law])
    assert len(names) == len(set(names))


def test_a_batch_may_be_wrong_where_one_sequence_is_not() -> None:
    """Rows of a batch, and its heads, each by another table; twice, and the other way round."""

    def batches(x: Array, positions: Array) -> Array:
        wrong = x.ndim == 3 and positions.ndim == 1 and len(x) > 2
        return turn(x, positions + 1 if wrong else positions)

    def heads(x: Array, positions: Array) -> Array:
        wrong = x.ndim == 4 and positions.ndim == 1 and x.shape[1] > 2
        return turn(x, positions + 1 if wrong else positions)

    assert failed(judged(batches)) == ["dtype and shape"]
    assert failed(judged(heads)) == ["dtype and shape"]

    def without_heads(x: Array, positions: Array) -> Array:
        wrong = positions.ndim == 2 and x.ndim == 3
        return turn(x, positions[:1] if wrong else positions)

    def with_heads(x: Array, positions: Array) -> Array:
        wrong = positions.ndim == 2 and x.ndim == 4
        return turn(x, np.broadcast_to(positions[:1], positions.shape) if wrong else positions)

    for target in (without_heads, with_heads):
        assert "batched positions" in failed(judged(target))
        assert "left padding" in failed(judged(target))


class Whole:
    """Made anew for each test: what it keeps is its own."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.longest = 0

    def theta(self) -> Array:
        return np.asarray(self.base ** (-np.arange(0, DIM, 2) / DIM))

    def forward(self, x: Array, positions: Array) -> Array:
        self.longest = max(self.longest, int(positions.max()))
        return turn(x, positions, self.theta(), self.factor())

    def factor(self) -> float:
        return 1.0


ORIGINAL = 256


class From(Whole):
    """Another table from a length on: as types that change with it, but for the end."""

    first = ORIGINAL + 1

    def theta(self) -> Array:
        return super().theta() / (1.5 if self.longest + 1 >= self.first else 1.0)

    def forward(self, x: Array, positions: Array) -> Array:
        self.longest = 0
        if positions.ndim == 1:
            return super().forward(x, positions)
        rows = [super(From, self).forward(*row) for row in zip(x, positions, strict=True)]
        return np.stack(rows)


class Longer(From):
    """The same with an attention factor of long sequences."""

    def factor(self) -> float:
        return 1.25 if self.longest + 1 >= self.first else 1.0


class TooEarly(From):
    first = ORIGINAL


def test_the_table_changes_after_the_original_length() -> None:
    options: dict[str, Any] = {"form": "module", "original_context_length": ORIGINAL}
    assert failed(judged(From, **options)) == []
    assert failed(judged(TooEarly, **options)) == ["original length"]


@pytest.mark.parametrize("kind", [From, Longer])
@pytest.mark.parametrize("context", [None, 200, CONTEXT])
def test_a_table_for_each_length_needs_no_original_length(kind: Any, context: int | None) -> None:
    assert failed(judged(kind, form="module", context_length=context)) == []


@pytest.mark.parametrize("length", [ORIGINAL - 1, ORIGINAL, ORIGINAL + 1])
def test_one_length_around_the_original_may_be_wrong_alone(length: int) -> None:
    def one(x: Array, positions: Array) -> Array:
        return turn(x, positions + 1 if x.shape[-2] == length else positions)

    verdict = judged(one, expect=HALF, original_context_length=ORIGINAL)
    assert failed(verdict) == ["original length"]


class AfterShort(Whole):
    """A short call after a long one cuts the table of the next long one."""

    limit = sys.maxsize
    most = 0

    def forward(self, x: Array, positions: Array) -> Array:
        self.most = max(self.most, x.shape[-2])
        if x.shape[-2] == 16 and self.most == CONTEXT:
            self.limit = 1000
        return super().forward(x, np.minimum(positions, self.limit))


def test_a_long_call_after_a_short_one_is_compared() -> None:
    case = failure(judged(AfterShort, form="module"), "long, short, long")
    assert case.counterexample is not None
    assert "in a long call, after a short one" in case.counterexample


class HealedByShort(Whole):
    """A call far out spoils the short one after it, and that one puts things right."""

    far = False

    def forward(self, x: Array, positions: Array) -> Array:
        spoiled = self.far and x.shape[-2] == 16
        self.far = int(positions.max()) >= 2 * CONTEXT
        return super().forward(x, positions + spoiled)


def test_a_short_call_after_far_positions_is_compared() -> None:
    verdict = judged(HealedByShort, form="module", context_length=4 * CONTEXT)
    assert failed(verdict) == ["long, short, long"]


class KeepsFirst(Whole):
    """A table as long as the first long call."""

    limit = 0

    def forward(self, x: Array, positions: Array) -> Array:
        largest = int(positions.max())
        if not self.limit and largest > 1000:
            self.limit = largest
        return super().forward(x, np.minimum(positions, self.limit or largest))


def test_a_new_instance_shows_that_a_cache_is_to_blame() -> None:
    case = failure(judged(KeepsFirst, form="module"), "long positions")
    assert case.note == (
        "a new instance turns them rightly: a cache keeps the tables of other positions"
    )


def test_what_is_not_a_number_far_out_is_wrong() -> None:
    def lost(x: Array, positions: Array) -> Array:
        return turn(
            x, positions, factor=np.where(np.asarray(positions)[..., None] > 3000, np.nan, 1)
        )

    verdict = judged(lost)
    case = failure(verdict, "long positions")
    assert case.note is not None
    assert case.note.endswith("rows are not finite")
    assert failed(verdict) == ["long positions", "beyond the cache"]


class OneBase(Whole):
    """The base of the last instance counts."""

    last = 10_000.0

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__(base)
        OneBase.last = base

    def theta(self) -> Array:
        self.base = OneBase.last
        return super().theta()


def test_an_instance_is_left_as_it_was_by_another() -> None:
    verdict = judged(OneBase, form="module")
    assert failed(verdict) == ["two instances"]
    assert failure(verdict, "two instances").counterexample is not None


def test_a_base_of_half_a_million_is_tried_with_another() -> None:
    def fixed(x: Array, positions: Array, base: float = 500_000.0) -> Array:
        return turn(x, positions, base ** (-np.arange(0, DIM, 2) / DIM))

    assert failed(judged(fixed)) == []


class Decoder:
    """Right, but for a step without a prefill, or after one."""

    wrong_after: int | None = None

    def __init__(self) -> None:
        self.length = self.prefilled = 0

    def prefill(self, x: Array) -> Array:
        self.length = self.prefilled = x.shape[-2]
        return turn(x, np.arange(self.length))

    def step(self, x: Array) -> Array:
        off = self.wrong_after is not None and (self.prefilled > 0) == bool(self.wrong_after)
        turned = turn(x, np.array([self.length + off]))
        self.length += 1
        return turned


@pytest.mark.parametrize("wrong_after", [None, 0, 1])
def test_steps_follow_a_prefill_or_none(wrong_after: int | None) -> None:
    kind = type("Kind", (Decoder,), {"wrong_after": wrong_after})
    names = failed(judged(kind, form="decoder", expect=HALF))
    assert ("token by token" in names) == (wrong_after is not None)
