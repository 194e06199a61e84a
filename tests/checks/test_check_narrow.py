"""Faults of one value of a factor alone: far sizes, one dtype, one row, the first call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from judging import (
    DIM,
    Array,
    assert_failed,
    checks_of,
    failures,
    judge,
    judge_once,
    turn,
)

pytestmark = pytest.mark.slow

HERE: dict[str, Any] = {"context_length": 512, "form": "apply"}


# Sizes.


def many_heads(x: Array, positions: Any) -> Array:
    """Heads from the 40th on are not rotated."""
    y = turn(x, positions)
    if y.ndim > 3:
        y[:, 39:] = x[:, 39:]
    return y


def many_sequences(x: Array, positions: Any) -> Array:
    """Sequences from the 20th on are not rotated."""
    y = turn(x, positions)
    if y.ndim > 3:
        y[19:] = x[19:]
    return y


@pytest.mark.parametrize(
    ("target", "says"),
    [
        (many_heads, "heads from the 40th on come out wrong"),
        (many_sequences, "sequences of a batch from the 20th on come out wrong"),
    ],
)
def test_more_heads_and_sequences_than_models_have_are_tried(target: Any, says: str) -> None:
    verdict = judge_once(target, select=["every shape"], fast=True, **HERE)
    assert str(verdict.diagnosis).startswith(says)


def test_the_verdict_says_where_sizes_end() -> None:
    (law,) = judge_once(turn, select="every shape", fast=True, **HERE).checks
    assert law.note == "up to 129 heads, 65 sequences, 512 tokens"


# Dtypes.


def in_place_in(dtype: str) -> Any:
    def rotate(x: Array, positions: Any) -> Array:
        y = turn(x, positions)
        if x.dtype == np.dtype(dtype):
            x[...] = y
        return y

    return rotate


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_input_that_is_written_into_in_one_dtype_alone_is_found(dtype: str) -> None:
    verdict = judge(in_place_in(dtype), dtypes=["float32", "float16"], **HERE)
    law = assert_failed(verdict, "input untouched")
    assert (law.dtype, law.note) == (dtype, "x is written into")


def test_read_only_input_that_is_refused_in_one_dtype_alone_is_a_finding() -> None:
    options: dict[str, Any] = {"dtypes": ["float32", "float16"], "select": "every shape", **HERE}
    verdict = judge(in_place_in("float16"), **options)
    words = "it writes into its input in float16: input that is read-only is refused"
    assert words in verdict.findings


@pytest.mark.parametrize("whole", [True, False])
def test_float64_data_that_go_through_float32_are_a_finding(whole: bool) -> None:
    def narrow(x: Array, positions: Any) -> Array:
        y: Array = turn(x.astype(np.float32).astype(np.float64), positions)
        return y.astype(np.float32).astype(x.dtype) if whole else y.astype(x.dtype)

    options: dict[str, Any] = {
        "dtypes": ["float32", "float64"],
        "select": ["rotation", "dtype and shape"],
    }
    words = "float64 data come back as float32 numbers: digits are lost on the way"
    assert judge(narrow, **options, **HERE).findings == (words,)
    assert judge(turn, **options, **HERE).findings == ()


# Rows.


def scaled_by_the_largest(x: Array, positions: Any) -> Array:
    """All rows are divided by the largest number of the call, and multiplied by it."""
    most = np.abs(x).max()
    y: Array = (turn(x / most, positions) * most).astype(x.dtype)
    return y


def quantized(x: Array, positions: Any) -> Array:
    """Rows have as many steps as the largest one has, if that is very large."""
    most = float(np.abs(x[np.isfinite(x)]).max())
    step = most / 2**20 if most > 1000 else 0.0
    return turn(np.round(x / step) * step if step else x, positions).astype(x.dtype)


@pytest.mark.parametrize(
    ("target", "row"),
    [(scaled_by_the_largest, "infinite"), (quantized, "1.04858e+06 times as large")],
)
def test_a_row_that_spoils_the_others_is_a_fault(target: Any, row: str) -> None:
    with np.errstate(all="ignore"):
        verdict = judge_once(target, select=["rotation", "independent rows"], **HERE)
    assert (
        assert_failed(verdict, "independent rows").note
        == f"rows next to one that is {row} come out wrong"
    )


def test_heads_are_independent_too() -> None:
    def of_heads(x: Array, positions: Any) -> Array:
        return turn(x + (0 * x.sum(axis=1, keepdims=True) if x.ndim > 3 else 0), positions)

    with np.errstate(all="ignore"):
        verdict = judge_once(of_heads, select=["rotation", "independent rows"], **HERE)
    assert failures(verdict) == ["independent rows"]


# State.

LATE = """
import numpy as np

THETA = 10_000.0 ** (-np.arange(0, 32, 2) / 32)
TABLE = np.zeros((0, 16))

def rotate(x, positions):
    global TABLE
    needed = int(positions.max(initial=0)) + 1
    if needed > len(TABLE) + {late}:
        TABLE = np.arange(needed)[:, None] * THETA
    angle = TABLE[np.clip(positions, None, len(TABLE) - 1)] if len(TABLE) else 0 * x[..., :16]
    a, b = x[..., :16], x[..., 16:]
    cos, sin = np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)
"""


@pytest.mark.parametrize("late", [0, 1])
def test_a_table_of_the_module_that_grows_late_is_found(late: int, tmp_path: Path) -> None:
    file = tmp_path / "grows.py"
    file.write_text(LATE.format(late=late))
    options: dict[str, Any] = {"dtypes": ["float32"], "isolated": True, "select": ["many steps"]}
    verdict = judge(f"{file}:rotate", **options, **HERE)
    assert failures(verdict) == ["many steps"] * late


def test_a_second_array_that_nobody_gave_is_named() -> None:
    def both(x: Array, positions: Any) -> tuple[Array, Array]:
        return turn(x, positions), x

    verdict = judge_once(both, select="rotation", **HERE)
    assert verdict.findings == (
        "it returns another array, which nobody gave and nothing is compared with",
    )


def twice(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
    """Queries come back as keys, where there are as many."""
    y = turn(q, positions)
    return y, y if q.shape == k.shape else turn(k, positions)


def packed_twice(qkv: Array, positions: Any) -> Array:  # (b, s, 3, h, d)
    """The same, of queries, keys and values in one array."""
    q = turn(qkv[:, :, 0].swapaxes(1, 2), positions).swapaxes(1, 2)
    return np.stack([q, q, qkv[:, :, 2]], axis=2)


def left_over(q: Array, k: Array, positions: Any) -> tuple[Array, Array]:
    """Heads of queries come back as 0 that are left over where those of keys do not divide them."""
    y = turn(q, positions)
    if q.ndim > 3:
        y[:, q.shape[1] - q.shape[1] % k.shape[1] :] = 0
    return y, turn(k, positions)


def test_heads_of_keys_that_do_not_divide_those_of_queries_are_tried() -> None:
    assert failures(judge(left_over, fast=True, context_length=512)) == ["keys"]


@pytest.mark.parametrize("target", [twice, packed_twice])
def test_queries_in_place_of_keys_are_found(target: Any) -> None:
    assert "keys" in failures(judge(target, fast=True, context_length=512))


# Causes.


def test_positions_of_the_first_call_of_a_shape_are_named() -> None:
    kept: dict[Any, Any] = {}

    def first(x: Array, positions: Any) -> Array:
        return turn(x, kept.setdefault((x.shape, str(x.dtype)), np.array(positions)))

    verdict = judge_once(first, **HERE)
    assert "the positions of the first call of that shape are kept" in str(verdict.diagnosis)


def test_positions_that_are_ignored_in_one_length_are_not_those_of_a_call() -> None:
    def short(x: Array, positions: Any) -> Array:
        return turn(x, np.arange(16) if x.shape[-2] == 16 else positions)

    verdict = judge_once(short, select="offset positions", **HERE)
    assert verdict.passed is False
    assert "are kept" not in str(verdict.diagnosis)


def test_a_counter_of_calls_is_named() -> None:
    calls = [0]

    def seventh(x: Array, positions: Any) -> Array:
        calls[0] += 1
        return x.copy() if calls[0] > 200 and calls[0] % 7 == 0 else turn(x, positions)

    verdict = judge_once(seventh, select=["every shape"], **HERE)
    words = "a call that is wrong is right when it is made again: something is kept between calls"
    assert verdict.diagnosis == words


def test_a_call_of_one_token_is_not_one_of_one_head() -> None:
    def alone(x: Array, positions: Any) -> Array:
        return turn(x, positions * (x.shape[-2] > 1))

    verdict = judge_once(alone, select=["every shape", "every position", "many steps"], **HERE)
    assert "sequences of 1 token" in str(verdict.diagnosis)


# Several axes.


@pytest.mark.parametrize("wrong", [False, True])
def test_indices_of_a_table_may_be_negative_on_several_axes(wrong: bool) -> None:
    """As on one axis: rows of the table's end are what an index means."""
    table = np.arange(512)

    def rotate(x: Array, positions: Any) -> Array:
        index = np.asarray(positions)
        place = np.where(index < 0, 3 - index, index) if wrong else table[index]
        theta = np.repeat(np.eye(3), [6, 5, 5], axis=1) * 10_000.0 ** (-np.arange(16) / 16)
        angle = place @ theta
        a, b = x[..., : DIM // 2], x[..., DIM // 2 :]
        angle = angle[:, None] if angle.ndim == 3 and x.ndim == 4 else angle
        cos, sin = np.cos(angle), np.sin(angle)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)

    verdict = judge_once(rotate, axes=3, select=["rotation", "negative positions"], **HERE)
    assert failures(verdict) == ["negative positions"] * wrong
    (law,) = checks_of(verdict, "negative positions")
    assert wrong or str(law.note).endswith("as indices do")
