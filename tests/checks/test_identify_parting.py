"""Vectors that part from the rotation of most others are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers import mark_slow, slow
from rotated import Array, normals, value_of

from ropecli import Rotary, identify, rotate

HALF = Rotary(head_dim=16, layout="half", base=500.0)
WHERE = np.arange(64)


def turn(x: Array, by: int = 0) -> Array:
    return rotate(x, HALF, WHERE + by)


def with_part(index: Any, change: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def after(x: Array) -> Array:
        y = turn(x)
        y[index] = change(x)[index]
        return y

    return after


ALL = slice(None)
#: What comes after of (2, 4, 64, 16), how many part, and how they are named.
PARTING: dict[str, tuple[Callable[[Array], Array], int, str]] = {
    "one vector": (
        with_part((1, 2, 40), np.negative), 1, "row 40, index 1 of axis 0, index 2 of axis 1"
    ),
    "one row": (with_part((ALL, ALL, 40), np.negative), 8, "row 40"),
    "a tail": (with_part((ALL, ALL, slice(60, None)), np.copy), 32, "rows 60 to 63"),
    "a head of another offset": (
        with_part((ALL, 3), lambda x: turn(x, 1)), 128, "index 3 of axis 1"
    ),
    "a sequence that is turned back": (
        with_part(1, lambda x: rotate(x, HALF, -WHERE)), 252, "rows 1 to 63, index 1 of axis 0"
    ),
    "heads of another layout": (
        with_part((ALL, slice(2, None), slice(1, None)),
                  lambda x: rotate(x, Rotary(head_dim=16, base=500.0), WHERE)),
        252, "rows 1 to 63, indices 2, 3 of axis 1",
    ),
    "a sequence never written": (with_part(0, np.zeros_like), 256, "index 0 of axis 0"),
    "every 16th row": (
        with_part((ALL, ALL, slice(15, None, 16)), np.copy), 32, "rows 15, 31, 47, 63"
    ),
    "two vectors": (
        with_part(([0, 1], [3, 0], [7, 9]), np.negative), 2, "vectors [0, 3, 7], [1, 0, 9]"
    ),
}  # fmt: skip


FEW = ("one vector", "a head of another offset", "heads of another layout")


@pytest.mark.parametrize("name", mark_slow(PARTING, quick=FEW))
def test_vectors_that_part(name: str) -> None:
    """`tests/soak/test_identify_soak.py` has all dtypes, with and without positions."""
    assert_parts(name, WHERE, "float32")


@pytest.mark.slow
@pytest.mark.parametrize(("given", "dtype"), [(None, "float32"), (WHERE, "bfloat16")])
def test_vectors_that_part_without_positions_or_digits(given: Array | None, dtype: str) -> None:
    assert_parts("heads of another layout", given, dtype)


def assert_parts(name: str, given: Array | None, dtype: str) -> None:
    change, count, where = PARTING[name]
    before = normals(2, 4, 64, 16, dtype=dtype)
    found = identify(before, change(before), given)
    assert not found.recognised
    assert found.parting is not None, found.reason
    assert (found.parting.count, found.parting.vectors) == (count, 512)
    assert found.parting.where == where
    assert found.parting.rotary.layout == "half"
    text = str(found)
    assert (
        f"{512 - count} of 512 vectors are rotated consistently: half-split layout, base 500"
        in text
    )
    assert where in " ".join(text.split())


@pytest.mark.parametrize(
    "after",
    [
        lambda x: x * 2,
        *slow(
            lambda x: x + normals(64, 16, seed=3),
            lambda x: rotate(x, HALF, WHERE.astype(float) ** 2),
        ),
        lambda x: x[..., ::-1],
    ],
    ids=["scaled", "added", "squares", "mirrored"],
)
def test_nothing_parts_where_nothing_is_rotated(after: Callable[[Array], Array]) -> None:
    before = normals(2, 4, 64, 16, dtype="float32")
    found = identify(before, np.ascontiguousarray(after(before)), WHERE)
    assert not found.recognised
    assert found.parting is None


def test_nothing_parts_from_what_is_recognised() -> None:
    before = normals(2, 4, 64, 16)
    assert identify(before, turn(before)).parting is None


def test_rows_of_one_sequence_in_a_batch_of_positions() -> None:
    where = np.stack([WHERE, WHERE + 1000])
    before = normals(2, 4, 64, 16, dtype="float64")
    after = rotate(before, HALF, where)
    after[1, :, 50:] = before[1, :, 50:]
    found = identify(before, after, where)
    assert value_of(found.parting).where == "rows 50 to 63, index 1 of axis 0"
    assert value_of(found.parting).first == (1, 0, 50)


def test_a_sequence_of_another_offset_than_that_given() -> None:
    before = normals(2, 4, 64, 16)
    after = turn(before)
    after[1] = turn(before[1], 5)
    assert value_of(identify(before, after, WHERE).parting).where == "index 1 of axis 0"
    assert identify(before, after).found_positions is not None


def test_a_head_that_is_off_by_a_fifth_of_a_position() -> None:
    before = normals(2, 4, 64, 16, dtype="float32")
    after = rotate(before, HALF, WHERE)
    after[:, 3] = rotate(before[:, 3], HALF, WHERE + 0.2)
    assert value_of(identify(before, after, WHERE).parting).where == "index 3 of axis 1"


def test_a_point_of_several_axes() -> None:
    grid = np.stack(np.meshgrid(np.arange(8), np.arange(8), indexing="ij"), axis=-1).reshape(-1, 2)
    rope = Rotary.from_inv_freq([1.0, 0.3, 0.1, 0.7], axis=[0, 0, 1, 1])
    before = normals(3, 64, 8, dtype="float64")
    after = rotate(before, rope, grid)
    after[2, 5] = before[2, 5]
    found = identify(before, after, grid)
    assert value_of(found.parting).where == "row 5, index 2 of axis 0"
