"""Positions with several axes: M-RoPE and axial RoPE, applied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within_ulps, slow
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope, rotate, verify

COMPILED = not config.DISABLE_JIT
SECTIONS = [4, 6, 6]
RNG = np.random.default_rng(5)


def mrope(**more: Any) -> Rotary:
    return rope("default", head_dim=32, mrope_section=SECTIONS, **more)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("dtype", ["float32", *slow("float64", "float16")])
def test_equal_axes_are_plain_rope_to_the_bit(layout: str, dtype: str) -> None:
    x = RNG.standard_normal((300, 32)).astype(dtype)  # few enough to need no parallel kernel
    places = np.arange(300.0)
    point = np.repeat(places[:, None], 3, axis=1)
    plain = rotate(x, rope("default", head_dim=32, layout=layout), places)
    assert rotate(x, mrope(layout=layout), point).tobytes() == plain.tobytes()
    assert rotate(x, mrope(layout=layout)).tobytes() == plain.tobytes()


@given(
    seed=st.integers(0, 2**32),
    turns=st.booleans(),
    layout=st.sampled_from(["interleaved", "half"]),
    inverse=st.booleans(),
)
def test_each_pair_turns_by_its_own_axis(
    seed: int, turns: bool, layout: str, inverse: bool
) -> None:
    random = np.random.default_rng(seed)
    made = mrope(layout=layout, mrope_interleaved=turns)
    x = random.standard_normal((2, 5, 32))
    points = random.integers(-500, 500, (2, 5, 3)).astype(np.float64)
    got = rotate(x, made, points, inverse=inverse)
    for i, (a, b) in enumerate(made.pairs_in):
        angle = points[..., made.axis[i]] * made.inv_freq[i] * (-1 if inverse else 1)
        expected = (x[..., a] + 1j * x[..., b]) * np.exp(1j * angle)
        # Four roundings of the product, one of the angle (up to 500 radians, ulp 5.7e-14) and the
        # kernel's own 7e-16 + 1.2e-16 |angle|.
        size = np.abs(x[..., a] + 1j * x[..., b])
        error = np.abs(got[..., a] + 1j * got[..., b] - expected)
        assert (error <= (2e-15 + 3e-16 * np.abs(angle)) * size).all()


def test_a_reordered_output_in_place() -> None:
    half = rope("default", head_dim=8, layout="half").pairs_out
    made = rope("default", head_dim=8, mrope_section=[2, 1, 1], pairs_out=half)
    x = RNG.standard_normal((6, 8))
    points = RNG.integers(0, 99, (6, 3))
    fresh = rotate(x, made, points)
    plain = rotate(x, rope("default", head_dim=8, mrope_section=[2, 1, 1]), points)
    assert fresh[:, half].tobytes() == plain[:, made.pairs_in].tobytes()
    back = rotate(fresh, made, points, inverse=True)
    assert back == pytest.approx(x, abs=4 * 2**-52 * np.abs(x).max() * 100)  # angles up to 99
    assert rotate(x, made, points, out=x).tobytes() == fresh.tobytes()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5,), "positions must have shape (5, 3) or (2, 5, 3) for x of shape (2, 5, 32), got (5,)"),
        ((5, 2), "got (5, 2)"),
        ((3, 5), "got (3, 5)"),
    ],
)
def test_positions_of_another_shape_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        rotate(np.ones((2, 5, 32)), mrope(), np.ones(shape))
    assert message in str(caught.value)


@pytest.mark.parametrize("dtype", ["float32", *slow("float64", "float16", "bfloat16")])
@pytest.mark.parametrize("turns", [True, False] if COMPILED else [True])
def test_the_laws_hold(dtype: str, turns: bool) -> None:
    verdict = verify(mrope(layout="half", mrope_interleaved=turns), dtype=dtype)
    assert verdict.passed
    assert {c.name: c.passed for c in verdict.checks}["axes"] is True


def test_swapped_axes_are_caught_by_their_law_alone() -> None:
    made = mrope(layout="half")

    def swap_axes(x: Any, points: Any) -> Any:
        return rotate(x, made, points[:, [0, 2, 1]])

    failed = [
        c.name for c in verify(made, dtype="float32", rotate=swap_axes).checks if c.passed is False
    ]
    assert failed == ["axes"]


@pytest.mark.parametrize(
    ("axis", "error", "message"),
    [
        ([0, 1], ArgumentError, "axis must be integers of shape (4,), got int64 (2,)"),
        ([0, 0, 0, -1], ArgumentError, "axis must be from 0 to 15, got -1 to 0"),
        ([0, 0, 0, 16], ArgumentError, "axis must be from 0 to 15, got 0 to 16"),
        ([0.0, 0.0, 0.0, 0.0], ArgumentError, "axis must be integers"),
        ("abcd", ArgumentTypeError, "axis"),
    ],
)
def test_axes_that_are_refused(axis: Any, error: type[Exception], message: str) -> None:
    with pytest.raises((ArgumentError, error)) as caught:
        Rotary(head_dim=8, axis=axis)
    assert message in str(caught.value)


# How the axes of an image share the pairs: the ways that released encoders do it.

BASE = 10_000.0
OWN = [1.0, BASE**-0.25, BASE**-0.5, BASE**-0.75]  # of 8 of the head's 16 coordinates
ALL = [BASE ** (-i / 8) for i in range(8)]  # of all 16


@pytest.mark.parametrize(
    ("parameters", "expected", "axis"),
    [
        ({}, OWN + OWN, (0,) * 4 + (1,) * 4),
        ({"axis_order": [1, 0]}, OWN + OWN, (1,) * 4 + (0,) * 4),
        ({"take_turns": True}, [w for w in OWN for _ in range(2)], (0, 1) * 4),
        (
            {"take_turns": True, "axis_order": [1, 0]},
            [w for w in OWN for _ in range(2)],
            (1, 0) * 4,
        ),
        ({"deal_out": True}, ALL[::2] + ALL[1::2], (0,) * 4 + (1,) * 4),
        ({"deal_out": True, "take_turns": True}, ALL, (0, 1) * 4),
        ({"axes": 3}, [1.0, BASE**-0.5] * 3, (0, 0, 1, 1, 2, 2)),
    ],
)
def test_shares(parameters: dict[str, Any], expected: list[float], axis: tuple[int, ...]) -> None:
    made = rope("axial", head_dim=16, **parameters)
    assert made.axis == axis
    # One power each, here and there: at most 4 ulp apart.
    assert_within_ulps("inv_freq", got=made.inv_freq, expected=expected, ulps=4)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 1, 2], [1, 2]])
def test_order_names_each_axis_once(order: list[int]) -> None:
    with pytest.raises(ArgumentError, match="axis_order must name each of the 2 axes once, got"):
        rope("axial", head_dim=16, axis_order=order)
