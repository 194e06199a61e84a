"""Each law of `check`, broken once: it must fail, and say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from implementations.plain import along, along_all, angles, half, mixed_frequencies, on, rotate_half
from judging import (
    CONTEXT,
    DIM,
    HALF,
    LAWS,
    OF_CALLS,
    THETA,
    Array,
    assert_failed,
    checks_of,
    failures,
    judge,
    judge_once,
    turn,
)

import ropecli

pytestmark = pytest.mark.slow

#: Where a law looks at the first positions, these are enough.
SHORT: dict[str, Any] = {"context_length": 512}


def test_every_law_is_judged_and_a_right_one_passes() -> None:
    verdict = judge_once(turn)
    assert {each.name for each in verdict.checks} == LAWS | OF_CALLS
    assert failures(verdict) == []
    assert verdict.passed


def test_another_layout_is_named_with_its_cure_and_smallest_case() -> None:
    verdict = judge(turn, expect=ropecli.Rotary(head_dim=DIM))
    case = assert_failed(verdict, "convention")
    assert case.counterexample == (
        "position 1, x = e_0: got (0.5403 at 0, 0 at 1, 0.8415 at 16), "
        "expected (0.5403 at 0, 0.8415 at 1, 0 at 16)"
    )
    assert verdict.diagnosis == (
        "layout half, expected interleaved: permute the q/k weights or pair (2i, 2i+1)"
    )
    assert failures(verdict) == ["convention"]


@pytest.mark.parametrize(
    ("convention", "words"),
    [
        ({"base": 500_000.0}, ["base 10000, expected 500000"]),
        ({"direction": "reversed"}, ["direction forward, expected reversed: negate the sines"]),
        ({"rotary_dim": 16},
         ["rotary dim 32, expected 16; pairs (i, i + 16), expected (i, i + 8)"]),
        ({"attention_factor": 1.25},
         ["attention factor 1, expected 1.25: multiply cos and sin by it"]),
        ({"rope_type": "linear", "factor": 4.0}, ["base 10000 without linear scaling"]),
        ({"layout": "interleaved", "base": 500_000.0},
         ["expected interleaved", "; base 10000, expected 500000"]),
        ({"layout": "interleaved", "rotary_dim": 16},
         ["rotary dim 32, expected 16; ", "layout half, expected interleaved: permute"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_differs_is_named(convention: dict[str, Any], words: list[str]) -> None:
    options: dict[str, Any] = {"head_dim": DIM, "layout": "half"} | convention
    make: Any = ropecli.rope if "rope_type" in options else ropecli.Rotary
    verdict = judge_once(turn, expect=make(**options))
    assert_failed(verdict, "convention")
    for each in words:
        assert each in str(verdict.diagnosis)


@pytest.mark.parametrize(
    ("factor", "advice"), [(1.5625, "it is applied twice"), (2.0, "multiply cos and sin by 0.625")]
)
def test_what_to_do_about_an_attention_factor(factor: float, advice: str) -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", attention_factor=1.25)
    verdict = judge_once(stretch(lambda p: factor), expect=expect)
    assert f"attention factor {factor:g}, expected 1.25: {advice}" in str(verdict.diagnosis)


@pytest.mark.parametrize(("base", "right"), [(10_000.0, True), (500_000.0, False)])
def test_what_was_found_is_compared_with_what_is_expected(base: float, right: bool) -> None:
    expect = ropecli.Rotary(head_dim=DIM, layout="half", base=base)
    found = judge_once(turn, expect=expect, **SHORT).identified
    assert found is not None
    assert [each.matches for each in found.matches if each.name == "expected"] == [right]


@pytest.mark.parametrize(
    ("told", "factor", "words"),
    [
        (False, 0, "(16 to 31) are multiplied by 0, not copied"),
        (True, 3, "(16 to 31) are multiplied by 3, not copied"),
    ],
)
def test_coordinates_in_no_pair_must_pass_through(told: bool, factor: int, words: str) -> None:
    part = ropecli.Rotary(head_dim=DIM, layout="half", rotary_dim=16)
    rest = on(slice(16, None), lambda x, _: factor * x)
    verdict = judge_once(
        lambda x, p: rest(turn(x, p, part.inv_freq), p), expect=part if told else None
    )
    assert words in str(verdict.diagnosis)


def at(change: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    """Turned by other positions."""
    return lambda x, positions: turn(x, change(np.asarray(positions)))


def round_to(dtype: Any) -> Callable[[Array], Array]:
    return lambda positions: positions.astype(dtype).astype(np.float64)


def stretch(factor: Callable[[Array], Any]) -> Callable[[Array, Array], Array]:
    """Longer by a factor of the position."""
    return lambda x, p: turn(x, p, factor=factor(np.asarray(p)[..., None]))


def mix_layouts(x: Array, positions: Array) -> Array:
    """Tables repeated for neighbours, but x rotated by halves."""
    angle = np.repeat(np.asarray(positions, float)[..., None] * THETA, 2, axis=-1)
    angle = angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle
    turned: Array = x * np.cos(angle) + rotate_half(x) * np.sin(angle)
    return turned.astype(x.dtype)


def test_what_is_no_rotation_is_not_said_to_look_rows_up() -> None:
    (law,) = checks_of(judge_once(mix_layouts, expect=HALF), "negative positions")
    assert "table" not in str(law.note)


def runs_on(p: Array) -> Array:
    back = np.diff(p, axis=-1, prepend=p[..., :1]) < 0
    moved: Array = p + 5 * np.cumsum(back, axis=-1)
    return moved


@pytest.mark.parametrize(
    ("target", "laws", "words"),
    [
        (lambda x, p: x.copy(), ["rotation"], "nothing is rotated"),
        (mix_layouts, ["rotation"], ""),
        (lambda x, p: turn(x, np.arange(x.shape[-2])), ["offset positions"], "ignored"),
        (at(np.abs), ["negative positions"], "sign"),
        (at(lambda p: np.maximum(p, 0)), ["negative positions"], "as 0"),
        (at(lambda p: np.minimum(p, 2999)), ["long positions"], "2999"),
        (at(lambda p: np.minimum(p, 1023)), ["long positions"],
         "positions from 1024 on are taken as 1023"),
        (at(lambda p: p + np.minimum(0, CONTEXT - 1 - p.max())), ["beyond the cache"],
         "calls that go beyond position 4095 are moved back to end there"),
        (at(lambda p: p % CONTEXT), ["beyond the cache"], "4096"),
        (at(round_to(ml_dtypes.bfloat16)), ["precision"], "bfloat16 positions"),
        (at(round_to(np.float16)), ["precision"],
         "float16 positions under float32 data: compute them in float32 at least"),
        (lambda x, p: turn(x, p, THETA.astype(np.float16).astype(float)), ["precision"],
         "float16"),
        (at(lambda p: np.sort(p, axis=-1)), ["positions backwards"], "sorted"),
        (at(lambda p: np.unique(p, return_inverse=True)[1].reshape(p.shape)),
         ["gaps in positions"], ""),
        (at(lambda p: p if p.ndim == 1 else np.broadcast_to(p[0], p.shape)),
         ["batched positions"], "batch"),
        (lambda x, p: turn(x, p if p.ndim == 1 else np.arange(x.shape[-2])), ["left padding"], ""),
        # Seen only where one row is a call, and no batch has one row.
        (lambda x, p: turn(x, np.asarray(p) * (x.shape[-2] > 1)), ["token by token"], ""),
        (at(runs_on), ["packed sequences"], ""),
        (lambda x, p: turn(x, p, factor=1 + np.asarray(p)[..., None] / 1e3) if p.ndim == 1
         else turn(x, p), ["rotation"], "length"),
    ],
    ids=[
        "nothing", "mixed layout", "ignored", "abs", "clamped at 0", "clamped", "clamped early",
        "moved back", "modulo",
        "bfloat16 positions", "float16 positions", "float16 frequencies", "sorted", "ranks",
        "first row", "columns", "a token alone", "run on", "growing",
    ],
)  # fmt: skip
def test_a_broken_law_is_found(target: Any, laws: list[str], words: str) -> None:
    verdict = judge_once(target, form="apply")
    assert not verdict.passed
    for law in laws:
        assert_failed(verdict, law)
    assert words in str(verdict.diagnosis)


def test_a_result_of_one_dtype_alone_is_found() -> None:
    verdict = judge(lambda x, p: turn(x.astype(np.float32), p), dtypes=["float32", "float16"])
    assert_failed(verdict, "dtype and shape")
    assert "dtype" in str(verdict.diagnosis)


def test_positions_that_begin_elsewhere_are_the_cause() -> None:
    verdict = judge_once(at(lambda p: p + 1))
    assert_failed(verdict, "rotation")
    assert "shifted by 1" in str(verdict.diagnosis)


@pytest.mark.parametrize(("words", "by"), [("half a pair", 1), ("one pair", 2)])
def test_exponents_that_begin_late_or_early_are_named(words: str, by: int) -> None:
    late = 10_000.0 ** (-by / DIM)
    verdict = judge_once(lambda x, p: turn(x, p, THETA * late))
    assert verdict.findings == (f"base 10000 with exponents {words} late gives these frequencies",)
    early = judge_once(lambda x, p: turn(x, p, THETA / late))
    assert str(assert_failed(early, "rotation").note).endswith(f"or exponents begin {words} early")


def test_an_axis_that_rotates_nothing_is_a_finding() -> None:
    def first(x: Array, positions: Array) -> Array:
        return turn(x, positions[..., 0])

    def second(x: Array, positions: Array) -> Array:
        return turn(x, positions[..., 1])

    for axis, target in ((1, first), (0, second)):
        verdict = judge_once(target, axes=2, select="rotation")
        assert f"axis {axis} of the position rotates nothing" in verdict.findings


def frequency(pair: int, times: float) -> Callable[[Array, Array], Array]:
    other = THETA.copy()
    other[pair] *= times
    return lambda x, p: turn(x, p, other)


#: A few times what rounding may do. Sixteen roundings of float32 are 2^-20, or 9.5e-7; 6.6 of
#: them, 4e-7, are allowed to a frequency of 0.56.
SLIGHT: list[tuple[Any, dict[str, Any], str]] = [
    (stretch(lambda p: 1 + 2e-6 * np.maximum(p - 4, 0)), {}, "offset positions"),
    (stretch(lambda p: 1 + 1e-3 * np.maximum(p - 4, 0)), {}, "rotation"),
    (at(lambda p: p + 1e-3 * (p > 4)), {}, "offset positions"),
    (stretch(lambda p: 1 + 1.5e-6), {"expect": HALF}, "convention"),
    (stretch(lambda p: 1 + 4e-6), {"expect": HALF}, "convention"),
    (frequency(1, 1 + 1.5e-6), {"expect": HALF}, "convention"),
]


@pytest.mark.parametrize(("target", "options", "law"), SLIGHT)
def test_a_little_is_too_much(target: Any, options: dict[str, Any], law: str) -> None:
    assert law in failures(judge_once(target, **SHORT, **options))


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
    assert law in failures(judge_once(at(change)))


def test_a_block_of_a_long_table_may_be_wrong_alone() -> None:
    block = at(lambda p: p + ((p >= 16_384) & (p < 20_480)))
    assert failures(judge_once(block, context_length=131_072)) == ["long positions"]


def test_an_error_in_far_tables_alone_is_found() -> None:
    case = assert_failed(judge_once(at(lambda p: p + 0.02 * (p > 3000))), "long positions")
    assert case.note == "rows are right up to position 3000 and wrong from 3001 on"


def test_a_few_right_rows_are_no_beginning() -> None:
    """Eight of them are, and a row at position 0 is right in many a wrong one."""
    notes = {}
    for start in (5, 3000):
        verdict = judge_once(lambda x, p, s=start: turn(x, p + 0.5 * (p >= s)), expect=HALF)
        words = [each.note for each in verdict.checks if each.passed is False and each.note]
        notes[start] = any(note.startswith("rows are right up to") for note in words)
    assert notes == {5: False, 3000: True}


def test_a_rounded_period_is_less_than_float32_keeps() -> None:
    """Angles reduced by 2 pi in float32: 0.004 rad at 131,071, where m * 1 is exact."""

    def reduced(x: Array, positions: Array) -> Array:
        whole = angles(positions, THETA).astype(np.float32)
        period = np.float32(2 * np.pi)
        angle = whole - np.round(whole / period) * period
        return half(x, np.cos(angle), np.sin(angle))

    verdict = judge_once(reduced, context_length=131_072)
    assert_failed(verdict, "long positions")
    note = str(assert_failed(verdict, "precision").note)
    assert note.startswith("angles lose digits that float32 keeps")
    assert verdict.diagnosis == f"less than float32 keeps: {note}"


def test_a_factor_that_begins_late_is_no_loss_of_digits() -> None:
    verdict = judge_once(stretch(lambda p: np.where(p >= 3000, 1.25, 1.0)))
    assert assert_failed(verdict, "long positions").note == (
        "rows are right up to position 2999 and wrong from 3000 on; "
        "rows are 1.25 times as long as they should be"
    )
    assert "precision" not in failures(verdict)


def test_positions_that_half_precision_rounds_and_then_cannot_hold_are_named() -> None:
    def rounded(x: Array, positions: Array) -> Array:
        if x.dtype != np.float16:
            return turn(x, positions)
        with np.errstate(over="ignore", invalid="ignore"):
            return turn(x, positions.astype(np.float16))

    options: dict[str, Any] = {"dtypes": ["float32", "float16"], "context_length": 131_072}
    verdict = judge(rounded, select=["rotation", "long positions"], **options)
    words = "positions are rounded to float16, and some are not finite"
    assert words in str(assert_failed(verdict, "long positions").note)


def test_what_is_not_a_number_far_out_is_wrong() -> None:
    verdict = judge_once(stretch(lambda p: np.where(p > 3000, np.nan, 1)))
    assert str(assert_failed(verdict, "long positions").note).endswith("rows are not finite")
    assert failures(verdict) == ["long positions", "beyond the cache"]


def test_writing_into_the_input_is_found() -> None:
    def in_place(x: Array, positions: Array) -> Array:
        x[...] = turn(x, positions)
        return x

    def shifts(x: Array, positions: Array) -> Array:
        y = turn(x, positions)
        positions += 1
        return y

    def decodes(x: Array, positions: Array) -> Array:
        return shifts(x, positions) if len(positions) == 1 else turn(x, positions)

    for target, where in (
        (in_place, "x is written into"),
        (shifts, "positions is written into"),
        (decodes, "positions is written into in a call of one token"),
    ):
        (law,) = checks_of(judge_once(target), "input untouched")
        assert (law.passed, law.note) == (False, where)


def test_axes_say_which_pair_is_wrong() -> None:
    right = np.repeat([0, 1], 8)
    expect = ropecli.Rotary(head_dim=DIM, layout="half", axis=right)
    assert failures(judge_once(along(right, THETA), expect=expect)) == []

    verdict = judge_once(along(1 - right, THETA), expect=expect)
    assert_failed(verdict, "convention")
    case = assert_failed(verdict, "axes")
    assert case.counterexample == "pair 0 follows axis 1 of the position, expected 0"
    assert verdict.diagnosis == case.counterexample

    def from_its_corner(x: Array, positions: Array) -> Array:
        grid = np.asarray(positions, float)
        if np.ptp(grid, axis=-1).any():
            grid = grid - grid.min(axis=-2, keepdims=True)
        return along(right, THETA)(x, grid)

    # A grid that does not begin at its corner.
    assert failures(judge_once(from_its_corner, expect=expect)) == ["axes"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x, y: (y, x), "the axes of the position are exchanged"),
        (lambda x, y: (x, 0 * y), "axis 1 of the position is left out"),
        (lambda x, y: (x, -y), "axis 1 of the position rotates the other way"),
        (lambda x, y: (-x, -y), "it rotates the other way: negate the sines, or swap the pairs"),
        (lambda x, y: (x, 1.5 * y), "along axis 1, expected"),
    ],
)
def test_frequencies_of_several_axes_say_what_is_wrong(wrong: Any, says: str) -> None:
    table = mixed_frequencies(DIM, 0.7)
    expect = ropecli.Rotary.from_inv_freq(table, layout="half")
    verdict = judge_once(along_all(np.array(wrong(*table))), expect=expect, **SHORT)
    assert_failed(verdict, "convention")
    assert says in str(verdict.diagnosis)


def test_axes_that_are_added_up_are_named() -> None:
    added = at(lambda p: p.sum(axis=-1))
    diagnosis = str(judge_once(added, axes=2, **SHORT).diagnosis)
    assert diagnosis.endswith(": every pair rotates by the sum of the coordinates")


def test_a_batch_may_be_wrong_where_one_sequence_is_not() -> None:
    """Rows of a batch, and its heads, each by another table; twice, and the other way round."""

    def shift_where(wrong: Callable[[Array, Array], Any]) -> Callable[[Array, Array], Array]:
        return lambda x, p: turn(x, p + 1 if wrong(x, p) else p)

    batches = shift_where(lambda x, p: p.ndim == 1 and len(x) > 2)
    heads = shift_where(lambda x, p: p.ndim == 1 and x.shape[1] > 2)
    for target in (batches, heads):
        laws = ["rotation", "every shape"]
        assert failures(judge_once(target, select=laws, fast=True, **SHORT)) == ["every shape"]

    def of_the_first_row(x: Array, positions: Array) -> Array:
        wrong = positions.ndim == 2
        return turn(x, np.broadcast_to(positions[:1], positions.shape) if wrong else positions)

    names = failures(judge_once(of_the_first_row, **SHORT))
    assert {"batched positions", "left padding"} <= set(names)


# What a target raises or returns instead.


def raising(
    error: BaseException, where: Callable[[Array], Any] = np.size
) -> Callable[[Array, Array], Array]:
    def rotate(x: Array, positions: Array) -> Array:
        if where(np.asarray(positions)):
            raise error
        return turn(x, positions)

    return rotate


def test_an_exception_is_told_in_one_line() -> None:
    for error, words in (
        (KeyError("two\nlines"), r"KeyError: 'two\nlines'"),
        (SystemExit(3), "SystemExit: 3"),
    ):
        with pytest.raises(ropecli.RopecliError, match=re.escape(words)):
            judge_once(raising(error), form="apply")


def test_what_is_promised_must_not_be_refused() -> None:
    short = raising(IndexError("too far"), lambda p: p.max() >= CONTEXT - 1)
    case = assert_failed(judge_once(short), "long positions")
    assert case.note == "a call that must be answered failed: IndexError: too far"
    assert judge_once(short, context_length=None).passed


def test_a_law_that_the_target_raises_in_fails() -> None:
    distinct = raising(
        ValueError("a position twice"), lambda p: p.ndim == 1 and len(np.unique(p)) < len(p)
    )
    case = assert_failed(judge_once(distinct), "repeated positions")
    assert case.note == "a call that must be answered failed: ValueError: a position twice"


def test_what_has_an_axis_more_is_refused() -> None:
    with pytest.raises(ropecli.RopecliError, match=r"returned shape \(1, 4, 3, 5, 32\) for x"):
        judge_once(lambda x, positions: turn(x, positions)[None], form="apply")


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(ropecli.RopecliError, match="must be an array"):
        judge_once(lambda x, positions: "rotated", form="apply")


def test_prints_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    def chatty(x: Array, positions: Array) -> Array:
        print("turning")  # noqa: T201
        return turn(x, positions)

    assert judge_once(chatty).passed
    got = capsys.readouterr()
    assert got.out == ""
    assert "turning" in got.err
