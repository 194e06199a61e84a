"""Vectors that are not rotated by position are refused, for the right reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations.plain import half, interleaved, rotate_half
from rotated import COMPILED, Array, normals, refusal

from ropecli import Rotary, identify, rope, rotate
from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow

DIM, COUNT = 32, 128
WHERE = np.arange(COUNT)
THETA = Rotary(head_dim=DIM).inv_freq
ANGLE = WHERE[:, None] * THETA
ALL_DTYPES = list(DTYPES) if COMPILED else ["float32"]
HALF = Rotary(head_dim=DIM, layout="half")
DIFFERENT_ANGLES = "vectors at one position are rotated by different angles"


SINUSOIDS = np.stack([np.sin(ANGLE), np.cos(ANGLE)], axis=-1).reshape(COUNT, DIM)


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("dtype", ALL_DTYPES)
@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_something_added(heads: int, dtype: str, size: float) -> None:
    before = normals(heads, COUNT, DIM, dtype=dtype)
    after = (before.astype(np.float64) + size * SINUSOIDS).astype(before.dtype)
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
    before[..., Rotary(head_dim=DIM, layout=layout).pairs_in[7]] = 0  # says nothing
    assert f"pairs ({layout}) are reflected" in refusal(before, reflect(before, layout), WHERE)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize(("first", "word"), [(0, "first"), (1, "second")])
def test_a_coordinate_that_is_overwritten_too_early(layout: str, first: int, word: str) -> None:
    before = normals(2, COUNT, DIM, dtype="float32")
    pairs = Rotary(head_dim=DIM, layout=layout).pairs_in
    one, other, sign = pairs[:, first], pairs[:, 1 - first], (-1) ** first
    after = before.copy()
    after[..., one] = np.cos(ANGLE) * after[..., one] - sign * np.sin(ANGLE) * after[..., other]
    after[..., other] = np.cos(ANGLE) * after[..., other] + sign * np.sin(ANGLE) * after[..., one]
    assert f"the {word} coordinate of each pair ({layout})" in refusal(before, after, WHERE)


@pytest.mark.parametrize("heads", [1, 3])
def test_reasons_are_found_along_the_axis_that_runs(heads: int) -> None:
    """The first axis of a position may stand still, as time does in a picture."""
    where = np.stack([np.zeros(COUNT), WHERE], axis=-1)
    before = normals(heads, COUNT, DIM, dtype="float64")
    assert "reflected" in refusal(before, reflect(before, "half"), where)
    assert "xPos" in refusal(before, rotate(before, rope("xpos", head_dim=DIM), WHERE), where)
    assert "additive" in refusal(before, before + SINUSOIDS, where)


@pytest.mark.parametrize(("layout", "sign"), [("half", 1), ("interleaved", -1)])
def test_cosines_and_sines_that_are_exchanged(layout: str, sign: int) -> None:
    """All pairs are rotated by one angle at position 0, where a shift has one for each pair."""
    before = normals(2, COUNT, DIM, dtype="float32")
    pairs = Rotary(head_dim=DIM, layout=layout).pairs_in
    a, b, after = before[..., pairs[:, 0]], before[..., pairs[:, 1]], before.copy()
    after[..., pairs[:, 0]] = np.sin(ANGLE) * a - sign * np.cos(ANGLE) * b
    after[..., pairs[:, 1]] = sign * np.cos(ANGLE) * a + np.sin(ANGLE) * b
    assert "cos and sin are exchanged" in refusal(before, after, WHERE)


def test_coordinates_that_are_as_they_were_are_by_no_table() -> None:
    """The second half is rotated by the vectors of its neighbours, and the first is left alone."""
    before = normals(2, COUNT, DIM, dtype="float32")
    rolled = np.roll(before, 1, axis=-1)
    rotated = rotate(rolled[..., DIM // 2 :], Rotary(head_dim=DIM // 2), WHERE)
    after = np.concatenate([before[..., : DIM // 2], rotated], axis=-1)
    assert "taken for angles" not in refusal(before, after, WHERE)


@pytest.mark.parametrize("dtype", ALL_DTYPES[::2])
@pytest.mark.parametrize(("layout", "heads"), [("half", 1), ("interleaved", 3)])
def test_tables_of_one_layout_and_pairs_of_the_other(layout: str, dtype: str, heads: int) -> None:
    before = normals(heads, COUNT, DIM, dtype=dtype)
    x = before.astype(np.float64)
    if layout == "half":
        angle, turned = np.repeat(ANGLE, 2, axis=-1), rotate_half(x)
    else:
        angle = np.concatenate([ANGLE, ANGLE], axis=-1)
        turned = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    after = (x * np.cos(angle) + turned * np.sin(angle)).astype(before.dtype)
    assert f"combined as in the {layout} layout" in refusal(before, after, WHERE)


@pytest.mark.parametrize(
    ("dtype", "layout", "adjacent"), [("float32", "half", True), ("bfloat16", "interleaved", False)]
)
def test_tables_taken_for_angles(layout: str, dtype: str, adjacent: bool) -> None:
    before = normals(2, COUNT, DIM, dtype=dtype)
    x = before.astype(np.float64)
    pairs = Rotary(head_dim=DIM, layout=layout).pairs_in
    turned = np.empty_like(x)
    turned[..., pairs[:, 0]], turned[..., pairs[:, 1]] = -x[..., pairs[:, 1]], x[..., pairs[:, 0]]
    tables = np.stack([np.cos(ANGLE), np.sin(ANGLE)], axis=-1 if adjacent else -2)
    angle = tables.reshape(COUNT, DIM)
    after = (x * np.cos(angle) + turned * np.sin(angle)).astype(before.dtype)
    reason = refusal(before, after, WHERE)
    assert "cosines and sines are taken for angles" in reason
    assert f"combined as in the {layout} layout" in reason


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_growth_as_in_xpos(dtype: str) -> None:
    before = normals(2, COUNT, DIM, dtype=dtype)
    after = rotate(before, rope("xpos", head_dim=DIM), WHERE)
    assert "xPos" in refusal(before, after, WHERE)


EXACT = {"all coordinates together"}  # in float64
EQUAL = "after equals before: nothing is rotated"
#: Orthogonal, but the same at each position and in no pairs.
MATRIX = np.linalg.qr(np.random.default_rng(0).standard_normal((DIM, DIM)))[0]
RANDOM_ANGLES = np.random.default_rng(0).uniform(0, 2 * np.pi, (COUNT, DIM // 2))
UNORDERED = np.random.default_rng(0).permutation(COUNT)


def at_5(x: Array, pairs: Callable[..., Array]) -> Array:
    """Turned as at position 5 wherever it is."""
    angle = np.full((COUNT, 1), 5.0) * THETA
    return pairs(x, np.cos(angle), np.sin(angle))


#: What comes after of what was before, and parts of the reason.
AFTER: dict[str, tuple[Callable[[Array], Array], tuple[str, ...]]] = {
    "any vector added": (lambda x: x + normals(COUNT, DIM, seed=1), ("additive",)),
    "growth of all pairs alike": (
        lambda x: rotate(x, HALF, WHERE) * np.exp(0.01 * WHERE)[:, None],
        ("grow or shrink with the position",),
    ),
    "each pair scaled": (
        lambda x: x * np.tile(1 + np.arange(DIM // 2) * 7 % 16 / 15, 2),
        ("pairs (half) are each multiplied by a factor of its own, from 1 to 2",),
    ),
    "one sign for both": (
        lambda x: (
            x * np.cos(np.tile(ANGLE, 2)) + np.roll(x, DIM // 2, -1) * np.sin(np.tile(ANGLE, 2))
        ),
        ("pairs (half) are not rotated: sin has the same sign in both rows of each",),
    ),
    "scaled by position": (lambda x: x * (1 + WHERE)[:, None], ("nothing is rotated",)),
    "random angles": (
        lambda x: half(x, np.cos(RANDOM_ANGLES), np.sin(RANDOM_ANGLES)),
        ("lengths are kept", "rotate with the position"),
    ),
    "all coordinates together": (lambda x: x.astype(float) @ MATRIX, ("lengths are kept",)),
    "the same": (np.copy, (EQUAL,)),
    "always position 5, half": (lambda x: at_5(x, half), ("position",)),
    "always position 5, interleaved": (lambda x: at_5(x, interleaved), ("position",)),
    "positions in another order": (lambda x: rotate(x, HALF, UNORDERED), ("position",)),
    "squares of positions": (lambda x: rotate(x, HALF, WHERE.astype(float) ** 2), ("position",)),
    # Packed, but the positions given run on.
    "sequences that start again": (lambda x: rotate(x, HALF, WHERE % 50), ("position",)),
}


@pytest.mark.parametrize("name", AFTER)
def test_what_is_not_a_rotation_by_position(name: str) -> None:
    before = normals(2, COUNT, DIM, dtype="float64" if name in EXACT else "float32")
    change, words = AFTER[name]
    reason = refusal(before, change(before).astype(before.dtype), WHERE)
    for each in words:
        assert each in reason


@pytest.mark.parametrize("times", [-1.0, 0.5, 1.5])
def test_only_scaled(times: float) -> None:
    before = normals(2, COUNT, DIM)
    reason = refusal(before, (times * before).astype(before.dtype), WHERE)
    assert "nothing is rotated" in reason or "no pairs of coordinates rotate" in reason


@pytest.mark.parametrize("heads", [1, 3])
def test_random_vectors(heads: int) -> None:
    reason = refusal(normals(heads, COUNT, DIM), normals(heads, COUNT, DIM, seed=1), WHERE)
    assert reason == "lengths are not kept, and nothing known explains how they change"


@pytest.mark.parametrize("head", [0, 3])
@pytest.mark.parametrize("dtype", ALL_DTYPES[::2])
@pytest.mark.parametrize(
    "other", [np.copy, lambda x: rotate(x, HALF, -WHERE)], ids=["not rotated", "turned back"]
)
def test_one_head_that_is_rotated_otherwise(
    other: Callable[[Array], Array], head: int, dtype: str
) -> None:
    before = normals(4, COUNT, DIM, dtype=dtype)
    after = rotate(before, HALF, WHERE)
    after[head] = other(before[head])
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


def test_after_equals_before_at_unknown_positions() -> None:
    before = normals(2, COUNT, DIM)
    assert refusal(before, before.copy(), None) == EQUAL


def assert_refused(seed: int, dim: int, count: int) -> None:
    """Assert that random vectors are no rotation of others."""
    before, after = normals(2, count, dim, seed=seed), normals(2, count, dim, seed=seed + 5000)
    assert refusal(before, after, np.arange(count)) != ""


@settings(max_examples=5 if COMPILED else 3)
@given(seed=st.integers(0, 1000), dim=st.sampled_from([2, 8, 32]), count=st.integers(4, 64))
def test_random_vectors_are_never_a_rotation(seed: int, dim: int, count: int) -> None:
    assert_refused(seed, dim, count)


@pytest.mark.parametrize("batched", [False, True])
def test_a_wrong_row_is_seen_wherever_it_is_in_a_large_array(batched: bool) -> None:
    x = np.random.default_rng(0).standard_normal((2, 9_000, 64), dtype=np.float32)
    rope = Rotary(head_dim=64)
    positions = np.arange(9_000.0)
    if batched:
        positions = np.stack([positions, positions[::-1]])
    y = rotate(x, rope, positions=positions)
    assert identify(x, y, positions).recognised
    y[1, 5_003] = x[1, 5_003]
    found = identify(x, y, positions)
    assert not found.recognised
    assert found.parting is not None
