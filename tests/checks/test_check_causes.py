"""Causes of wrong rows: the sentence names the cause, not only the place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from implementations.plain import half
from judging import HALF, SMALL, THETA, Array, check_here, judge_once, judge_small, turn
from named_causes import FAULTS, NAMED, OPTIONS, PLACES, Named, assert_cause_named, function

from ropecli import Rotary, rope, rotate
from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow

PARTIAL = Rotary(head_dim=8, rotary_dim=6, base=5e5)
#: `tests/soak/test_check_causes_soak.py` tries all.
SAMPLED = {
    "copied, later heads",
    "backwards, keys",
    "float16 vectors, odd rows",
    "by index, an offset",
    "at half the position, long sequences",
    "base 500000, later heads",
}


@pytest.mark.parametrize(
    "case", [case for case in NAMED if case.name in SAMPLED], ids=lambda case: case.name
)
def test_the_cause_is_named(case: Named) -> None:
    assert_cause_named(case)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_vectors_of_another_row_are_recognised_in_half_precision(dtype: str) -> None:
    wrong = function(FAULTS["neighbour's vector"], PLACES["long sequences"])
    verdict = check_here(wrong, select="every shape", dtypes=dtype, **OPTIONS)
    assert "the vectors of the row before" in str(verdict.diagnosis)


def by_the_first(x: Array, positions: Array) -> Array:
    return turn(x, np.broadcast_to(positions[:1], x.shape[-2]))


def test_rows_at_the_position_of_the_first_are_named() -> None:
    verdict = judge_once(by_the_first, select="rotation")
    assert verdict.passed is False
    assert "every row is rotated by the position of the first" in (verdict.diagnosis or "")


def by_index(x: Array, positions: Array) -> Array:
    return turn(x, np.broadcast_to(np.arange(x.shape[-2]), np.shape(positions)))


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("offset positions", "either the positions are ignored: rows are rotated by their index, "
         "or positions are counted from the first row's"),
        ("gaps in positions", "either only the first position counts: rows are rotated from there "
         "by index, or the positions are ignored: rows are rotated by their index"),
    ],
)  # fmt: skip
def test_mistakes_that_the_rows_do_not_tell_apart_are_both_named(law: str, words: str) -> None:
    """Consecutive positions less the first one are indices, and gaps may begin at 0."""
    assert str(judge_once(by_index, select=law).diagnosis).endswith(f": {words}")


@pytest.mark.parametrize(
    ("expect", "exponents", "words"),
    [
        (SMALL, np.arange(4) / 3, "exponents over one pair fewer, d/2 - 1"),
        (PARTIAL, np.arange(3) / 4, "exponents over 8 coordinates, expected 6"),
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


def test_the_first_of_several_lists_is_named_as_that_of_one() -> None:
    def first_of_all(x: Array, positions: Array) -> Array:
        return turn(x, np.broadcast_to(positions[:1], (*positions[:1].shape[:-1], x.shape[-2])))

    verdict = judge_once(first_of_all, expect=HALF, select="every shape")
    assert "rotated by the positions of the first sequence" in (verdict.diagnosis or "")


@pytest.mark.parametrize(("dtype", "law"), [("bfloat16", "precision"), ("float16", "every shape")])
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


LLAMA3: dict[str, Any] = {
    "head_dim": 32,
    "rope_theta": 500_000.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "layout": "half",
}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            Rotary(32, base=500_000.0),
            "they have other frequencies: base 500000 without Llama 3 scaling",
        ),
        (rope("llama3", factor=64.0, **LLAMA3), "other frequencies: the factor 8 applied twice"),
    ],
)
def test_frequencies_of_a_scaled_type_are_compared_with_its_table(
    wrong: Rotary, words: str
) -> None:
    expect = rope("llama3", factor=8.0, **LLAMA3)

    def later_heads(x: Array, positions: Array) -> Array:
        y = turn(x, positions, expect.inv_freq)
        if x.ndim == 4:
            y[:, 2:] = turn(x[:, 2:], positions, wrong.inv_freq)
        return y

    verdict = judge_once(later_heads, expect=expect, select="every shape")
    assert words in str(verdict.diagnosis)


@pytest.mark.parametrize(
    ("what", "dtype", "rounded"),
    [
        ("angles", "bfloat16", lambda m, theta, to: to(m[:, None] * theta)),
        ("positions", "float16", lambda m, theta, to: to(m)[:, None] * theta),
        ("frequencies", "bfloat16", lambda m, theta, to: m[:, None] * to(theta)),
    ],
)
def test_what_is_rounded_is_named_in_half_precision_data_too(
    what: str, dtype: str, rounded: Any
) -> None:
    def rotate(x: Array, positions: Array) -> Array:
        def to(values: Array) -> Array:
            return values.astype(x.dtype).astype(np.float64)

        angle = rounded(positions, THETA, to)
        a, b = np.split(x.astype(np.float64), 2, axis=-1)
        turned = a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)
        return np.concatenate(turned, axis=-1).astype(x.dtype)

    select = ["long positions", "every position"]
    verdict = check_here(
        rotate, expect=HALF, dtypes=[dtype], context_length=4096, select=select, fast=True
    )
    assert f"{what} are rounded to {dtype}" in str(verdict.diagnosis)
