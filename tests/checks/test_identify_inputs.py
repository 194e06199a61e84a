"""What `identify` takes, and what it refuses in a line."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rotated import Array, normals, told

from ropecli import Rotary, rotate
from ropecli.checks.identify import identify
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
    (broken(np.nan), X, None, "before must be finite, got 2 non-finite values"),
    (X, broken(np.inf), None, "after must be finite, got 2 non-finite values"),
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


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_values_are_refused_in_a_line(case: int) -> None:
    before, after, positions, message = WRONG[case]
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


@pytest.mark.parametrize("case", range(len(WRONG_TYPES)))
def test_wrong_types_are_refused_in_a_line(case: int) -> None:
    before, after, positions, message = WRONG_TYPES[case]
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
    found = told(ROPE, np.arange(16), before=normals(*shape))
    assert found.recognised, found.reason
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
    first, second = (told(ROPE, before=normals(2, 64, 8, dtype="float16")) for _ in range(2))
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


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_very_small_and_very_large_vectors(scale: float) -> None:
    before = (normals(32, 8, dtype="float64") * scale).astype(np.float32)
    found = told(ROPE, np.arange(32), before=before)
    assert (found.base, found.layout) == (10_000.0, "interleaved")


def test_a_head_of_two_coordinates() -> None:
    found = told(Rotary(head_dim=2), before=normals(64, 2))
    assert found.recognised, found.reason
    assert (found.rotary_dim, found.rotary_offset) == (2, 0)
    assert found.inv_freq is not None
    np.testing.assert_allclose(found.inv_freq, [1.0], rtol=1e-6)
