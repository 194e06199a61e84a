"""Verdicts that are loosened, and findings about right implementations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import slow, slow_rows
from implementations.plain import interleaved, inv_freq
from implementations.plain import turn as turn_by
from judging import (
    SMALL,
    SMALL_CONTEXT,
    Array,
    check_here,
    checks_of,
    failures,
    judge_small,
    turn_small,
)

from ropecli import Rotary


def by_base(base: float) -> Any:
    return lambda x, p: turn_by(x, p, inv_freq(x.shape[-1], base), interleaved)


def all_but(width: int) -> Any:
    """The last coordinates are left alone."""

    def rotate(x: Array, positions: Array) -> Array:
        dim = x.shape[-1] - width
        turned = turn_by(x[..., :dim], positions, inv_freq(dim, 1e4), interleaved)
        return np.concatenate([turned, x[..., dim:]], axis=-1)

    return rotate


def uneven(size: float) -> Any:
    """Right rows, but for an error up to `size` of a pair's length, the same in every call."""

    def rotate(x: Array, positions: Array) -> Array:
        y = turn_small(x.astype(np.float64), positions)
        pairs = np.repeat(np.hypot(y[..., ::2], y[..., 1::2]), 2, axis=-1)
        return (y + size * pairs * np.sin(1e3 * y)).astype(x.dtype)

    return rotate


@pytest.mark.slow
@pytest.mark.parametrize("expect", [None, *slow(SMALL)])
@pytest.mark.parametrize(
    ("tolerance", "passed"),
    [
        (1e-3, True),
        ({"float32": 2e-6}, False),
        *slow_rows((None, False), ("float32=3000ulp", True)),
    ],
)
def test_a_tolerance_loosens_every_law(tolerance: Any, passed: bool, expect: Any) -> None:
    verdict = judge_small(uneven(1e-4), tolerance=tolerance, expect=expect)
    assert verdict.passed is passed, failures(verdict)
    assert bool(verdict.loosened) is (tolerance is not None)


@pytest.mark.slow
@pytest.mark.parametrize("expect", [None, SMALL])
def test_an_error_beyond_what_identify_allows_may_be_allowed(expect: Any) -> None:
    verdict = judge_small(uneven(3e-3), tolerance=0.02, expect=expect)
    assert failures(verdict) == []
    assert not judge_small(uneven(0.03), tolerance=0.02, expect=expect).passed


def test_a_tolerance_below_the_derived_one_says_that_it_changes_nothing() -> None:
    (said,) = judge_small(turn_small, tolerance="2ulp").loosened
    assert said == "tolerance of float32 at least 2 ulp, which is no more than the derived one"


@pytest.mark.slow
def test_results_of_another_dtype_are_judged_in_that_dtype() -> None:
    def wide(x: Array, positions: Array) -> Array:
        return turn_small(x.astype(np.float32), positions)

    def rounded(x: Array, positions: Array) -> Array:
        return turn_small(x, positions).astype(np.float32)

    options: dict[str, Any] = {"dtypes": "float16", "expect": SMALL}
    assert failures(judge_small(wide, **options)) == ["dtype and shape"]
    verdict = judge_small(wide, **options, result_dtype="float32")
    assert failures(verdict) == []
    assert verdict.loosened == ("results are float32",)
    assert "convention" in failures(judge_small(rounded, **options, result_dtype="float32"))
    kept = judge_small(turn_small, **options, result_dtype="float32")
    assert "dtype and shape" in failures(kept)


@pytest.mark.slow
def test_a_dtype_that_is_not_kept_is_a_finding_unless_it_was_asked_for() -> None:
    def single(x: Array, positions: Array) -> Array:
        return turn_small(x, positions).astype(np.float32)

    verdict = judge_small(single, dtypes=None)
    assert failures(verdict) == []
    assert verdict.findings == tuple(
        f"{dtype} data come back as float32" for dtype in ("float64", "float16")
    )
    named = judge_small(single, dtypes=["float32", "float64"])
    assert failures(named) == ["dtype and shape"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rotate", "words"),
    [
        (by_base(1e32), "the base is 1e+32, where models have 10 to 1e+12"),
        (all_but(2), "14 of 16 coordinates are rotated: a pair was probably forgotten"),
        (by_base(100 ** (8 / 7)), "base 100 with exponents over d/2 - 1, one pair fewer, gives"),
    ],
    ids=["base", "a pair fewer", "exponents"],
)
def test_what_is_unusual_is_no_failure_unless_something_else_was_expected(
    rotate: Any, words: str
) -> None:
    options: dict[str, Any] = {"dtypes": ["float32"], "context_length": 512, "head_dim": 16}
    verdict = check_here(rotate, **options)
    assert failures(verdict) == []
    assert verdict.diagnosis is None
    (finding,) = verdict.findings
    assert finding.startswith(words)
    expected = check_here(rotate, **options, expect=Rotary(head_dim=16, layout="interleaved"))
    assert "convention" in failures(expected)
    assert expected.findings == ()


def with_offset(*, in_all: bool) -> Any:
    """An offset that reaches all numbers, or the cosines only."""

    def attend(x: Array, offset: int = 0) -> Array:
        own = np.arange(x.shape[-2])
        angles = np.multiply.outer(own, inv_freq(x.shape[-1], 1e4))
        moved = np.multiply.outer(own + offset, inv_freq(x.shape[-1], 1e4))
        cos, sin = np.cos(moved), np.sin(moved if in_all else angles)
        y, a, b = np.empty_like(x), x[..., ::2], x[..., 1::2]
        y[..., ::2], y[..., 1::2] = a * cos - b * sin, a * sin + b * cos
        return y

    return attend


def test_a_position_that_no_call_gives_is_named() -> None:
    options: dict[str, Any] = {"dtypes": ["float32"], "context_length": 512, "head_dim": 16}
    verdict = check_here(with_offset(in_all=False), **options)
    assert failures(verdict) == []
    words = "no call gives `offset`, a position by its name: --call judges calls with it"
    assert verdict.findings == (words,)
    given = check_here(with_offset(in_all=False), **options, call="attend(x, offset=offset)")
    assert failures(given) != []
    right = check_here(with_offset(in_all=True), **options)
    assert (failures(right), right.findings) == ([], ())


@pytest.mark.slow
@pytest.mark.parametrize("width", [0, 4])
def test_a_part_that_is_left_alone_on_purpose_is_not_unusual(width: int) -> None:
    options: dict[str, Any] = {"dtypes": ["float32"], "context_length": 512, "head_dim": 16}
    assert check_here(all_but(width), **options).findings == ()


@pytest.mark.slow
def test_a_table_promises_no_negative_positions() -> None:
    """Rows of a table that clamps or fills, or of a formula that ignores the sign."""
    table = np.arange(SMALL_CONTEXT)

    def looked_up(change: Any) -> Any:
        def rotate(x: Array, positions: Array) -> Array:
            if (np.asarray(positions) >= SMALL_CONTEXT).any():
                raise IndexError("beyond the table")
            return turn_small(x, table[change(np.asarray(positions))])

        return rotate

    for change in (np.abs, lambda p: np.maximum(p, 0)):
        verdict = judge_small(looked_up(change))
        assert failures(verdict) == []
        (law,) = checks_of(verdict, "negative positions")
        assert "looks rows up in a table" in str(law.note)
        formula = judge_small(lambda x, p, change=change: turn_small(x, change(np.asarray(p))))
        assert failures(formula) == ["negative positions"]


@pytest.mark.slow
@pytest.mark.parametrize("only", ["float16", "bfloat16", "float64"])
def test_a_function_of_one_dtype_is_judged_in_that(only: str) -> None:
    def fussy(x: Array, positions: Array) -> Array:
        if x.dtype.name != only:
            raise TypeError(x.dtype)
        return turn_small(x, positions)

    given = ["float32", "float64", "float16", "bfloat16"]
    verdict = judge_small(fussy, form="apply", dtypes=given, expect=SMALL)
    assert failures(verdict) == []
    assert verdict.dtypes[0] == only
    late = judge_small(lambda x, p: fussy(x, p + (p > 4)), form="apply", dtypes=given, expect=SMALL)
    assert not late.passed


@pytest.mark.slow
def test_a_function_of_int32_positions_is_judged_with_those() -> None:
    def fussy(x: Array, positions: Array) -> Array:
        if positions.dtype != np.int32:
            raise TypeError(positions.dtype)
        return turn_small(x, positions)

    verdict = judge_small(fussy, form="apply", expect=SMALL)
    assert failures(verdict) == []
    assert verdict.convention.positions_dtype == "int32"
    late = judge_small(
        lambda x, p: fussy(x, p + (p > 4).astype(p.dtype)), form="apply", expect=SMALL
    )
    assert not late.passed
