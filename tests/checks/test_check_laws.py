"""Each law of `check`, broken once: it must fail, and say what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from halves import DIM, HALF, THETA, Array, assert_failed, failed, judged, judged_once, turn, turned

import ropecli
from ropecli.checks.implementation.check import check

pytestmark = pytest.mark.slow


def test_a_right_one_fails_nothing() -> None:
    assert failed(judged(turn)) == []


def test_nothing_turned_is_no_rotation() -> None:
    verdict = judged(lambda x, positions: x.copy())
    assert_failed(verdict, "rotation")
    assert verdict.diagnosis is not None
    assert "nothing is rotated" in verdict.diagnosis


def test_a_mixed_layout_breaks_norm_and_relative_position() -> None:
    def mixed(x: Array, positions: Array) -> Array:
        angle = np.repeat(np.asarray(positions, float)[..., None] * THETA, 2, axis=-1)
        if angle.ndim == 3 and x.ndim == 4:
            angle = angle[:, None]
        a, b = np.split(x.astype(float), 2, axis=-1)
        rotated = np.concatenate([-b, a], axis=-1)
        turned: Array = x * np.cos(angle) + rotated * np.sin(angle)
        return turned.astype(x.dtype)

    verdict = judged(mixed)
    for law in ("rotation", "norm", "relative position"):
        assert_failed(verdict, law)


def test_another_layout_is_named_with_its_cure_and_smallest_case() -> None:
    verdict = judged(turn, expect=ropecli.Rotary(head_dim=DIM))
    case = assert_failed(verdict, "convention")
    assert case.counterexample == (
        "position 1, x = e_0: got (0.5403 at 0, 0 at 1, 0.8415 at 16), "
        "expected (0.5403 at 0, 0.8415 at 1, 0 at 16)"
    )
    assert verdict.diagnosis == (
        "it rotates half-split, expected interleaved: permute the q/k weights or pair (2i, 2i+1)"
    )
    assert failed(verdict) == ["convention"]


@pytest.mark.parametrize(
    ("expect", "words"),
    [
        (
            ropecli.Rotary(head_dim=DIM, layout="half", base=500_000.0),
            "base 10000, expected 500000",
        ),
        (ropecli.Rotary(head_dim=DIM, layout="half", direction="reversed"), "turns forward"),
        (ropecli.Rotary(head_dim=DIM, layout="half", rotary_dim=16), "rotates 32 coordinates"),
        (
            ropecli.Rotary(head_dim=DIM, layout="half", attention_factor=1.25),
            "attention factor 1, expected 1.25",
        ),
        (
            ropecli.rope("linear", head_dim=DIM, layout="half", factor=4.0),
            "linear is left out, base 10000 alone",
        ),
    ],
    ids=["base", "direction", "rotary dim", "attention factor", "scaling"],
)
def test_what_differs_is_named(expect: ropecli.Rotary, words: str) -> None:
    verdict = judged(turn, expect=expect)
    assert_failed(verdict, "convention")
    assert verdict.diagnosis is not None
    assert words in verdict.diagnosis


def positions_as(change: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    return lambda x, positions: turn(x, change(np.asarray(positions)))


def rounded(dtype: Any) -> Callable[[Array], Array]:
    return lambda positions: positions.astype(dtype).astype(np.float64)


@pytest.mark.parametrize(
    ("target", "law", "words"),
    [
        (lambda x, p: turn(x, np.arange(x.shape[-2])), "offset positions", "ignored"),
        (positions_as(lambda p: p + 1), "composition", "offset by 1"),
        (positions_as(np.abs), "negative positions", "sign"),
        (positions_as(lambda p: np.maximum(p, 0)), "negative positions", "as 0"),
        (positions_as(lambda p: np.minimum(p, 2999)), "long positions", "2999"),
        (positions_as(lambda p: p % 4096), "beyond the cache", "4096"),
        (positions_as(rounded(ml_dtypes.bfloat16)), "precision", "bfloat16 positions"),
        (positions_as(lambda p: np.sort(p, axis=-1)), "positions backwards", "sorted"),
        (positions_as(lambda p: np.unique(p, return_inverse=True)[1].reshape(p.shape)),
         "gaps in positions", ""),
        (positions_as(lambda p: p if p.ndim == 1 else np.broadcast_to(p[0], p.shape)),
         "batched positions", "batch"),
        (lambda x, p: turn(x, p, THETA.astype(np.float16).astype(float)), "precision", "float16"),
        (lambda x, p: turn(x, p, factor=1 + np.asarray(p)[..., None] / 1e3) if p.ndim == 1
         else turn(x, p), "norm", "length"),
        (lambda x, p: turn(x.astype(np.float32), p), "dtype and shape", "dtype"),
        (lambda x, p: turn(x, p)[None], "rotation", "shape"),
    ],
    ids=[
        "ignored", "from one", "abs", "clamped at 0", "clamped", "modulo", "bfloat16 positions",
        "sorted", "ranks", "first row", "float16 frequencies", "growing", "float32", "an axis more",
    ],
)  # fmt: skip
def test_a_broken_law_is_found(target: Any, law: str, words: str) -> None:
    verdict = judged(target)
    assert_failed(verdict, law)
    assert verdict.diagnosis is not None
    assert words in verdict.diagnosis


def test_writing_into_the_input_is_found() -> None:
    def in_place(x: Array, positions: Array) -> Array:
        x[...] = turn(x, positions)
        return x

    assert assert_failed(judged(in_place), "input untouched").note == "x is written into"

    def shifts(x: Array, positions: Array) -> Array:
        y = turn(x, positions)
        positions += 1
        return y

    assert assert_failed(judged(shifts), "input untouched").note == "positions is written into"


def test_left_padding_needs_the_positions_of_each_row() -> None:
    def columns(x: Array, positions: Array) -> Array:
        return turn(x, positions if positions.ndim == 1 else np.arange(x.shape[-2]))

    assert_failed(judged(columns), "left padding")


def test_a_token_alone_must_be_turned_by_its_position() -> None:
    """Seen only where one row is a call, and no batch has one row."""

    def alone(x: Array, positions: Array) -> Array:
        return turn(x, np.asarray(positions) * (x.shape[-2] > 1))

    assert_failed(judged(alone), "token by token")


def test_packed_sequences_start_again() -> None:
    def runs_on(x: Array, positions: Array) -> Array:
        m = np.asarray(positions, float)
        back = np.diff(m, axis=-1, prepend=m[..., :1]) < 0
        return turn(x, m + 5 * np.cumsum(back, axis=-1))

    assert_failed(judged(runs_on), "packed sequences")


def test_an_error_in_far_tables_alone_is_found() -> None:
    def far(x: Array, positions: Array) -> Array:
        m = np.asarray(positions, float)
        return turn(x, np.where(m > 3000, m + 0.02, m))

    case = assert_failed(judged(far), "long positions")
    assert case.note == "rows are right up to position 3000 and wrong from 3001 on"


def test_a_rounded_period_is_less_than_float32_keeps() -> None:
    """Angles reduced by 2 pi in float32: 0.004 rad at 131,071, where m * 1 is exact."""

    def reduced(x: Array, positions: Array) -> Array:
        whole = (np.asarray(positions, float)[..., None] * THETA).astype(np.float32)
        period = np.float32(2 * np.pi)
        angle = whole - np.round(whole / period) * period
        return turned(x, angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle)

    verdict = judged(reduced, context_length=131_072)
    assert_failed(verdict, "long positions")
    case = assert_failed(verdict, "precision")
    assert case.note is not None
    assert case.note.startswith("angles lose digits that float32 keeps")
    assert verdict.diagnosis == f"less than float32 keeps: {case.note}"


def test_a_factor_that_begins_late_is_no_loss_of_digits() -> None:
    def late(x: Array, positions: Array) -> Array:
        return turn(
            x, positions, factor=np.where(np.asarray(positions)[..., None] >= 3000, 1.25, 1.0)
        )

    verdict = judged(late)
    case = assert_failed(verdict, "long positions")
    assert case.note == (
        "rows are right up to position 2999 and wrong from 3000 on; "
        "their attention factor is 1.25 times that of the others"
    )
    assert "precision" not in failed(verdict)


def test_eight_roundings_are_allowed_and_no_more() -> None:
    """4e-6 is 8 times what the attention factor may be off by, and 64 roundings of float32."""
    verdict = judged_once(lambda x, p: turn(x, p, factor=1 + 4e-6), expect=HALF)
    assert_failed(verdict, "attention factor")
    assert_failed(verdict, "convention")


def test_a_frequency_that_float32_would_not_round_so_far_is_another() -> None:
    """Off by 1.5e-6, where 6.6 roundings, 4e-7, are allowed to a frequency of 0.56."""
    other = THETA.copy()
    other[1] *= 1 + 1.5e-6
    verdict = judged_once(lambda x, p: turn(x, p, other), expect=HALF)
    assert_failed(verdict, "convention")


def test_axes_are_told_apart() -> None:
    axis = np.repeat([0, 1], [8, 8])
    expect = ropecli.Rotary(head_dim=DIM, layout="half", axis=axis)

    def swapped(x: Array, positions: Array) -> Array:
        angle = np.asarray(positions, float)[..., 1 - axis] * THETA
        return turned(x, angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle)

    verdict = judged(swapped, expect=expect)
    assert_failed(verdict, "convention")
    assert_failed(verdict, "axes")
    assert verdict.diagnosis == "pair 0 follows axis 1 of the position, expected 0"


def test_an_exception_is_a_failure_in_one_line() -> None:
    def raises(x: Array, positions: Array) -> Array:
        msg = "two\nlines"
        raise KeyError(msg)

    verdict = judged(raises)
    assert verdict.diagnosis == "it can't be called: KeyError: 'two\\nlines'"

    def leaves(x: Array, positions: Array) -> Array:
        raise SystemExit(3)

    assert judged(leaves).diagnosis == "it can't be called: SystemExit: 3"


def test_what_is_no_array_is_a_failure() -> None:
    verdict = judged(lambda x, positions: "rotated")
    assert verdict.diagnosis is not None
    assert "must be an array" in verdict.diagnosis


def test_prints_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(x: Array, positions: Array) -> Array:
        print("turning")  # noqa: T201
        return turn(x, positions)

    assert judged(chatty).passed
    got = capsys.readouterr()
    assert got.out == ""
    assert "turning" in got.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "call"}, "form must be one of apply, tables, module, decoder, score, got 'call'"),
        ({"framework": "mlx"}, "framework must be one of numpy, torch, jax, got 'mlx'"),
        ({"tables": "wide"}, "tables must be one of half, interleaved, single, got 'wide'"),
        ({"head_dim": 7}, "head dim must be an even number of at least 2, got 7"),
        ({"dtypes": ["int8"]}, "dtypes must be of float64, float32, float16, bfloat16, got 'int8'"),
        ({"dtypes": []}, "dtypes must name at least one, got none"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"device": "cuda:0"}, "device must be cpu with numpy, got 'cuda:0'"),
        ({"context_length": 0}, "context length must be from 1 to 2^53, got 0"),
        ({"expect": HALF, "axes": 2}, "axes must be the 1 of what is expected, got 2"),
        (
            {"expect": HALF, "head_dim": 64},
            "head dim must be the 32 of what is expected, got 64",
        ),
    ],
)
def test_options_that_are_not_allowed(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ropecli.RopecliError) as error:
        judged(turn, **options)
    assert str(error.value) == message


def test_xpos_is_refused() -> None:
    with pytest.raises(ropecli.ArgumentError, match="xPos is not a rotation"):
        check(turn, expect=ropecli.rope("xpos", head_dim=DIM))
