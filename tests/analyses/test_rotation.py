"""One rotated vector: each step of Eq. 34, 15 and 12, against the reference in 40 digits."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from strategies import ropes

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope, rotate, rotation
from ropecli.reference import rotation as reference

U = 2.0**-53


@given(ropes(), st.integers(-1000, 100_000), st.integers(0, 2**32))
def test_steps_are_those_of_the_reference(own: Rotary, position: int, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal(own.head_dim)
    result = rotation(x, own, positions=[position])
    sense = 1 if own.direction == "forward" else -1
    cos, sin = reference.cos_sin(np.array([sense * position]), own.inv_freq)
    factor = own.attention_factor
    # The angle rounds by u |m theta|, once here and, of a block and an offset, twice in `rotate`;
    # cos, sin, products and the sum by a few u.
    angle = U * (2 * abs(position) * np.abs(own.inv_freq).max() + 8)
    for name, got, exact in (("cos", result.cos, cos), ("sin", result.sin, sin)):
        assert_within(
            name, got=got, expected=factor * exact[0].astype(float), tolerance=angle * factor
        )
    if own.reorders:
        return
    columns, pairs = result.columns, own.pairs_in
    tolerance = 4 * angle * factor * np.abs(x).max()
    exact = reference.elementwise(x[None], cos, sin, pairs, factor)[0].astype(float)
    assert_within("rotated", got=columns["rotated"], expected=exact, tolerance=tolerance)
    by_columns = columns["x"] * columns["cos"] + columns["swapped"] * columns["sin"]
    assert_within("sum of columns", got=by_columns, expected=exact, tolerance=tolerance)
    matrix = reference.matrix(cos[0], sin[0], pairs, own.head_dim, factor)
    assert_within("R", got=result.matrix, expected=matrix, tolerance=angle * factor)


def test_pairs_that_are_written_elsewhere() -> None:
    own = Rotary(head_dim=4, pairs_in=[[0, 1], [2, 3]], pairs_out=[[0, 2], [1, 3]])
    result = rotation([1.0, 2.0, 3.0, 4.0], own, positions=[0, 5])
    assert result.position == 5
    columns = result.columns
    by_columns = columns["x"] * columns["cos"] + columns["swapped"] * columns["sin"]
    for got in (by_columns, result.matrix @ result.vector):
        assert_within("R x", got=got, expected=result.rotated[-1], tolerance=1e-14)
    assert columns["x"].tolist() == [1, 3, 2, 4]


def test_a_coordinate_in_no_pair_stays() -> None:
    result = rotation([1.0, 2.0, 3.0, 4.0], Rotary(head_dim=4, rotary_dim=2), positions=[5])
    columns = {name: column[2:].tolist() for name, column in result.columns.items()}
    assert columns == {
        "x": [3, 4],
        "cos": [1, 1],
        "swapped": [0, 0],
        "sin": [0, 0],
        "rotated": [3, 4],
    }
    assert result.matrix[2:, 2:].tolist() == np.eye(2).tolist()


def test_xpos_grows_and_positions_with_axes_are_alike() -> None:
    for own in (rope("xpos", head_dim=4), rope("default", head_dim=4, mrope_section=[1, 1])):
        result = rotation([1.0, 2.0, 3.0, 4.0], own, positions=[7])
        expected = rotate(
            [[1.0, 2.0, 3.0, 4.0]], own, np.full((1, 2), 7.0) if own.axes > 1 else [7]
        )
        assert result.rotated.tolist() == expected.tolist()
        assert_within(
            "R x", got=result.matrix @ result.vector, expected=expected[0], tolerance=1e-14
        )


@pytest.mark.parametrize(
    ("x", "positions", "message"),
    [
        ([1.0, np.nan], [1], "x must be finite, got nan"),
        ([1j, 1.0], [1], "x must hold real numbers, got complex128"),
        ([1.0, 2.0], [], r"positions must be a list of at least one, got shape \(0,\)"),
    ],
)
def test_what_is_refused(x: list[complex], positions: list[int], message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError), match=message):
        rotation(x, Rotary(head_dim=2), positions=positions)


def test_a_matrix_too_large_to_write_down() -> None:
    result = rotation(np.ones(1026), Rotary(head_dim=1026))
    with pytest.raises(ArgumentError, match="head dim must be at most 1,024 for the matrix"):
        _ = result.matrix
