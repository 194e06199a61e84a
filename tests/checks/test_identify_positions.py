"""The offset and the step of the positions are recovered (Eq. 30)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import slow
from hypothesis import given, settings
from hypothesis import strategies as st
from implementations.plain import mixed_frequencies
from rotated import (
    COMPILED,
    ULPS,
    Array,
    assert_same_table,
    normals,
    recognise,
    recover,
    refusal,
    value_of,
)

from ropecli import Identification, Rotary, identify, rope, rotate
from ropecli.arrays import DTYPES

EXAMPLES = settings(max_examples=16 if COMPILED else 4)
PLAIN = Rotary(head_dim=32, layout="half")
FIRST = np.arange(64)


def assert_plain(found: Identification, rope: Rotary = PLAIN) -> None:
    assert (found.layout, found.base, found.precision) == (rope.layout, rope.base, "exact")
    assert_same_table(found, rope)
    assert value_of(found.max_residual) <= ULPS


@pytest.mark.slow
@EXAMPLES
@given(start=st.integers(-100_000, 100_000), layout=st.sampled_from(["interleaved", "half"]))
def test_unknown_positions_have_their_start_found(start: int, layout: str) -> None:
    rope = Rotary(head_dim=32, layout=layout)
    found = recognise(rope, start + FIRST)
    assert_plain(found, rope)
    assert (found.position_offset, found.position_step) == (start, 1.0)
    assert value_of(found.positions).tolist() == (start + FIRST).tolist()


@pytest.mark.slow
@EXAMPLES
@given(start=st.integers(-50, 50), given_start=st.integers(0, 5000))
def test_known_positions_that_are_off_are_found_so(start: int, given_start: int) -> None:
    where = given_start + FIRST
    found = recognise(PLAIN, where + start, given=where)
    assert_plain(found)
    assert (found.position_offset, found.position_step) == (start, 1.0)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("start", [2.5, -3.5, 1000.25])
def test_a_start_between_two_positions_is_not_rounded(start: float, known: bool) -> None:
    """The fastest pair turns by 1 radian a position: its phase is rounded to 2^-24."""
    found = recognise(PLAIN, FIRST + start, given=FIRST if known else None)
    assert_plain(found)
    assert found.position_offset == pytest.approx(start, rel=0, abs=2.0**-24)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("off", [-1, 1, 2, 511])
def test_off_by_one_is_found_in_every_dtype(off: int, dtype: str) -> None:
    where = FIRST + 20
    found = recognise(PLAIN, where + off, given=where, before=normals(64, 32, dtype=dtype))
    assert (found.position_offset, found.position_step) == (off, 1.0)


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("step", [2, 3])
def test_positions_further_apart_are_found_so(step: int, start: int) -> None:
    """Twice as far is the same as all frequencies doubled: the fastest of which is 1 in RoPE."""
    for known in (None, FIRST):
        found = recognise(PLAIN, start + step * FIRST, given=known)
        assert_plain(found)
        assert (found.position_offset, found.position_step) == (start, step)
        assert value_of(found.positions).tolist() == (start + step * FIRST).tolist()


@pytest.mark.parametrize("known", [False, True])
def test_a_smaller_step_is_a_linear_factor(known: bool) -> None:
    found = recognise(PLAIN, FIRST / 4, given=FIRST if known else None)
    assert (found.rope_type, found.position_step) == ("linear", 1.0)
    assert dict(found.parameters) == {"factor": 4.0}


@pytest.mark.parametrize(
    "where",
    [2 * FIRST, 7 * FIRST, FIRST / 4, FIRST[::-1], np.random.default_rng(1).integers(0, 300, 96)],
    ids=["every second", "every seventh", "in quarters", "backwards", "any, repeated"],
)
def test_known_positions_may_be_any(where: Array) -> None:
    """With gaps, theta and theta + 2 pi / step turn alike: the slower pairs tell which."""
    found = recover(PLAIN, where)
    assert_plain(found)
    assert (found.position_offset, found.position_step) == (0.0, 1.0)


def test_positions_far_out() -> None:
    found = recover(PLAIN, FIRST + 1_000_000, before=normals(64, 32, dtype="float64"))
    assert found.base == 10_000.0
    assert (found.position_offset, found.position_step) == (0.0, 1.0)


def test_unknown_positions_backwards_are_a_direction() -> None:
    found = recognise(PLAIN, 63 - FIRST)
    assert (found.direction, found.position_offset) == ("reversed", -63.0)
    assert found.base == 10_000.0


@pytest.mark.parametrize("heads", [1, 4])
def test_each_row_of_a_batch_has_its_positions(heads: int) -> None:
    where = np.stack([np.arange(32), np.arange(32) + 100, np.arange(32)[::-1]])
    found = recover(PLAIN, where, before=normals(3, heads, 32, 32))
    assert_plain(found)
    assert found.rows == 96
    assert value_of(found.positions).tolist() == where.tolist()


def test_the_start_of_one_axis_alone_is_found() -> None:
    expected = rope("axial", head_dim=32, layout="half")
    where = np.stack(np.divmod(FIRST, 8), axis=-1)
    found = recognise(expected, where + np.array([0, 5]), given=where)
    assert found.position_offset is None  # none for all axes
    assert value_of(found.positions).tolist() == (where + np.array([0, 5])).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("spread", [False, True])
def test_frequencies_of_several_axes(dtype: str, spread: bool) -> None:
    """RoPE-Mixed, over an image and at points that share no row or column."""
    expected = Rotary.from_inv_freq(mixed_frequencies(32, 0.7))
    where = np.stack(np.divmod(np.arange(196), 14), axis=-1)
    if spread:
        random = np.random.default_rng(1)
        where = np.stack([random.permutation(196), random.permutation(196)], axis=-1)
    found = recover(expected, where, before=normals(3, 196, 32, dtype=dtype))
    got = value_of(found.rotary)
    assert (got.axis, got.input_pairs, got.direction) == (None, expected.input_pairs, "forward")
    unsure = value_of(found.uncertainty)
    assert (np.abs(got.inv_freq - expected.inv_freq) <= 6 * unsure + 2.0**-53).all()
    assert unsure.max() < {"float64": 1e-15, "float32": 1e-8, "float16": 1e-4}[dtype]
    assert found.axis is None
    match = identify(
        normals(3, 196, 32, dtype=dtype),
        rotate(normals(3, 196, 32, dtype=dtype), expected, where),
        where,
        candidates={
            "itself": expected,
            "exchanged": expected.with_inv_freq(expected.inv_freq[::-1]),
        },
    ).matches
    assert [(each.name, each.matches) for each in match] == [("itself", True), ("exchanged", False)]


@pytest.mark.parametrize(
    "first", slow(np.linspace(1, 3, 16), [0.1] + 15 * [0.0]), ids=["all pairs", "one pair"]
)
def test_angles_of_their_own_at_position_0_are_refused(first: Any) -> None:
    """Eq. 30 allows any gamma, but no start of positions gives these."""
    before = normals(64, 32)
    turn = Rotary.from_inv_freq(first, layout="half")
    after = rotate(rotate(before, turn, np.ones(64)), PLAIN)
    assert "position 0" in refusal(before, after, FIRST)


def test_a_start_is_kept_apart_from_a_turn_of_the_vectors_before() -> None:
    """Rotated twice is rotated once, by the sum."""
    before = normals(64, 32, dtype="float64")
    after = rotate(rotate(before, PLAIN, np.full(64, 17)), PLAIN)
    found = identify(before, after, FIRST)
    assert found.position_offset == 17.0


# Positions that were not given, and are not 0, 1, 2, ...

GRID = np.stack(np.divmod(np.arange(120), 12), axis=-1).astype(float)
AXIAL = rope("axial", head_dim=32, layout="half")
CENTRED = (2 * GRID + 1) / [10, 12] - 1
BATCH = np.stack([FIRST, FIRST + 7, np.maximum(FIRST - 5, 0)])
PATCHES = "a grid of 10 rows and 12 columns"
#: Encoding, positions and the words for them.
NOT_GIVEN: dict[str, tuple[Rotary, Array, str]] = {
    "grid": (AXIAL, GRID, PATCHES),
    "by column": (rope("axial", head_dim=32, layout="half", axis_order=(1, 0)), GRID, PATCHES),
    "five registers": (
        AXIAL,
        np.concatenate([np.zeros((5, 2)), GRID]),
        f"rows 0 to 4 at 0, then {PATCHES}",
    ),
    "one register": (
        AXIAL,
        np.concatenate([np.zeros((1, 2)), GRID]),
        f"row 0 at 0, then {PATCHES}",
    ),
    "normalised": (
        rope("axial", head_dim=32, layout="half", rope_theta=100.0),
        2 * np.pi * CENTRED,
        f"{PATCHES}, from -1 to 1 on each axis",
    ),
    "registers of text": (PLAIN, np.maximum(FIRST - 4, 0), "rows 0 to 3 at 0, then 0, 1, 2, ..."),
    "sequences": (PLAIN, BATCH, "of each sequence by itself: 0 to 63, 7 to 70 and 0 to 58"),
}


@pytest.mark.parametrize("name", NOT_GIVEN)
@pytest.mark.parametrize("dtype", ["float32", *slow("bfloat16")])
def test_positions_that_were_not_given_are_found(name: str, dtype: str) -> None:
    expected, positions, words = NOT_GIVEN[name]
    before = normals(
        3, 2, positions.shape[positions.ndim - 1 - (expected.axes > 1)], 32, dtype=dtype
    )
    found = identify(before, rotate(before, expected, positions))
    assert found.recognised, found.reason
    assert found.found_positions == words
    assert (found.rope_type, found.base) == (expected.rope_type, expected.base)
    assert found.position_offset is None
    got = value_of(found.positions)
    assert np.abs(got - positions).max() <= 1e-6 * np.abs(positions).max()
    assert f"positions         {words}" in str(found)


def test_coordinates_that_were_divided_are_named_where_indices_were_given() -> None:
    """DINOv3's are centres of patches, from -1 to 1."""
    expected, positions, _ = NOT_GIVEN["normalised"]
    before = normals(2, 120, 32, dtype="float32")
    found = identify(before, rotate(before, expected, positions), GRID)
    assert (found.rope_type, found.base) == ("axial", 100.0)
    assert found.found_positions == "those given, from -1 to 1 on each axis"
    assert value_of(found.position_step) == pytest.approx(2 * np.pi, rel=1e-6)


@pytest.mark.slow
def test_refusals_name_the_positions_that_were_tried() -> None:
    before = normals(2, 96, 32, dtype="float32")
    after = rotate(before, PLAIN, np.arange(96) % 37)
    tried = "pairs are rotated, but by angles that are not proportional to"
    assert refusal(before, after, None) == f"{tried} positions 0, 1, 2, ..."
    assert refusal(before, after, np.arange(96)) == f"{tried} the positions given"
