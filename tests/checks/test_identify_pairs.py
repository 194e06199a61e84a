"""Any pairing of coordinates is found, and where the turned pairs are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rotated import COMPILED, ULPS, UNITS, normals, recover, refusal, value_of

from ropecli import Identification, Rotary, identify, rotate
from ropecli.arrays import DTYPES

EXAMPLES = settings(max_examples=12 if COMPILED else 4)
LARGEST = 32 if COMPILED else 8


def turns(rotary: Rotary) -> set[tuple[Any, ...]]:
    """Return the action of each pair, the same for one swapped and rotated the other way."""
    sign = 1 if rotary.direction == "forward" else -1
    both = zip(rotary.input_pairs, rotary.output_pairs, rotary.diagonal_inv_freq, strict=True)
    kept = set()
    for read, written, theta in both:
        if theta == 0 and read == written:
            continue  # as good as no pair
        swap = read[0] > read[1]
        kept.add(
            (
                read[::-1] if swap else read,
                written[::-1] if swap else written,
                round(float(-sign * theta if swap else sign * theta), 6),
            )
        )
    return kept


def assert_right(found: Identification, expected: Rotary) -> None:
    assert found.rotary is not None
    assert turns(found.rotary) == turns(expected)
    assert value_of(found.max_residual) <= ULPS
    assert (found.position_offset, found.position_step) == (0.0, 1.0)


@st.composite
def pairings(draw: st.DrawFn) -> Rotary:
    """Some coordinates in pairs, in any order; no two pairs equally fast."""
    pairs = draw(st.integers(2, LARGEST // 2))
    dim = 2 * pairs + 2 * draw(st.integers(0, 2))
    order = np.array(draw(st.permutations(range(dim))))[: 2 * pairs].reshape(-1, 2)
    return Rotary(head_dim=dim, rotary_dim=2 * pairs, base=1000.0, pairs_in=order)


@EXAMPLES
@given(expected=pairings(), dtype=st.sampled_from(["float64", "float32"]))
def test_any_pairing_is_found(expected: Rotary, dtype: str) -> None:
    before = normals(2, 48, expected.head_dim, dtype=dtype)
    assert_right(recover(expected, np.arange(48), before=before), expected)


@pytest.mark.slow
@EXAMPLES
@given(expected=pairings(), data=st.data())
def test_any_pairing_written_elsewhere_is_found(expected: Rotary, data: st.DataObject) -> None:
    read = expected.pairs_in
    written = np.array(data.draw(st.permutations(read.ravel().tolist()))).reshape(-1, 2)
    moved = Rotary.from_inv_freq(
        expected.inv_freq, head_dim=expected.head_dim, pairs_in=read, pairs_out=written
    )
    assert_right(recover(moved, np.arange(48), before=normals(2, 48, moved.head_dim)), moved)


@pytest.mark.parametrize(
    ("theta", "read", "written", "dtype"),
    [
        ([1.0, 0.1, 0.01], [[4, 1], [0, 3], [2, 6]], [[4, 1], [0, 6], [2, 3]], "float32"),
        # The two slow pairs change places: no coordinate is left without a partner.
        ([1.0, 2e-3, 1e-3], [[4, 5], [0, 1], [2, 3]], [[4, 5], [2, 3], [0, 1]], "float32"),
        ([1.0, 2e-3, 1e-3], [[4, 5], [0, 1], [2, 3]], [[4, 5], [2, 3], [0, 1]], "float64"),
    ],
)
def test_outputs_of_slow_pairs_that_seem_to_be_pairs_themselves(
    theta: list[float], read: Any, written: Any, dtype: str
) -> None:
    """One coordinate then is nearly another's former value, and the other way round."""
    rope = Rotary.from_inv_freq(theta, head_dim=8, pairs_in=read, pairs_out=written)
    assert_right(recover(rope, np.arange(48), before=normals(2, 48, 8, dtype=dtype)), rope)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ([0], "coordinate 0 changes and is in none of them"),
        ([0, 2], "coordinates 0, 2 change and are in none of them"),
    ],
)
def test_coordinates_without_a_partner_are_counted(changed: list[int], reason: str) -> None:
    rope = Rotary(head_dim=16, rotary_dim=12, rotary_offset=4)
    before = normals(2, 64, 16)
    after = rotate(before, rope, np.arange(64))
    after[..., changed] *= np.float32(1.01)
    assert refusal(before, after, np.arange(64)) == f"6 pairs are rotated, but {reason}"


def test_one_coordinate_that_is_longer() -> None:
    """One of two coordinates in no pair is multiplied: the reason names it alone."""
    before = normals(2, 64, 4)
    after = rotate(before, Rotary(head_dim=4, rotary_dim=2), np.arange(64))
    after[..., 3] *= 3
    reason = "the coordinate that is in no pair (3) is multiplied by 3, not copied"
    assert refusal(before, after, np.arange(64)) == reason


@pytest.mark.parametrize("dim", [16, 64])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_interleaved_in_and_half_out(dim: int, dtype: str) -> None:
    rope = Rotary(head_dim=dim, pairs_out=np.arange(dim).reshape(2, -1).T)
    found = recover(rope, before=normals(64, dim, dtype=dtype))
    assert_right(found, rope)
    assert (found.layout, found.base, found.rope_type) == ("interleaved", 10_000.0, "default")
    assert found.rotary is not None
    assert found.rotary.pairs_out.tolist() == rope.pairs_out.tolist()


def test_half_in_and_interleaved_out() -> None:
    rope = Rotary(head_dim=32, layout="half", pairs_out=np.arange(32).reshape(-1, 2))
    found = recover(rope)
    assert_right(found, rope)
    assert (found.layout, found.base) == ("half", 10_000.0)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("direction", ["forward", "reversed"])
def test_the_two_of_a_pair_written_in_each_others_place(layout: str, direction: str) -> None:
    swapped = Rotary(head_dim=32, layout=layout).pairs_in[:, ::-1]
    rope = Rotary(head_dim=32, layout=layout, direction=direction, pairs_out=swapped)
    assert_right(recover(rope, before=normals(3, 64, 32)), rope)


def test_outputs_in_any_order() -> None:
    order = np.random.default_rng(3).permutation(32)
    before = normals(64, 32)
    found = identify(before, rotate(before, Rotary(head_dim=32))[:, order], np.arange(64))
    place = np.argsort(order)
    assert_right(found, Rotary(head_dim=32, pairs_out=place[np.arange(32).reshape(-1, 2)]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs_from_both_ends(dtype: str) -> None:
    order = np.stack([np.arange(16), 31 - np.arange(16)], axis=1)
    rope = Rotary(head_dim=32, base=100.0, pairs_in=order)
    found = recover(rope, before=normals(4, 64, 32, dtype=dtype))
    assert found.rotary is not None
    assert found.layout == "custom"
    assert {tuple(sorted(pair)) for pair in found.rotary.input_pairs} == set(map(tuple, order))
    assert any("swapped" in note for note in found.notes)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_named_layout_is_not_in_doubt(layout: str) -> None:
    assert recover(Rotary(head_dim=32, layout=layout)).notes == ()


def test_the_head_permuted_by_halves() -> None:
    """Weights may be permuted for the other layout in halves of a head."""
    order = np.concatenate([np.arange(16).reshape(2, 8).T.ravel() + 16 * i for i in range(2)])
    pairs = order[np.arange(32).reshape(-1, 2)]
    rope = Rotary(head_dim=32, pairs_in=pairs)
    assert_right(recover(rope, before=normals(2, 64, 32)), rope)


@pytest.mark.parametrize(("dim", "first"), [(16, 0), (16, 48), (16, 20), (2, 7), (62, 1)])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_which_coordinates_are_rotated(dim: int, first: int, layout: str, dtype: str) -> None:
    rope = Rotary(head_dim=64, base=100.0, rotary_dim=dim, rotary_offset=first, layout=layout)
    found = recover(rope, before=normals(2, 64, 64, dtype=dtype))
    assert found.rotary is not None
    assert np.unique(found.rotary.pairs_in).tolist() == list(range(first, first + dim))
    assert (found.rotary_dim, found.rotary_offset) == (dim, first)
    # A single pair in half precision has a frequency that is measured, not recognised.
    assert value_of(found.max_residual) <= ULPS + UNITS[dtype]
