"""The zoo of implementations: right ones are right, wrong ones wrong, and `check` finds that.

A few are put to `check` always, all but some functions in the slow tier, and each one in the soak
tier.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pytest
from helpers import assert_within, for_each, mark_slow
from implementations.intended import DIM, LONGEST, ORIGINAL
from implementations.registry import RIGHT, WRONG, Case, Right, Wrong
from judging import LAWS, assert_caught, assert_passed
from numpy.typing import NDArray

from ropecli import Rotary, rotate
from ropecli.arrays import DTYPES

Array = NDArray[Any]

#: Unit roundoff: half a unit in the last place of 1.
UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
NEAR = np.arange(16.0)
#: Sequences of calls, each on a target that has not been called before.
TRIALS: dict[str, list[Array]] = {
    "once": [NEAR],
    "elsewhere": [NEAR, NEAR + 1000, NEAR],
    "far": [np.array([0, 40, 257, 2049, 4097, 15962, 32768, 40001, 65537, 131071.0])],
    "gaps": [np.array([0, 1, 2, 5, 9, 23.0]), np.array([0, 3, 4, 7, 11, 23.0])],
    "backwards and repeated": [NEAR[::-1], np.full(6, 5.0)],
    "packed": [np.concatenate([NEAR[:8], NEAR[:8]])],
    "negative": [NEAR - 8],
    "fractional": [NEAR / 4 + 0.25],
    "batched": [np.stack([NEAR, NEAR + 7])],
    "padded on the left": [np.stack([np.maximum(NEAR - 6, 0), NEAR])],
    "one row long": [np.stack([NEAR, NEAR + 3 * ORIGINAL])],
    "long, short, long": [NEAR + 3 * ORIGINAL, NEAR, NEAR + 3 * ORIGINAL],
    "token by token": [np.array([float(m)]) for m in range(4)],
    "around the original length": [np.arange(n - 3.0, n) for n in (ORIGINAL, ORIGINAL + 1)],
    "beyond the cache": [np.array([LONGEST - 1.0, LONGEST, LONGEST + 5.0])],
}


class Call(NamedTuple):
    """One call of a target, and its result."""

    x: Array
    kept: Array  #: x after the call.
    positions: Array
    rope: Rotary
    got: Array


def vectors(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def make(case: Case, **arguments: float) -> Any:
    return case.target if case.kind in ("function", "score") else case.target(**arguments)


def with_axes(case: Case, positions: Array) -> Array:
    """Points whose coordinates are all different, as in an image."""
    axes = case.options.get("axes", 1)
    if axes == 1:
        return positions
    return np.stack([positions * (1 + a) + 3 * a for a in range(axes)], axis=-1)


def calls(case: Case, dtype: str) -> Iterator[Call]:
    """All trials of a function or a class, each call with the Rotary that it should follow."""
    for trial in TRIALS.values():
        target = make(case)
        for n, positions in enumerate(trial):
            shape = (2, 1) if positions.ndim == 2 else ((1, 2) if n else ())
            yield call(case, target, with_axes(case, positions), shape, dtype)
    if case.kind == "class":
        target = make(case)
        call(case, target, NEAR, (), "bfloat16")
        yield call(case, target, NEAR, (), dtype)
    if case.kind == "class" and case.at_length is None:
        yield from two_bases(case, dtype)


def two_bases(case: Case, dtype: str) -> Iterator[Call]:
    """Two instances of one size."""
    first, second = make(case, base=10_000.0), make(case, base=500_000.0)
    yield call(case, first, NEAR, (), dtype)
    yield call(case, second, NEAR, (), dtype, Rotary(head_dim=DIM, layout="half", base=500_000.0))


def call(
    case: Case,
    target: Any,
    positions: Array,
    outer: tuple[int, ...],
    dtype: str,
    rope: Rotary | None = None,
) -> Call:
    sequence = positions.shape[1] if outer == (2, 1) else positions.shape[0]
    x = vectors((*outer, sequence, DIM), dtype)
    kept = x.copy()
    got = target(kept, positions)
    return Call(x, kept, positions, rope or case.intended(), got)


def expected_rotation(case: Case, one: Call) -> Array:
    """The rotation in float64, by the length of each row where the table depends on it."""
    x = one.x.astype(np.float64)
    if case.at_length is None:
        return rotate(x, one.rope, one.positions)
    if one.positions.ndim == 1:
        return rotate(x, case.at_length(length(one.positions)), one.positions)
    rows = [rotate(r, case.at_length(length(m)), m) for r, m in zip(x, one.positions, strict=True)]
    return np.stack(rows)


def length(positions: Array) -> int:
    return max(math.floor(float(positions.max())) + 1, 1)


def tolerance(one: Call, tables: str) -> Array:
    """Largest error of a right implementation, in each coordinate.

    In unit roundoffs u of the data's dtype times the stretched length of the pair: each table
    rounded 2 (the value and its factor), each product 1, their sum 1 and the result 1; the float64
    truth is much closer. NumPy's sine may add 1 more, and data turned in their own dtype
    round no more often than that: 6.

    The angle is off by its own size times the unit roundoff of what it is computed in: 1 each for
    the product and the position, and for the frequency 1 for the power, 1 for the reciprocal or a
    scaling, and ln(base) for a rounded exponent; the same again for our own side. A frequency of
    1 has none of these, and the positions here are exact: its angle is too.
    """
    unit, rope = UNITS[str(one.x.dtype)], one.rope
    if tables != "float64":
        unit = max(unit, UNITS["float32"])
    m, theta = np.abs(one.positions), np.abs(rope.inv_freq)
    roundings = np.where(rope.inv_freq == 1, 0.0, 2 * (4 + math.log(rope.base or 10_000.0)))
    angle_unit = UNITS["float64" if tables == "float64" else "float32"]
    theta = theta * roundings
    angle = angle_unit * (m[..., None] * theta if rope.axes == 1 else m @ theta)
    if angle.ndim == 3:
        angle = angle[:, None]
    pairs = one.x.astype(np.float64)[..., rope.pairs_in]
    allowed = np.zeros(one.x.shape)
    size = rope.attention_factor * np.linalg.norm(pairs, axis=-1) * (6 * unit + angle)
    allowed[..., rope.pairs_out] = size[..., None]
    return allowed


def fault(case: Case, one: Call, tables: str) -> str | None:
    """Fault of a call, or None."""
    if not np.array_equal(one.kept, one.x):
        return "input modified"
    if one.got.dtype != one.x.dtype or one.got.shape != one.x.shape:
        return f"{one.got.dtype} {one.got.shape} from {one.x.dtype} {one.x.shape}"
    error = np.abs(one.got.astype(np.float64) - expected_rotation(case, one))
    if (error <= tolerance(one, tables)).all():
        return None
    return f"off by {np.nanmax(error):.3g}" if not np.isnan(error).all() else "NaN"


#: Each target once, told or not.
ROTATIONS = {c.target: c for c in RIGHT if c.kind in ("function", "class")}.values()


@pytest.mark.parametrize("dtype", mark_slow(DTYPES, quick=["float32"]))
@for_each("case", ROTATIONS)
def test_right_implementation_agrees_with_rotate(case: Right, dtype: str) -> None:
    for one in calls(case, dtype):
        assert np.array_equal(one.kept, one.x)
        assert one.got.dtype == one.x.dtype
        assert_within(
            f"{case.name} at {one.positions.tolist()}",
            got=one.got.astype(np.float64),
            expected=expected_rotation(case, one),
            tolerance=tolerance(one, case.tables),
        )


@for_each("case", [c for c in WRONG if c.kind in ("function", "class")])
def test_wrong_implementation_differs_from_what_it_means_to_be(case: Wrong) -> None:
    """By more than tables in float32 would explain."""
    given = (one for dtype in ("float32", "float16") for one in calls(case, dtype))
    assert any(fault(case, one, "float32") for one in given)


def decode(case: Case, x: Array) -> Array:
    """A prompt of 16, then one token after another; twice, since prefill begins again."""
    target = make(case)
    target.prefill(x[..., :5, :])
    parts = [target.prefill(x[..., :16, :])]
    parts += [target.step(x[..., n : n + 1, :]) for n in range(16, x.shape[-2])]
    return np.concatenate(parts, axis=-2)


DECODERS = [case for case in (*RIGHT, *WRONG) if case.kind == "decoder"]


@pytest.mark.parametrize("case", DECODERS, ids=lambda case: case.name)
def test_decoder_is_right_or_wrong_token_by_token(case: Case) -> None:
    x = vectors((2, 20, DIM), "float32")
    one = Call(x, x, np.arange(20.0), case.intended(), decode(case, x))
    assert (fault(case, one, "float64") is None) == isinstance(case, Right)
    prompt = Call(x[:, :16], x[:, :16], np.arange(16.0), one.rope, one.got[:, :16])
    assert fault(case, prompt, "float64") is None


def relative_error(case: Case, rows: int) -> float:
    q, k = vectors((rows, DIM), "float64", 1), vectors((rows, DIM), "float64", 2)
    rope = case.intended()
    scale = rope.softmax_factor / math.sqrt(DIM)
    truth = rotate(q, rope) @ rotate(k, rope).T * scale
    sizes = np.linalg.norm(q, axis=-1)[:, None] * np.linalg.norm(k, axis=-1) * scale
    return float(np.max(np.abs(case.target(q, k, np.arange(rows)) - truth) / sizes))


SCORES = [case for case in (*RIGHT, *WRONG) if case.kind == "score"]


@pytest.mark.parametrize("case", SCORES, ids=lambda case: case.name)
def test_score_is_right_or_wrong(case: Case) -> None:
    # A sum of DIM products: DIM u and the tolerance of both vectors, some 6 u and 16 angles' u,
    # angles being below 16.
    right = (
        max(relative_error(case, rows) for rows in (1, 16)) <= (DIM + 2 * 6 + 16 * 16) * 2.0**-53
    )
    assert right == isinstance(case, Right)


def test_names_are_unique_and_every_wrong_one_names_its_thread() -> None:
    for cases in (RIGHT, WRONG):
        names = [case.name for case in cases]
        assert len(set(names)) == len(names)
    assert [case for case in WRONG if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", case.thread)] == []


def test_laws_are_those_of_check_and_each_is_broken_by_one() -> None:
    assert {law for case in WRONG for law in case.laws} == LAWS


# Verdicts of check.


def is_in_share(case: Case, one_in: int) -> bool:
    """The same ones at every run, spread over all files."""
    return crc32(case.name.encode()) % one_in == 0


#: All decoders, scores and classes, half of the right functions and an eighth of the wrong ones.
MOST_RIGHT = [c for c in RIGHT if c.kind != "function" or is_in_share(c, 2)]
MOST_WRONG = [c for c in WRONG if c.kind != "function" or is_in_share(c, 8)]


def by_tier(cases: list[Any], one_in: int) -> list[Any]:
    """One in `one_in` in the quick tier, the others in the slow one."""
    return [
        pytest.param(
            case,
            id=f"{case.kind} {case.name}",
            marks=() if is_in_share(case, one_in) else pytest.mark.slow,
        )
        for case in cases
    ]


FEW_RIGHT, FEW_WRONG = 8, 20  #: One in this number is in the quick tier.


def test_there_are_enough_of_both() -> None:
    assert (len(RIGHT), len(WRONG)) == (39, 124)
    assert len({case.target for case in MOST_WRONG}) >= 35
    assert len({case.target for case in MOST_RIGHT}) >= 15
    assert sum(is_in_share(case, FEW_RIGHT) for case in MOST_RIGHT) >= 3
    kinds = {case.kind for case in MOST_WRONG if is_in_share(case, FEW_WRONG)}
    assert kinds == {"function", "class", "decoder", "score"}


@pytest.mark.parametrize("case", by_tier(MOST_RIGHT, FEW_RIGHT))
def test_right_ones_pass(case: Right) -> None:
    assert_passed(case)


@pytest.mark.slow
def test_a_right_one_passes_by_the_laws_of_many_calls_too() -> None:
    """All of them in the soak tier."""
    (case,) = (each for each in RIGHT if each.name == "decoder")
    assert_passed(case, ignore=())


@pytest.mark.parametrize("case", by_tier(MOST_WRONG, FEW_WRONG))
def test_wrong_ones_are_caught_and_named(case: Wrong) -> None:
    assert_caught(case)
