"""Implementations that are wrong in one place, or by a little: one law sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from halves import (
    CONTEXT,
    DIM,
    HALF,
    THETA,
    Array,
    assert_failed,
    failed,
    judged_once,
    turn,
    turned,
)

import ropecli

pytestmark = pytest.mark.slow

#: Where a law looks at the first positions, these are enough.
SHORT: dict[str, Any] = {"context_length": 512}


def at(change: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    """Turned by other positions."""
    return lambda x, positions: turn(x, change(np.asarray(positions)))


def test_every_law_is_judged_once() -> None:
    assert {each.name for each in judged_once(turn).checks} == {
        "rotation", "convention", "relative position", "norm", "composition", "attention factor",
        "softmax factor", "precision", "long positions", "offset positions", "gaps in positions",
        "repeated positions", "positions backwards", "negative positions", "batched positions",
        "left padding", "packed sequences", "axes", "long, short, long", "original length",
        "beyond the cache", "token by token", "two instances", "input untouched",
        "dtype and shape", "same twice", "score",
    }  # fmt: skip


def test_a_verdict_passes_if_no_law_fails() -> None:
    assert judged_once(turn).passed
    assert not judged_once(at(lambda p: np.minimum(p, 3000))).passed


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
    assert law in failed(judged_once(SLIGHT[law], **SHORT))


def test_sixteen_roundings_of_a_factor_are_allowed_and_no_more() -> None:
    """2^-20 is 9.5e-7."""
    names = failed(judged_once(lambda x, p: turn(x, p, factor=1 + 1.5e-6), expect=HALF))
    assert "attention factor" in names


def test_positions_that_begin_elsewhere_are_followed_all_the_same() -> None:
    assert failed(judged_once(at(lambda p: p + 1))) == ["composition"]


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
    assert law in failed(judged_once(at(change)))


def test_a_block_of_a_long_table_may_be_wrong_alone() -> None:
    def block(p: Array) -> Any:
        return p + ((p >= 16_384) & (p < 20_480))

    assert failed(judged_once(at(block), context_length=131_072)) == ["long positions"]


def test_what_is_promised_must_not_be_refused() -> None:
    def short(x: Array, positions: Array) -> Array:
        if positions.max() >= CONTEXT - 1:
            msg = "too far"
            raise IndexError(msg)
        return turn(x, positions)

    case = assert_failed(judged_once(short), "long positions")
    assert case.note == "a call that must be answered failed: IndexError: too far"
    assert judged_once(short, context_length=None).passed


def test_a_law_that_the_target_raises_in_fails() -> None:
    def distinct(x: Array, positions: Array) -> Array:
        if positions.ndim == 1 and len(np.unique(positions)) < len(positions):
            msg = "a position twice"
            raise ValueError(msg)
        return turn(x, positions)

    case = assert_failed(judged_once(distinct), "repeated positions")
    assert case.note == "a call that must be answered failed: ValueError: a position twice"


def test_what_is_not_a_number_far_out_is_wrong() -> None:
    def lost(x: Array, positions: Array) -> Array:
        return turn(
            x, positions, factor=np.where(np.asarray(positions)[..., None] > 3000, np.nan, 1)
        )

    verdict = judged_once(lost)
    case = assert_failed(verdict, "long positions")
    assert case.note is not None
    assert case.note.endswith("rows are not finite")
    assert failed(verdict) == ["long positions", "beyond the cache"]


def test_axes_say_which_pair_is_wrong() -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", axis=[0] * 8 + [1] * 8)

    def by(axis: Array, corner: bool = False) -> Callable[[Array, Array], Array]:
        def rotate(x: Array, positions: Array) -> Array:
            grid = np.asarray(positions, float)
            if corner and np.ptp(grid, axis=-1).any():
                grid = grid - grid.min(axis=-2, keepdims=True)
            angle = grid[..., axis] * THETA
            return turned(x, angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle)

        return rotate

    right = np.repeat([0, 1], 8)
    assert failed(judged_once(by(right), expect=expect)) == []
    case = assert_failed(judged_once(by(1 - right), expect=expect), "axes")
    assert case.counterexample == "pair 0 follows axis 1 of the position, expected 0"
    # A grid that does not begin at its corner.
    assert failed(judged_once(by(right, corner=True), expect=expect)) == ["axes"]


def test_a_batch_may_be_wrong_where_one_sequence_is_not() -> None:
    """Rows of a batch, and its heads, each by another table; twice, and the other way round."""

    def batches(x: Array, positions: Array) -> Array:
        wrong = x.ndim == 3 and positions.ndim == 1 and len(x) > 2
        return turn(x, positions + 1 if wrong else positions)

    def heads(x: Array, positions: Array) -> Array:
        wrong = x.ndim == 4 and positions.ndim == 1 and x.shape[1] > 2
        return turn(x, positions + 1 if wrong else positions)

    assert failed(judged_once(batches, **SHORT)) == ["dtype and shape"]
    assert failed(judged_once(heads, **SHORT)) == ["dtype and shape"]

    def without_heads(x: Array, positions: Array) -> Array:
        wrong = positions.ndim == 2 and x.ndim == 3
        return turn(x, positions[:1] if wrong else positions)

    def with_heads(x: Array, positions: Array) -> Array:
        wrong = positions.ndim == 2 and x.ndim == 4
        return turn(x, np.broadcast_to(positions[:1], positions.shape) if wrong else positions)

    for target in (without_heads, with_heads):
        assert {"batched positions", "left padding"} <= set(failed(judged_once(target, **SHORT)))
