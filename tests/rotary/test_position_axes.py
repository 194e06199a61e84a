"""Positions with several axes: M-RoPE and axial RoPE, applied."""

from __future__ import annotations

import re
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers import ROOT, assert_within_ulps, slow
from hypothesis import given
from hypothesis import strategies as st
from numba import config

from ropecli import ArgumentError, ArgumentTypeError, Rotary, rope, rotate, verify
from ropecli.checks.accuracy import ACCURACY, ANGLE

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
        angle = points @ made.inv_freq[:, i] * (-1 if inverse else 1)
        expected = (x[..., a] + 1j * x[..., b]) * np.exp(1j * angle)
        # The promise, and as much again for what is expected: it is rounded, too.
        size = np.abs(x[..., a] + 1j * x[..., b])
        error = np.abs(got[..., a] + 1j * got[..., b] - expected)
        relative = ACCURACY["float64"].relative
        assert (error <= 2 * (relative + ANGLE * np.abs(angle)) * size).all()


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


MIXED = Rotary.from_inv_freq([[1.0, -0.3, 0.02, 0.0], [0.5, 0.7, 0.0, 0.0]], head_dim=10)


@pytest.mark.parametrize("direction", ["forward", "reversed"])
@pytest.mark.parametrize("pairs_out", [None, [[1, 0], [3, 2], [7, 6], [4, 5]]])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_pairs_turn_by_several_axes(direction: str, pairs_out: Any, dtype: str) -> None:
    """RoPE-Mixed: the angle of a pair is the sum over the axes."""
    made = Rotary.from_inv_freq(
        MIXED.inv_freq, head_dim=10, direction=direction, pairs_out=pairs_out, attention_factor=1.25
    )
    x = RNG.standard_normal((2, 3, 5, 10)).astype(dtype)
    points = RNG.integers(-99, 99, (2, 5, 2)).astype(np.float64)
    got = rotate(x, made, points)
    turned = np.exp((1j if direction == "forward" else -1j) * (points @ made.inv_freq))[:, None]
    z = 1.25 * (x[..., made.pairs_in[:, 0]] + 1j * x[..., made.pairs_in[:, 1]]) * turned
    out = got[..., made.pairs_out[:, 0]] + 1j * got[..., made.pairs_out[:, 1]]
    unit = max(float(np.finfo(dtype).eps), 99 * 2 * 2.0**-52)  # angles up to 198
    assert np.abs(out - z).max() < 4 * unit * np.abs(z).max()
    assert (got[..., 8:] == x[..., 8:]).all()
    back = rotate(got, made, points, inverse=True)
    assert np.abs(back - x).max() < 8 * unit * np.abs(x).max()
    assert rotate(x, made, points, out=x).tobytes() == got.tobytes()


@pytest.mark.parametrize("largest", [99, 4_000, 10**7])
def test_a_sum_of_angles_is_as_exact_as_one_angle(largest: int) -> None:
    """The bound of the page on kernels, of several axes in a pair, where the sum may cancel."""
    relative, of_angle = promised("float64")
    freq = RNG.uniform(-1.5, 1.5, (3, 8))
    freq[2] = -freq[1]  # cancels all but the first axis where the positions are equal
    made = Rotary.from_inv_freq(freq, head_dim=16)
    x = RNG.standard_normal((40, 16))
    points = RNG.integers(-largest, largest, (40, 3)).astype(np.float64)
    points[::4, 2] = points[::4, 1]
    got = rotate(x, made, points)
    with mpmath.workprec(200):
        for row, point in enumerate(points):
            for i, (a, b) in enumerate(made.pairs_in):
                angle = mpmath.fdot(map(mpmath.mpf, point), map(mpmath.mpf, freq[:, i]))
                pair = mpmath.mpc(x[row, a], x[row, b])
                error = mpmath.mpc(got[row, a], got[row, b]) - pair * mpmath.expj(angle)
                assert abs(error) <= (relative + of_angle * abs(angle)) * abs(pair)


def promised(dtype: str) -> tuple[float, float]:
    """Return what the page allows a dtype of a pair's length, and of the angle."""
    page = (ROOT / "docs" / "performance.md").read_text()
    found = re.search(rf"\| {dtype} \| \(([\d.e-]+) \+ ([\d.e-]+) \\\|m inv_freq", page)
    assert found is not None
    return float(found[1]), float(found[2])


def test_what_several_axes_have_in_common() -> None:
    assert (MIXED.axes, MIXED.axis) == (2, None)
    assert MIXED.diagonal_inv_freq.tolist() == pytest.approx([1.5, 0.4, 0.02, 0.0])
    assert MIXED.wavelength[0] == pytest.approx(2 * np.pi / np.hypot(1.0, 0.5))
    assert MIXED.wavelength[3] == np.inf
    x, where = RNG.standard_normal((7, 10)), np.arange(7.0)
    points = np.repeat(where[:, None], 2, axis=1)
    assert rotate(x, MIXED) == pytest.approx(rotate(x, MIXED, points), abs=1e-13)


def test_rows_of_frequencies_are_the_axes() -> None:
    listed = Rotary.from_inv_freq([1.0, 0.1, 0.0], axis=[1, 0, 1])
    rows = Rotary.from_inv_freq([[0.0, 0.1, 0.0], [1.0, 0.0, 0.0]])
    assert listed == rows
    assert hash(listed) == hash(rows)
    assert rows.axis == (1, 0, 0)  # what no axis rotates follows none
    assert rows.compact_inv_freq.tolist() == [1.0, 0.1, 0.0]
    assert rows.with_inv_freq([2.0, 0.2, 0.0]) == listed.with_inv_freq(2 * rows.inv_freq)
    with pytest.raises(ArgumentError, match=r"must be finite numbers of shape \(2, 4\), got"):
        MIXED.with_inv_freq([1.0] * 4)
    with pytest.raises(ArgumentError, match="axis needs inv_freq of shape"):
        Rotary.from_inv_freq([[1.0], [2.0]], axis=[0])


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
    assert_within_ulps("inv_freq", got=made.diagonal_inv_freq, expected=expected, ulps=4)


@pytest.mark.parametrize("order", [[0], [0, 0], [0, 1, 2], [1, 2]])
def test_order_names_each_axis_once(order: list[int]) -> None:
    with pytest.raises(ArgumentError, match="axis_order must name each of the 2 axes once, got"):
        rope("axial", head_dim=16, axis_order=order)
