"""Vectors that are not rotated by position are refused, for the right reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations.plain import half, interleaved
from rotated import COMPILED, Array, normals, refusal

from ropecli import Rotary, rope, rotate
from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow

DIM, COUNT = 32, 128
WHERE = np.arange(COUNT)
THETA = Rotary(head_dim=DIM).inv_freq
ANGLE = WHERE[:, None] * THETA
ALL_DTYPES = list(DTYPES) if COMPILED else ["float32"]
HALF = Rotary(head_dim=DIM, layout="half")
DIFFERENT_ANGLES = "vectors at one position are rotated by different angles"


def sinusoids(cosine_first: bool = False) -> Array:
    added = np.empty((COUNT, DIM))
    added[:, 0::2], added[:, 1::2] = np.sin(ANGLE), np.cos(ANGLE)
    return added[:, ::-1] if cosine_first else added


def cast(y: Array, like: Array) -> Array:
    return y.astype(like.dtype)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_something_added(heads: int, dtype: str, size: float) -> None:
    before = normals(heads, COUNT, DIM, dtype=dtype)
    after = cast(before.astype(np.float64) + size * sinusoids(), before)
    assert "additive" in refusal(before, after, WHERE)


def test_any_vector_added() -> None:
    before = normals(3, COUNT, DIM)
    after = before + normals(COUNT, DIM, seed=1)
    assert "additive" in refusal(before, after, WHERE)


def reflect(before: Array, layout: str) -> Array:
    """y = (cos x + sin x', sin x - cos x'): a reflection even at position 0."""
    pairs = Rotary(head_dim=DIM, layout=layout).pairs_in
    after = before.copy()
    a, b = before[..., pairs[:, 0]], before[..., pairs[:, 1]]
    after[..., pairs[:, 0]] = np.cos(ANGLE) * a + np.sin(ANGLE) * b
    after[..., pairs[:, 1]] = np.sin(ANGLE) * a - np.cos(ANGLE) * b
    return after


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("heads", [1, 3])
def test_reflections(layout: str, heads: int) -> None:
    before = normals(heads, COUNT, DIM, dtype="float64")
    reason = refusal(before, reflect(before, layout), WHERE)
    assert "reflected" in reason
    assert layout in reason


@pytest.mark.parametrize("heads", [1, 3])
def test_reasons_are_found_along_the_axis_that_runs(heads: int) -> None:
    """The first axis of a position may stand still, as time does in a picture."""
    where = np.stack([np.zeros(COUNT), WHERE], axis=-1)
    before = normals(heads, COUNT, DIM, dtype="float64")
    assert "reflected" in refusal(before, reflect(before, "half"), where)
    assert "xPos" in refusal(before, rotate(before, rope("xpos", head_dim=DIM), WHERE), where)
    assert "additive" in refusal(before, before + sinusoids(), where)


def test_a_pair_that_is_always_zero_is_not_said_to_be_multiplied() -> None:
    before = normals(2, COUNT, DIM, dtype="float64")
    before[..., [7, 7 + DIM // 2]] = 0
    assert "pairs (half) are reflected" in refusal(before, reflect(before, "half"), WHERE)


@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("heads", [1, 3])
def test_tables_of_one_layout_and_pairs_of_the_other(layout: str, dtype: str, heads: int) -> None:
    before = normals(heads, COUNT, DIM, dtype=dtype)
    x = before.astype(np.float64)
    turned = np.empty_like(x)
    if layout == "half":
        angle = np.repeat(ANGLE, 2, axis=-1)
        turned[..., : DIM // 2], turned[..., DIM // 2 :] = -x[..., DIM // 2 :], x[..., : DIM // 2]
    else:
        angle = np.concatenate([ANGLE, ANGLE], axis=-1)
        turned[..., 0::2], turned[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    after = cast(x * np.cos(angle) + turned * np.sin(angle), before)
    reason = refusal(before, after, WHERE)
    assert f"combined as in the {layout} layout" in reason


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_growth_as_in_xpos(dtype: str) -> None:
    before = normals(2, COUNT, DIM, dtype=dtype)
    after = rotate(before, rope("xpos", head_dim=DIM), WHERE)
    assert "xPos" in refusal(before, after, WHERE)


def test_growth_of_all_pairs_alike() -> None:
    before = normals(2, COUNT, DIM)
    after = cast(rotate(before, HALF, WHERE) * np.exp(0.01 * WHERE)[:, None], before)
    assert "grow or shrink with the position" in refusal(before, after, WHERE)


@pytest.mark.parametrize("times", [-1.0, 0.5, 1.5])
def test_only_scaled(times: float) -> None:
    before = normals(2, COUNT, DIM)
    reason = refusal(before, cast(times * before, before), WHERE)
    assert "nothing is rotated" in reason or "no pairs of coordinates rotate" in reason


def test_only_scaled_by_position() -> None:
    before = normals(2, COUNT, DIM)
    assert "nothing is rotated" in refusal(
        before, cast(before * (1 + WHERE)[:, None], before), WHERE
    )


@pytest.mark.parametrize("heads", [1, 3])
def test_random_vectors(heads: int) -> None:
    reason = refusal(normals(heads, COUNT, DIM), normals(heads, COUNT, DIM, seed=1), WHERE)
    assert reason == "lengths are not kept, and nothing known explains how they change"


def test_random_angles() -> None:
    before = normals(COUNT, DIM)
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, (COUNT, DIM // 2))
    reason = refusal(before, half(before, np.cos(angle), np.sin(angle)), WHERE)
    assert "lengths are kept" in reason
    assert "rotate with the position" in reason


def test_a_rotation_of_all_coordinates_together() -> None:
    """Orthogonal, but the same at each position and in no pairs."""
    matrix = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
    before = normals(COUNT, DIM, dtype="float64")
    assert "lengths are kept" in refusal(before, before @ matrix, WHERE)


@pytest.mark.parametrize("head", [0, 1, 3])
@pytest.mark.parametrize("dtype", ALL_DTYPES)
def test_one_head_that_is_not_rotated(head: int, dtype: str) -> None:
    before = normals(4, COUNT, DIM, dtype=dtype)
    after = rotate(before, HALF, WHERE)
    after[head] = before[head]
    assert DIFFERENT_ANGLES in refusal(before, after, WHERE)


def test_one_head_that_is_turned_back() -> None:
    before = normals(4, COUNT, DIM)
    after = rotate(before, HALF, WHERE)
    after[2] = rotate(before[2], HALF, -WHERE)
    assert DIFFERENT_ANGLES in refusal(before, after, WHERE)


@pytest.mark.parametrize("heads", [2, 4])
def test_heads_in_different_layouts(heads: int) -> None:
    before = normals(heads, COUNT, DIM)
    after = rotate(before, HALF, WHERE)
    after[0] = rotate(before[0], Rotary(head_dim=DIM), WHERE)
    assert "heads are rotated in different layouts" in refusal(before, after, WHERE)


@pytest.mark.parametrize("times", [1.277, 0.0, -1.0])
def test_coordinates_in_no_pair_that_are_multiplied(times: float) -> None:
    rope = Rotary(head_dim=DIM, rotary_dim=16, layout="half")
    before = normals(2, COUNT, DIM)
    after = rotate(before, rope, WHERE)
    after[..., 16:] *= np.float32(times)
    reason = refusal(before, after, WHERE)
    if times == 1.277:
        assert "(16 to 31) are multiplied by 1.277, not copied" in reason
    else:
        assert "not copied" in reason or "lengths" in reason


def test_coordinates_in_no_pair_are_listed_unless_they_are_a_run() -> None:
    pairs = [[0, 31], [1, 30], [2, 29], [3, 28], [5, 26], [6, 25], [7, 24], [8, 23]]
    before = normals(2, COUNT, DIM, dtype="float64")
    after = rotate(before, Rotary(head_dim=DIM, rotary_dim=16, pairs_in=pairs), WHERE)
    rest = np.setdiff1d(np.arange(DIM), np.ravel(pairs))
    after[..., rest] *= 1.277
    reason = "(4, 9, 10, 11, 12, 13, 14, 15, ...) are multiplied by 1.277, not copied"
    assert reason in refusal(before, after, WHERE)


@pytest.mark.parametrize("layout", [half, interleaved])
@pytest.mark.parametrize("position", [0.0, 5.0])
def test_positions_ignored(layout: Callable[..., Array], position: float) -> None:
    before = normals(2, COUNT, DIM)
    angle = np.full((COUNT, 1), position) * THETA
    reason = refusal(before, layout(before, np.cos(angle), np.sin(angle)), WHERE)
    if position == 0:
        assert reason == "after equals before: nothing is rotated"
    else:
        assert "position" in reason


def test_after_equals_before() -> None:
    before = normals(2, COUNT, DIM)
    assert refusal(before, before.copy(), WHERE) == "after equals before: nothing is rotated"
    assert refusal(before, before.copy(), None) == "after equals before: nothing is rotated"


def test_all_positions_equal() -> None:
    before = normals(2, COUNT, DIM)
    where = np.full(COUNT, 7)
    reason = refusal(before, rotate(before, HALF, where), where)
    assert reason == "all positions are equal: a rotation by position cannot be seen"


def test_positions_that_are_not_those_that_were_used() -> None:
    before = normals(2, COUNT, DIM)
    used = np.random.default_rng(0).permutation(COUNT)
    assert "position" in refusal(before, rotate(before, HALF, used), WHERE)
    squares = WHERE.astype(np.float64) ** 2
    assert "position" in refusal(before, rotate(before, HALF, squares), WHERE)


def test_sequences_that_start_again_where_positions_do_not() -> None:
    """Packed, but the positions given run on."""
    before = normals(2, COUNT, DIM)
    assert "position" in refusal(before, rotate(before, HALF, WHERE % 50), WHERE)


@settings(max_examples=25 if COMPILED else 3)
@given(seed=st.integers(0, 1000), dim=st.sampled_from([2, 8, 32]), count=st.integers(4, 64))
def test_random_vectors_are_never_a_rotation(seed: int, dim: int, count: int) -> None:
    before, after = normals(2, count, dim, seed=seed), normals(2, count, dim, seed=seed + 5000)
    assert refusal(before, after, np.arange(count)) != ""
