"""The laws of RoFormer Eq. 11-16 as properties: one body for the public call and the reference.

Others follow: with position 0, the first one gives R_m R_n = R_{m+n} and R_m^T = R_{-m}, and
orthogonality gives |R_m x| = A |x|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import strategies as domain
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli import Rotary, rotate
from ropecli.reference import rotation as reference

pytestmark = pytest.mark.slow

Array = NDArray[Any]
#: rotate one vector (head_dim,) at one position.
Implementation = Callable[[Array, float, Rotary], Array]


def by_public_call(x: Array, m: float, rope: Rotary) -> Array:
    turned: Array = rotate(x[None], rope, positions=[m])[0]
    return turned


def by_reference(x: Array, m: float, rope: Rotary) -> Array:
    sign = 1 if rope.direction == "forward" else -1
    pairs = reference.pairs_of(rope.layout, rope.rotary_dim, rope.rotary_offset)
    cosine, sine = reference.cos_sin(np.array([m]), sign * rope.inv_freq)
    exact = reference.elementwise(x[None], cosine, sine, pairs, rope.attention_factor)
    turned: Array = exact[0].astype(np.float64)
    return turned


implementations = pytest.mark.parametrize(
    "rotated", [by_public_call, by_reference], ids=["public call", "reference"]
)

# One rotation in float64 is off by 7e-16 of A|x| (see checks/accuracy.py), and its angle by
# 1.2e-16 |m theta|, theta being at most 1 here. Laws add up the rotations they take.
RELATIVE = 7e-16
ANGLE = 1.2e-16
UNIT = 2.0**-53
TINY = 64 * 2.0**-1074


def off(*at: float) -> float:
    """Error of vectors rotated at these positions in turn, over their lengths."""
    return float(np.prod([1 + RELATIVE + ANGLE * abs(m) for m in at])) - 1


def length(x: Array) -> float:
    return float(np.linalg.norm(x))


@implementations
@given(data=st.data())
def test_scores_depend_on_relative_position_only(rotated: Implementation, data: Any) -> None:
    rope = data.draw(domain.ropes())
    q, k = (data.draw(domain.vectors(rope.head_dim)) for _ in range(2))
    m, n, shift = (data.draw(domain.positions) for _ in range(3))
    here = rotated(q, m, rope) @ rotated(k, n, rope)
    there = rotated(q, m + shift, rope) @ rotated(k, n + shift, rope)
    stretch = max(rope.attention_factor, 1) ** 2
    size = stretch * length(q) * length(k)
    # A dot product of d terms rounds by at most d u of the product of lengths.
    dots = 2 * rope.head_dim * UNIT
    allowed = (off(m, n) + off(m + shift, n + shift) + dots) * size + TINY
    assert_within("score", got=there, expected=here, tolerance=allowed)


@implementations
@given(data=st.data())
def test_rotation_is_orthogonal(rotated: Implementation, data: Any) -> None:
    rope, m = data.draw(domain.ropes()), data.draw(domain.positions)
    basis = np.eye(rope.head_dim)
    matrix = np.array([rotated(column, m, rope) for column in basis]).T
    inside = np.unique(rope.pairs_in)
    matrix[inside] /= rope.attention_factor
    # Both columns of a product turn by one and the same angle, right or not; dividing by A
    # rounds once, and at most two terms of a product are not 0.
    allowed = 2 * RELATIVE + 8 * UNIT
    assert_within("R^T R", got=matrix.T @ matrix, expected=basis, tolerance=allowed)


@implementations
@given(data=st.data())
def test_position_0_changes_nothing(rotated: Implementation, data: Any) -> None:
    rope = data.draw(domain.ropes())
    x = data.draw(domain.vectors(rope.head_dim))
    expected = x.copy()
    expected[np.unique(rope.pairs_in)] *= rope.attention_factor
    assert (rotated(x, 0.0, rope) == expected).all()


@given(data=st.data())
def test_inverse_gives_the_input_back(data: Any) -> None:
    rope, m = data.draw(domain.ropes()), data.draw(domain.positions)
    x = data.draw(domain.vectors(rope.head_dim))[None]
    there = rotate(x, rope, positions=[m])
    back = rotate(there, rope, positions=[m], inverse=True)
    # The same cos and sin serve both ways, so the angle's error cancels; A multiplies and divides.
    allowed = (2 * RELATIVE + 4 * UNIT) * length(x) + TINY
    assert_within("inverse", got=back, expected=x, tolerance=allowed)


@given(data=st.data())
def test_inverse_undoes_a_reordering(data: Any) -> None:
    order = data.draw(st.permutations(range(8)))
    rope = Rotary(
        head_dim=8,
        pairs_in=np.reshape(order, (4, 2)),
        pairs_out=np.reshape(data.draw(st.permutations(range(8))), (4, 2)),
    )
    x = data.draw(domain.vectors(8))[None]
    m = data.draw(domain.positions)
    back = rotate(rotate(x, rope, positions=[m]), rope, positions=[m], inverse=True)
    assert_within(
        "inverse", got=back, expected=x, tolerance=(2 * RELATIVE + 4 * UNIT) * length(x) + TINY
    )
