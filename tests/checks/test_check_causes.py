"""Causes of wrong rows: the sentence names the cause, not only the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import slow_rows
from implementations.plain import half
from judging import HALF, SMALL, THETA, Array, check_here, judge_once, judge_small, turn
from named_causes import NAMED, Named, assert_cause_named

from ropecli import Rotary, rotate
from ropecli.arrays import DTYPES

PARTIAL = Rotary(head_dim=8, rotary_dim=6, base=5e5)
#: The slow tier tries these; `tests/soak/test_check_causes_soak.py` all.
SAMPLED = {
    "copied, later heads",
    "backwards, keys",
    "float16 vectors, odd rows",
    "by index, an offset",
    "base 500000, later heads",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [case for case in NAMED if case.name in SAMPLED], ids=lambda case: case.name
)
def test_the_cause_is_named(case: Named) -> None:
    assert_cause_named(case)


def by_the_first(x: Array, positions: Array) -> Array:
    return turn(x, np.broadcast_to(positions[:1], x.shape[-2]))


def test_rows_at_the_position_of_the_first_are_named() -> None:
    verdict = judge_once(by_the_first, select="rotation")
    assert verdict.passed is False
    assert "every row is rotated by the position of the first" in (verdict.diagnosis or "")


@pytest.mark.parametrize(
    ("expect", "exponents", "words"),
    [
        (SMALL, np.arange(4) / 3, "exponents over one pair fewer, d/2 - 1"),
        (PARTIAL, np.arange(3) / 4, "exponents over the head dim 8"),
    ],
)
def test_the_mistake_in_the_exponents_is_named(
    expect: Rotary, exponents: Array, words: str
) -> None:
    wrong = expect.with_inv_freq((expect.base or 0.0) ** -exponents)

    def turn(x: Array, positions: Array) -> Array:
        return rotate(x, wrong, positions)

    verdict = judge_small(turn, expect=expect, select="convention")
    assert words in (verdict.diagnosis or "")


@pytest.mark.slow
def test_the_first_of_several_lists_is_named_as_that_of_one() -> None:
    def first_of_all(x: Array, positions: Array) -> Array:
        return turn(x, np.broadcast_to(positions[:1], (*positions[:1].shape[:-1], x.shape[-2])))

    verdict = judge_once(first_of_all, expect=HALF, select="every shape")
    assert "only the first of the positions is used" in (verdict.diagnosis or "")


@pytest.mark.parametrize(
    ("dtype", "law"), [("bfloat16", "precision"), *slow_rows(("float16", "every shape"))]
)
def test_the_parameter_is_named_that_makes_tables_in_half_precision(dtype: str, law: str) -> None:
    class Tables:
        def __init__(self, cache_dtype: Any = DTYPES[dtype]) -> None:
            self.dtype = cache_dtype

        def forward(self, x: Array, positions: Array) -> Array:
            angles = np.asarray(positions)[..., None] * THETA
            cos, sin = (f(angles).astype(self.dtype).astype(x.dtype) for f in (np.cos, np.sin))
            return half(x, cos, sin)

    verdict = judge_once(Tables, select=law)
    assert verdict.passed is False
    said = f"tables are {dtype} by default: set the parameter cache_dtype to float32 at least"
    assert verdict.diagnosis == said


@pytest.mark.slow
def test_uneven_axes_are_described() -> None:
    """16, 24 and 24 coordinates of a head follow one coordinate of the position each."""

    def uneven(x: Array, positions: Array) -> Array:
        parts = np.split(x, [16, 40], axis=-1)
        tables = [10_000.0 ** (-np.arange(n) / n) for n in (8, 12, 12)]
        angles = [positions[..., [i]] * theta for i, theta in enumerate(tables)]
        every = [half(p, np.cos(a), np.sin(a)) for p, a in zip(parts, angles, strict=True)]
        return np.concatenate(every, axis=-1)

    verdict = check_here(uneven, axes=3, dtypes=["float32"], select="rotation")
    words = "axes of 16/24/24 coordinates, each with the frequencies of base 10000"
    assert (verdict.passed, verdict.findings) == (True, (words,))
