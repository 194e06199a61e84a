"""Limits of the data are reported, with the positions that would lift them; nothing is guessed."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import slow_rows
from rotated import COMPILED, Array, normals, recognise, recover, refusal, value_of

from ropecli import Identification, Rotary, identify, rope, rotate

SLOW = Rotary(head_dim=128, base=1_000_000.0, layout="half")


def few(dtype: str = "bfloat16", count: int = 16, rope: Rotary = SLOW) -> Identification:
    return recover(rope, np.arange(count), before=normals(count, rope.head_dim, dtype=dtype))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("base", [500_000.0, 1_000_000.0])
def test_pairs_too_slow_to_be_seen_are_named(dtype: str, base: float) -> None:
    rope = Rotary(head_dim=128, base=base, layout="half")
    found = few(dtype, rope=rope)
    assert found.undetermined
    assert list(found.undetermined) == list(range(found.undetermined[0], 64))
    assert value_of(found.positions_needed) > 16
    # Over 16 positions such a pair turns by less than the roundings of its vectors.
    unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    assert rope.inv_freq[found.undetermined[0]] * 15 < 6 * unit
    (note,) = (each for each in found.notes if "seen rotating" in each)
    assert f"{len(found.undetermined)} pairs (from {found.undetermined[0]})" in note
    assert f"over 16 positions; about {value_of(found.positions_needed):,} would be enough" in note


@pytest.mark.parametrize(
    ("dtype", "base"), [("bfloat16", 150_000.0), *slow_rows(("float16", 500_000.0))]
)
def test_as_many_positions_as_are_said_are_enough(dtype: str, base: float) -> None:
    rope = Rotary(head_dim=64, base=base, layout="half")
    needed = few(dtype, rope=rope).positions_needed
    assert needed is not None
    needed = needed if COMPILED else min(needed, 512)
    enough = few(dtype, needed, rope)
    if COMPILED:
        assert enough.undetermined == ()
        # The number is about right, and no exaggeration: with a tenth of it some are still slow.
        assert few(dtype, max(16, needed // 10), rope).undetermined != ()
    assert enough.base == base


def grid(rows: int, columns: int) -> Identification:
    where = np.stack(np.divmod(np.arange(rows * columns), columns), axis=-1)
    before = normals(len(where), 32, dtype="bfloat16")
    return recover(rope("axial", head_dim=32, layout="half"), where, before=before)


@pytest.mark.slow
def test_positions_are_needed_along_the_axis_of_the_pair() -> None:
    """A picture of 64 rows and 4 columns shows less of what the columns turn."""
    found = grid(64, 4)
    assert {value_of(found.axis)[pair] for pair in found.undetermined} == {1}
    assert found.positions_needed is not None
    assert 4 < found.positions_needed < 64
    assert grid(64, found.positions_needed).undetermined == ()
    (note,) = (each for each in found.notes if "seen rotating" in each)
    assert f"over 4 positions; about {found.positions_needed} would be enough" in note


def test_nothing_is_undetermined_where_all_is_seen() -> None:
    found = few("float32", rope=Rotary(head_dim=64))
    assert (found.undetermined, found.positions_needed, found.notes) == ((), None, ())


def test_pairs_that_are_not_seen_are_in_the_layout_of_the_others() -> None:
    found = few()
    assert found.rotary_dim == 128
    assert any("that cannot be seen in the data" in note for note in found.notes)


def test_an_open_end_is_undetermined() -> None:
    """No position shows whether (4, 5) is a slow pair or none at all."""
    found = few("float16", rope=Rotary(head_dim=6, base=150_000.0, rotary_dim=4))
    assert found.rotary_dim == 4 or 2 in found.undetermined


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_pair_that_is_not_turned_far_from_0_is_none(dtype: str) -> None:
    """Sixteen positions do not show (4, 5) turning, but at 1,000 it would stand elsewhere."""
    where = np.arange(1000, 1016)
    for rotated in (4, 6):
        rope = Rotary(head_dim=6, rotary_dim=rotated)
        found = recover(rope, where, before=normals(16, 6, dtype=dtype))
        assert found.rotary_dim == rotated


def test_an_end_that_stands_still_is_cut_off() -> None:
    found = few("bfloat16", 32, Rotary(head_dim=64, base=100.0, rotary_dim=16))
    assert (found.rotary_dim, found.undetermined) == (16, ())


def test_the_step_of_unknown_positions_is_not_told() -> None:
    rope = Rotary(head_dim=32)
    (note,) = recognise(rope).notes
    assert note == "position step and frequency scale cannot be separated without positions"
    assert recover(rope).notes == ()


@pytest.mark.parametrize(("words", "late"), [("half a pair", 1), ("one pair", 2)])
def test_exponents_that_begin_late_look_like_a_linear_factor(words: str, late: int) -> None:
    table = 1e4 ** (-(late + 2.0 * np.arange(32)) / 64)
    (note,) = recover(Rotary.from_inv_freq(table)).notes
    assert note == f"base 10000 with exponents {words} late gives these frequencies"
    assert recover(rope("linear", head_dim=64, factor=4.0)).notes == ()


@pytest.mark.parametrize("base", [1e4, 5e5])
@pytest.mark.parametrize("head_dim", [16, 128])
def test_exponents_over_one_pair_fewer_look_like_another_base(base: float, head_dim: int) -> None:
    table = base ** -np.linspace(0, 1, head_dim // 2)
    (note,) = recover(Rotary.from_inv_freq(table)).notes
    words = "with exponents over d/2 - 1, one pair fewer, gives these frequencies"
    assert note == f"base {base:g} {words}"


@pytest.mark.parametrize("base", [1e4 * 8 ** (64 / 63), 26_952.34, 1e4])
def test_other_bases_have_their_own_exponents(base: float) -> None:
    assert recover(Rotary(head_dim=128, base=base)).notes == ()


@pytest.mark.parametrize("heads", [1, 8])
def test_two_positions_tell_no_more_than_they_can(heads: int) -> None:
    rope = Rotary(head_dim=32, layout="half")
    before = normals(heads, 2, 32, dtype="float64")
    found = identify(before, rotate(before, rope), [0, 1])
    if not found.recognised:
        assert heads == 1
        return
    np.testing.assert_allclose(value_of(found.inv_freq), rope.inv_freq, rtol=1e-6)


def test_two_positions_of_random_vectors_are_no_rotation() -> None:
    for dim in (2, 4, 32):
        before, after = normals(8, 2, dim), normals(8, 2, dim, seed=1)
        assert refusal(before, after, [0, 1]) != ""


@pytest.mark.parametrize("positions", [None, [0], [7]])
@pytest.mark.parametrize("heads", [1, 3])
def test_a_single_row_is_refused(heads: int, positions: list[int] | None) -> None:
    before = normals(heads, 1, 32)
    where = [7] if positions is None else positions
    after = rotate(before, Rotary(head_dim=32), where)
    assert refusal(before, after, positions) == (
        "all positions are equal: a rotation by position cannot be seen"
    )


def uncertainty_of(dtype: str, count: int) -> Array:
    found = few(dtype, count, Rotary(head_dim=16))
    return value_of(found.uncertainty)


def test_uncertainty_falls_with_positions_and_precision() -> None:
    by_count = [uncertainty_of("float16", count) for count in (16, 64, 256)]
    # A line through n points along n positions: n^-1.5, so 8-fold for each 4-fold n.
    for more, fewer in zip(by_count[1:], by_count, strict=False):
        assert (more * 4 < fewer).all()
    by_dtype = [
        uncertainty_of(dtype, 64) for dtype in ("float64", "float32", "float16", "bfloat16")
    ]
    for rough, fine in zip(by_dtype[1:], by_dtype, strict=False):
        assert (fine * 4 < rough).all()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_uncertainty_is_what_the_frequencies_are_off_by(dtype: str) -> None:
    """No formula gives this table, so that frequencies are reported as measured."""
    theta = np.exp(-(np.linspace(0, 2.5, 32) ** 2))
    rope = Rotary.from_inv_freq(theta, layout="half")
    found = few(dtype, 200, rope)
    assert found.rope_type == "custom"
    share = np.abs(value_of(found.inv_freq) - theta) / value_of(found.uncertainty)
    assert share.max() < 6
    # Not much too large either: 32 of a normal distribution do not all lie within a hundredth.
    assert share.max() > 0.01
