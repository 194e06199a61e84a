"""The rotation is recovered, whatever its convention, dtype, shape and positions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given, settings
from hypothesis import strategies as st
from rotated import COMPILED, SINGLE, ULPS, UNITS, Array, experiment, normals, recover, value_of
from strategies import dtypes, ropes

from ropecli import Identification, Rotary, identify, rotate
from ropecli.arrays import DTYPES

pytestmark = pytest.mark.slow

#: Standard deviations that chance does not bring about.
CLEARLY = 6.0
#: What a base, or an attention factor, may leave that is only measured: identify calls 10 units,
#: or 5 ulp, of a pair's mean turn exact, and single vectors stray from the mean by ULPS more.
MEASURED = 5 + ULPS
EXAMPLES = settings(max_examples=15 if COMPILED else 4)
LARGEST = 64 if COMPILED else 12

rounded_bases = st.sampled_from([100.0, 10_000.0, 150_000.0, 500_000.0, 1_000_000.0, 8_000_000.0])


class Places(NamedTuple):
    """Positions and their vectors."""

    positions: Array
    before: Array


@st.composite
def places(draw: st.DrawFn, head_dim: int, dtype: str) -> Places:
    count = draw(st.integers(16, 96 if COMPILED else 16))
    shapes: list[tuple[int, ...]] = [(), (1,), (3,), (2, 3)]
    heads: tuple[int, ...] = draw(st.sampled_from(shapes))
    seed = draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    where = {
        "counted": np.arange(count),
        "from 1000": np.arange(count) + 1000,
        "gaps": np.sort(rng.choice(4 * count, count, replace=False)),
        "permuted": rng.permutation(count),
        "negative": np.arange(count) - count // 2,
    }[draw(st.sampled_from(["counted", "from 1000", "gaps", "permuted", "negative"]))]
    batched: bool = draw(st.booleans())
    if heads and batched:
        where = where + 7 * np.arange(heads[0])[:, None]
    return Places(where, normals(*heads, count, head_dim, dtype=dtype, seed=seed))


def assert_found(found: Identification, rope: Rotary, unit: float) -> None:
    """Assert that all that was found is right, as far as the data tell it."""
    assert found.recognised, found.reason
    assert found.reason is None
    assert found.rotary is not None
    assert found.precision == "exact"
    if rope.rotary_dim > 2:  # a single pair is in both layouts
        assert found.layout == rope.layout
    assert found.rotary_offset == rope.rotary_offset
    assert found.direction == rope.direction
    assert (found.position_offset, found.position_step) == (0.0, 1.0)
    if not found.undetermined:
        assert found.rotary_dim == rope.rotary_dim
    both = min(len(value_of(found.inv_freq)), rope.rotary_dim // 2)
    theta = rope.inv_freq[:both]
    assert_within(
        "inv_freq",
        got=value_of(found.inv_freq)[:both],
        expected=theta,
        tolerance=CLEARLY * value_of(found.uncertainty)[:both] + SINGLE * theta,
    )
    # All vectors are rounded alike far on average: one rounding of the length is more than enough.
    assert_within(
        "attention factor",
        got=value_of(found.attention_factor) / rope.attention_factor,
        expected=1.0,
        tolerance=4 * max(unit, 1e-7 / 4),
    )


@EXAMPLES
@given(data=st.data(), dtype=dtypes, base=rounded_bases)
def test_every_convention_is_found(data: st.DataObject, dtype: str, base: float) -> None:
    """1,000 of them are in the soak tier."""
    assert_convention_is_found(data, dtype, base)


def assert_convention_is_found(data: st.DataObject, dtype: str, base: float) -> None:
    """Assert that a rotation in any layout, size and direction is found by its rows."""
    drawn = data.draw(ropes(largest=LARGEST))
    rope = Rotary(
        head_dim=drawn.head_dim,
        base=base,
        layout=drawn.layout,
        rotary_dim=drawn.rotary_dim,
        rotary_offset=drawn.rotary_offset,
        direction=drawn.direction,
        attention_factor=drawn.attention_factor,
    )
    where = data.draw(places(rope.head_dim, dtype))
    got = experiment(rope, where.positions, given=where.positions, before=where.before)
    found = got.found
    assert_found(found, rope, UNITS[dtype])
    assert found.dtype == dtype
    assert (found.rows, found.vectors) == (
        where.positions.size,
        where.before.size // rope.head_dim,
    )
    if UNITS[dtype] < 2.0**-20 and rope.rotary_dim > 2 and not found.undetermined:
        assert (found.rope_type, found.base) == ("default", base)
    recognised = found.base == base and rope.attention_factor == 1
    # Two ways to an angle differ by 1.2e-16 of it each; an ulp is twice the unit.
    angle = np.abs(where.positions).max() * 1.2e-16 / UNITS[dtype]
    assert value_of(found.max_residual) <= (ULPS if recognised else MEASURED) + angle
    assert_turns(got.before, got.after, found, dtype)


def assert_turns(before: Array, after: Array, found: Identification, dtype: str) -> None:
    """Assert that what was found turns before into after, as closely as it says."""
    assert found.rotary is not None
    turned = rotate(before.astype(np.float64), found.rotary, found.positions)
    angle = np.abs(value_of(found.positions)).max() * 1.2e-16  # two ways to an angle
    first, second = found.rotary.pairs_out.T
    length = np.hypot(turned[..., first], turned[..., second])
    allowed = np.full(turned.shape, np.abs(turned).max())
    allowed[..., first] = allowed[..., second] = length
    # Twice the unit is an ulp; a hundredth of one more for float64's own rounding of all this.
    assert_within(
        "after",
        got=after.astype(np.float64),
        expected=turned,
        tolerance=2 * allowed * (UNITS[dtype] * (value_of(found.max_residual) + 0.01) + angle),
    )


@EXAMPLES
@given(rope=ropes(largest=LARGEST), data=st.data())
def test_every_base_is_found(rope: Rotary, data: st.DataObject) -> None:
    where = data.draw(places(rope.head_dim, "float64"))
    found = experiment(rope, where.positions, given=where.positions, before=where.before).found
    assert_found(found, rope, UNITS["float64"])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [2.0**-8, 1.0, 2.0**8])
def test_the_size_of_vectors_does_not_matter(dtype: str, scale: float) -> None:
    before = (normals(2, 64, 16) * scale).astype(DTYPES[dtype])
    assert_found(recover(Rotary(head_dim=16), before=before), Rotary(head_dim=16), UNITS[dtype])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_ones_are_enough(dtype: str, layout: str) -> None:
    rope = Rotary(head_dim=32, layout=layout)
    found = recover(rope, before=np.ones((64, 32), DTYPES[dtype]))
    assert_found(found, rope, UNITS[dtype])


def test_rows_beyond_those_that_are_looked_at_change_nothing() -> None:
    count = 6000 if COMPILED else 4200
    rope = Rotary(head_dim=8, base=500_000.0, layout="half")
    found = recover(rope, np.arange(count), before=normals(1, count, 8))
    assert_found(found, rope, UNITS["float32"])
    assert found.base == 500_000.0
    assert found.vectors == count
    assert found.rows <= 4096


@pytest.mark.parametrize("count", [16, 17, 33])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("dim", "layout"), [(64, "half"), (128, "half"), (32, "interleaved")])
def test_sixteen_positions_are_enough(dim: int, layout: str, dtype: str, count: int) -> None:
    rope = Rotary(head_dim=dim, base=1_000_000.0, layout=layout)
    found = recover(rope, np.arange(count), before=normals(count, dim, dtype=dtype))
    assert_found(found, rope, UNITS[dtype])
    assert (found.rope_type, found.base) == ("default", 1_000_000.0)


def test_before_and_after_may_have_different_dtypes() -> None:
    rope = Rotary(head_dim=32)
    before = normals(64, 32, dtype="bfloat16")
    assert recover(rope, before=before).dtype == "bfloat16"
    mixed = identify(before, rotate(before.astype(np.float32), rope), np.arange(64))
    assert_found(mixed, rope, UNITS["bfloat16"])
    assert mixed.dtype == "float32"
