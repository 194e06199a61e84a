"""Results that are none: of the wrong shape, of the wrong kind, or nowhere near a number."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from implementations.plain import interleaved
from judging import (
    SMALL,
    SMALL_CONTEXT,
    SMALL_DIM,
    Array,
    assert_failed,
    checks_of,
    failures,
    judge_small,
    turn_small,
)

import ropecli
from ropecli.testing import assert_rope

pytestmark = pytest.mark.slow


def test_fewer_rows_are_no_refusal_of_far_positions() -> None:
    def cut(x: Array, positions: Array) -> Array:
        return (
            turn_small(x, positions)[..., positions < SMALL_CONTEXT, :]
            if positions.ndim == 1
            else x
        )

    def no_negative(x: Array, positions: Array) -> Array:
        return turn_small(x, positions)[..., positions >= 0, :] if positions.ndim == 1 else x

    for target, law in ((cut, "beyond the cache"), (no_negative, "negative positions")):
        verdict = judge_small(target)
        assert law in failures(verdict)
        assert "it returned shape" in str(checks_of(verdict, law)[0].note)


@pytest.mark.parametrize("context", [SMALL_CONTEXT, None])
def test_fewer_coordinates_in_half_precision_are_a_fault(context: int | None) -> None:
    def narrow(x: Array, positions: Array) -> Array:
        y = turn_small(x, positions)
        return y[..., : SMALL_DIM // 2] if x.dtype == np.float16 else y

    verdict = judge_small(narrow, dtypes=["float32", "float16"], context_length=context)
    assert {"dtype and shape", "long positions"} <= set(failures(verdict))
    cases = {each.counterexample for each in checks_of(verdict, "dtype and shape")}
    assert "it returned shape (1, 1, 6, 4) for x of shape (1, 1, 6, 8)" in cases


def test_a_batch_of_the_wrong_shape_is_still_a_refusal() -> None:
    """An implementation for one sequence may answer a batch with anything."""

    def one(x: Array, positions: Array) -> Array:
        return turn_small(x, positions) if positions.ndim == 1 else turn_small(x, positions[0])[:1]

    verdict = judge_small(one)
    assert failures(verdict) == []
    note = checks_of(verdict, "left padding")[0].note
    assert note == "takes no separate positions for each sequence"


def test_infinite_rows_before_are_no_crash() -> None:
    """The first call is judged against what came later."""
    calls = []

    def late(x: Array, positions: Array) -> Array:
        calls.append(len(x))
        y = turn_small(x, positions)
        if len(calls) > 5 and positions.max() > 10:
            y[..., -1, 0] = np.inf
        return y

    assert not judge_small(late).passed

    def early(x: Array, positions: Array) -> Array:
        """Infinite in a sequence, and right alone."""
        y = turn_small(x, positions)
        if x.shape[-2] == 16:
            y[3, 0] = np.inf
        return y

    assert "token by token" in failures(judge_small(early, expect=SMALL))


QUIET, SIGNALLING = 0x7FC00000, 0x7F800001


@pytest.mark.parametrize("bits", [QUIET, SIGNALLING])
def test_what_is_no_number_is_no_rotation(bits: int) -> None:
    nan = np.array(bits, np.uint32).view(np.float32)

    def rotate(x: Array, positions: Array) -> Array:
        return np.full_like(x, nan) if x.dtype == np.float32 else np.full_like(x, np.nan)

    assert_failed(judge_small(rotate), "rotation")


@pytest.mark.parametrize("where", [np.s_[..., 3:, :], np.s_[:, -1:], np.s_[..., 5]])
def test_memory_that_was_never_written_is_no_warning(where: Any) -> None:
    """As of np.empty, which may hold a signalling NaN."""

    def rotate(x: Array, positions: Array) -> Array:
        y = turn_small(x, positions)
        if y.ndim > 2:
            y.view(np.uint32)[where] = SIGNALLING
        return y

    verdict = judge_small(rotate, ignore=(), context_length=16)
    assert "every shape" in failures(verdict)


def test_what_half_precision_can_not_hold_is_no_warning() -> None:
    """float16 data, float32 results beyond 65,504."""

    def loud(x: Array, positions: Array) -> Array:
        return 1e5 * turn_small(x.astype(np.float32), positions)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AssertionError):
            assert_rope(loud, "any", head_dim=SMALL_DIM, context_length=16, dtypes=["float16"])


def test_words_of_an_exception_can_not_paint_the_terminal() -> None:
    def red(x: Array, positions: Array) -> Array:
        raise ValueError("\x1b[31mred\x1b[0m \u202e")

    with pytest.raises(ropecli.RopecliError) as error:
        judge_small(red)
    assert "ValueError: \\x1b[31mred\\x1b[0m \\u202e" in str(error.value)


def test_far_positions_in_float32_are_right() -> None:
    """20,971,519 does not fit float32: the first pair, too, is off by a rounding of it."""

    def single(x: Array, positions: Array) -> Array:
        exponents = np.arange(0, SMALL_DIM, 2, dtype=np.float32) / SMALL_DIM
        theta = (10_000.0**-exponents).astype(np.float32)
        angle = positions.astype(np.float32)[..., None] * theta
        return interleaved(x, np.cos(angle), np.sin(angle))

    verdict = judge_small(single, context_length=10_485_760, expect=SMALL)
    assert failures(verdict) == []


def test_what_float32_keeps_of_far_positions_may_not_be_lost() -> None:
    """One position more beyond 2^22, and eight beyond 2^24, where float32 counts in twos."""

    def shift_beyond(by: int, beyond: int) -> Any:
        return lambda x, p: turn_small(x, np.where(np.asarray(p) >= beyond, np.asarray(p) + by, p))

    for by, beyond, context in ((1, 2**22, 2**23), (8, 2**24, 10_485_760)):
        assert not judge_small(
            shift_beyond(by, beyond), context_length=context, expect=SMALL
        ).passed
