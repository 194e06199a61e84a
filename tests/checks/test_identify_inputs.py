"""Vectors and positions of every kind: refused in one line, sparse, huge, tiny, far out."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rotated import Array, normals, recognise, recover, refusal, value_of

from ropecli import Rotary, identify, rotate
from ropecli.errors import ArgumentError, ArgumentTypeError, RopecliError

ROPE = Rotary(head_dim=8)


def broken(value: float) -> Array:
    x = normals(16, 8)
    x[3, 5] = x[9, 1] = value
    return x


X = normals(16, 8)
BATCH = normals(2, 3, 16, 8)

#: Before, after, positions, and what the message must say of them.
WRONG: list[tuple[Any, Any, Any, str]] = [
    (X, X[:8], None, "before and after must have one shape, got (16, 8) and (8, 8)"),
    (X[0], X[0], None, "before must have shape (..., sequence, head_dim)"),
    (X[:0], X[:0], None, "got (0, 8)"),
    (X[:, :0], X[:, :0], None, "got (16, 0)"),
    (X[:, :7], X[:, :7], None, "head dim must be an even number of at least 2, got 7"),
    (
        broken(np.nan),
        X,
        None,
        "before must be finite, got 2 non-finite values, the first nan in row 3, coordinate 5",
    ),
    (
        BATCH,
        np.where(BATCH[1, 2, 4, 6] == BATCH, -np.inf, BATCH),
        None,
        "after must be finite, got 1 non-finite value, the first -inf in row 4, coordinate 6 of "
        "after[1, 2]",
    ),
    (X, X, np.arange(15), "positions must have shape (16,)"),
    (X, X, np.arange(17), "got (17,)"),
    (X, X, np.arange(16)[None], "got (1, 16)"),
    (X, X, 3, "got ()"),
    (X, X, np.arange(16)[:, None], "got (16, 1)"),
    (X, X, np.zeros((16, 0)), "got (16, 0)"),
    (BATCH, BATCH, np.zeros((3, 16)), "(16,) or (2, 16)"),
    (BATCH, BATCH, np.zeros((2, 16, 3, 1)), "got (2, 16, 3, 1)"),
    (X, X, np.full(16, np.nan), "positions must be finite"),
    (X, X, np.full(16, 2.0**60), "at most 2^53"),
]


@pytest.mark.parametrize(("before", "after", "positions", "message"), WRONG)
def test_wrong_values_are_refused_in_a_line(
    before: Any, after: Any, positions: Any, message: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        identify(before, after, positions)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


WRONG_TYPES: list[tuple[Any, Any, Any, str]] = [
    (X.astype(np.int64), X, None, "before must be float64, float32, float16, bfloat16, got int64"),
    (X, X.astype(complex), None, "after must be float64"),
    (X, X.astype(ml_dtypes.float8_e4m3fn), None, "after must be float64"),
    (X, X, ["a"] * 16, "positions must be an array of numbers, got list"),
    (X, X, np.ones(16, bool), "positions must be integers or floats, got bool"),
]


@pytest.mark.parametrize(("before", "after", "positions", "message"), WRONG_TYPES)
def test_wrong_types_are_refused_in_a_line(
    before: Any, after: Any, positions: Any, message: str
) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        identify(before, after, positions)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [None, "half", 3, {"base": 1e4}])
def test_candidates_that_are_no_rotary_are_refused(value: Any) -> None:
    with pytest.raises(RopecliError) as caught:
        identify(X, rotate(X, ROPE), np.arange(16), candidates={"mine": value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("candidates", [[ROPE], ROPE, "half", 3, [("mine", ROPE)]])
def test_candidates_without_names_are_refused(candidates: Any) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        identify(X, rotate(X, ROPE), np.arange(16), candidates=candidates)
    assert str(caught.value) == (
        f"candidates must be a mapping of names to Rotary, got {type(candidates).__name__}"
    )


@pytest.mark.parametrize(
    "shape", [(16, 8), (1, 16, 8), (3, 16, 8), (2, 3, 16, 8), (2, 1, 3, 16, 8)], ids=str
)
def test_every_shape_is_taken(shape: tuple[int, ...]) -> None:
    found = recover(ROPE, np.arange(16), before=normals(*shape))
    assert (found.rows, found.vectors) == (16, math.prod(shape) // 8)


@pytest.mark.parametrize("where", [np.arange(16), range(16), list(range(16)), np.arange(16.0)])
def test_positions_may_be_anything_like_an_array(where: Any) -> None:
    found = identify(X, rotate(X, ROPE), where)
    assert (found.base, found.position_offset) == (10_000.0, 0.0)


def test_arrays_may_be_views_and_in_any_order() -> None:
    wide = normals(32, 16)
    before = wide[::2, ::2]
    after = np.asfortranarray(rotate(before, ROPE))
    assert identify(before, after, np.arange(16)).base == 10_000.0
    swapped = before.astype(before.dtype.newbyteorder())
    assert identify(swapped, after, np.arange(16)).base == 10_000.0
    assert identify(before.tolist(), after.tolist(), np.arange(16)).base == 10_000.0


def test_arguments_are_left_as_they_were() -> None:
    before, where = normals(16, 8), np.arange(16)
    after = rotate(before, ROPE)
    for array in (before, after, where):
        array.flags.writeable = False
    assert identify(before, after, where, candidates={"mine": ROPE}).recognised


def test_the_answer_is_the_same_each_time() -> None:
    first, second = (recover(ROPE, before=normals(2, 64, 8, dtype="float16")) for _ in range(2))
    for field in dataclasses.fields(first):
        one, other = getattr(first, field.name), getattr(second, field.name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("after", [np.zeros((16, 8)), np.full((16, 8), 1e30), np.ones((16, 8))])
def test_constants_are_no_rotation(after: Array) -> None:
    found = identify(X, after, np.arange(16))
    assert not found.recognised
    assert found.reason


def test_zeros_stay_zeros_under_any_rotation() -> None:
    zeros = np.zeros((16, 8))
    found = identify(zeros, zeros, np.arange(16))
    assert found.reason == "after equals before: nothing is rotated"
    assert not identify(zeros, X, np.arange(16)).recognised


def test_a_head_of_two_coordinates() -> None:
    found = recover(Rotary(head_dim=2), before=normals(64, 2))
    assert (found.rotary_dim, found.rotary_offset) == (2, 0)
    np.testing.assert_allclose(value_of(found.inv_freq), [1.0], rtol=1e-6)


DIM = 16
PLAIN = Rotary(head_dim=DIM, layout="half")
LAYOUTS = ["interleaved", "half"]


def one_hot(rows: int, dim: int = DIM) -> Array:
    """Each row a unit vector, in no order."""
    chosen = np.random.default_rng(0).integers(0, dim, rows)
    return np.eye(dim, dtype=np.float32)[chosen]


SPARSE = {
    "one-hot": one_hot(256),
    "one-hot, few rows": one_hot(64),
    "each coordinate in turn": np.eye(DIM, dtype=np.float32),
    "half zero": np.maximum(normals(64, DIM), 0),  # as a ReLU leaves them: a quarter of the pairs
    "one-hot heads": np.repeat(np.eye(DIM, dtype=np.float32)[:, None], 64, axis=1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", SPARSE)
def test_zeros_hide_nothing_that_other_rows_show(name: str, layout: Any) -> None:
    before = SPARSE[name]
    rope = Rotary(head_dim=DIM, layout=layout)
    found = recover(rope, np.arange(before.shape[-2]), before=before)
    assert (found.layout, found.base, found.precision) == (layout, 10_000.0, "exact")
    assert found.undetermined == ()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_pair_may_be_seen_at_far_positions_of_its_own(layout: Any) -> None:
    where = np.random.default_rng(1).integers(0, 4096, 512)
    found = recover(
        Rotary(head_dim=DIM, layout=layout, direction="reversed", attention_factor=1.25),
        where,
        before=one_hot(512),
    )
    assert (found.layout, found.base, found.direction) == (layout, 10_000.0, "reversed")
    assert found.attention_factor == 1.25


def test_where_positions_begin_is_seen_as_well() -> None:
    where = np.arange(256)
    found = recognise(PLAIN, where + 7, given=where, before=one_hot(256))
    assert (found.base, found.position_offset) == (10_000.0, 7.0)


def test_a_pair_that_is_never_seen_is_not_made_up() -> None:
    before = normals(64, DIM)
    before[:, [3, 3 + DIM // 2]] = 0
    found = recover(PLAIN, before=before)
    assert (found.layout, found.base) == ("half", 10_000.0)


def test_one_row_that_is_turned_otherwise_is_no_rounding() -> None:
    before = one_hot(256)
    after = rotate(before, PLAIN, np.arange(256))
    after[100] = -after[100]
    assert not identify(before, after, np.arange(256)).recognised


WIDE = Rotary(head_dim=64, layout="half")
WHERE = np.arange(64)


@pytest.mark.parametrize("start", [10**8, 10**9, 2**31, 10**12])
def test_right_rotations_far_out(start: int) -> None:
    """Angles are rounded to float64, and that grows with the position."""
    found = recover(WIDE, start + np.arange(256), before=normals(256, 64, dtype="float64"))
    assert (found.base, found.precision, found.position_offset) == (10_000.0, "exact", 0.0)


@pytest.mark.slow
def test_one_vector_turned_too_far_is_still_seen_far_out() -> None:
    where = 10**6 + np.arange(256)
    before = normals(256, 64, dtype="float64")
    after = rotate(before, WIDE, where)
    after[100] = rotate(before[100:101], WIDE, where[100:101] + 1)[0]
    assert "some are off by" in refusal(before, after, where)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_a_pair_of_subnormals_is_rounded_by_more_of_its_length(dtype: str) -> None:
    before = normals(64, 16, dtype=dtype)
    tiny = float(np.ldexp(1.0, {"float64": -1074, "float32": -149}.get(dtype, -24)))
    before[30, 3], before[30, 11] = 2 * tiny, tiny
    found = recover(PLAIN, before=before)
    assert value_of(found.max_residual) < 2


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [("float32", 1e-30), ("float32", 1e30),
     *(("float64", scale) for scale in (1e-310, 1e-300, 1e-160, 1e160, 1e300))],
)  # fmt: skip
def test_vectors_of_any_size(dtype: str, scale: float) -> None:
    """Subnormals at 1e-310 have 45 bits, which still show that it is a rotation."""
    found = recover(PLAIN, before=(normals(64, 16, dtype="float64") * scale).astype(dtype))
    assert (found.layout, found.base) == ("half", 10_000.0)


@pytest.mark.parametrize("times", [1e-300, 1e-200, 1e-35, 1e35, 1e200, 1e300])
def test_lengths_that_change_beyond_measure(times: float) -> None:
    before = normals(64, 16, dtype="float64")
    reason = refusal(before, rotate(before, PLAIN) * times, WHERE)
    (power,) = re.findall(r"vectors are about 2\^(\S+) times as long after as before", reason)
    # The largest of each is within a power of two, and turning changes it by less than another.
    assert int(power) == pytest.approx(math.log2(times), abs=2)


@pytest.mark.parametrize("times", [1e-25, 1e25])
def test_lengths_that_change_by_much(times: float) -> None:
    before = normals(64, 16, dtype="float64")
    found = identify(before, rotate(before, PLAIN) * times, WHERE)
    assert found.recognised, found.reason
    assert found.attention_factor == pytest.approx(times, rel=1e-7)


@pytest.mark.parametrize("given", [WHERE, None])
def test_vectors_that_are_nothing(given: Array | None) -> None:
    zeros, some = np.zeros((64, 16)), normals(64, 16, dtype="float64")
    assert refusal(zeros, some, given) == "before is zero everywhere: no rotation can be seen"
    assert refusal(some, zeros, given) == "after is zero everywhere: no rotation can be seen"


def test_what_is_not_recognised_is_counted() -> None:
    found = identify(BATCH, normals(2, 3, 16, 8) + BATCH, np.arange(16))
    assert not found.recognised
    assert (found.shape, found.rows, found.vectors) == ((2, 3, 16, 8), 16, 96)
