"""Bounds on the score of two vectors, RoFormer Eq. 35-37, and Position Interpolation's theorem."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import ropes

from ropecli import ArgumentError, ArgumentTypeError, Bound, Rotary, decay, rope, rotate

U = 2.0**-53
ROPE = Rotary(head_dim=128)


def curve_and_bound(made: Rotary, q: object, k: object, **options: Any) -> tuple[Any, Bound]:
    """Curves of two vectors' score and its bounds, and what bounds it at every distance."""
    curve = decay(made, q=q, k=k, **options)
    assert curve.bound is not None
    return curve, curve.bound


def counterexample(made: Rotary) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """q and k with h_i = e^{-i theta_i / 2}: their score is largest halfway between 0 and 1."""
    q, k = np.zeros((2, made.head_dim))
    q[::2] = 1
    k[::2], k[1::2] = np.cos(made.inv_freq / 2), np.sin(made.inv_freq / 2)
    return q, k


@given(
    made=ropes(largest=16),
    seed=st.integers(0, 2**32 - 1),
    at=st.floats(0, 100),
    step=st.sampled_from([0.5, 1.0, 3.0]),
)
def test_every_bound_holds_and_parts_add_up(
    made: Rotary, seed: int, at: float, step: float
) -> None:
    q, k = np.random.default_rng(seed).standard_normal((2, made.head_dim))
    curve, found = curve_and_bound(made, q, k, max_distance=20, step=step, at=at)
    # Angles up to 100 times the fastest, and a rounding for each of pairs' products and sums.
    unit = (400 * float(np.abs(made.inv_freq).max()) + 8 * made.head_dim) * U
    slack = 4 * unit * found.norms * made.head_dim
    for name, values in curve.bounds.items():
        assert (np.abs(curve.score) <= values + slack).all(), name
    assert (curve.abel_bound <= curve.max_bound + slack).all()
    assert found.envelope <= found.norms * (1 + 8 * made.head_dim * U)
    turned = rotate(np.stack([q, k]), made, [at, 0])
    others = np.setdiff1d(np.arange(made.head_dim), made.pairs_in)
    whole = found.contributions.sum() + q[others] @ k[others]
    assert_within("score", got=whole, expected=turned[0] @ turned[1], tolerance=slack)
    worst = found.interpolation_error.max()
    assert worst <= found.interpolation_bound + slack


@given(seed=st.integers(0, 2**32 - 1), at=st.floats(0, 1e4))
def test_abel_summation_is_an_identity(seed: int, at: float) -> None:
    """Eq. 36: sum h_i (S_{i+1} - S_i) = -sum S_{i+1} (h_{i+1} - h_i), with h_{d/2} = 0."""
    q, k = np.random.default_rng(seed).standard_normal((2, 128))
    _, found = curve_and_bound(ROPE, q, k, max_distance=1, at=at)
    h, sums = found.products, found.partial_sums
    left = (h * np.diff(sums, prepend=0)).sum()
    right = -(sums * np.diff(h, append=0)).sum()
    assert abs(left - right) <= 1e-12 * np.abs(h).sum() * len(h)
    assert left.real == pytest.approx(found.contributions.sum(), abs=1e-12 * found.envelope)


def test_without_the_last_difference_the_abel_bound_is_false() -> None:
    """For ones every other difference is 0, and the score is not."""
    ones = np.zeros(128)
    ones[::2] = 1
    curve, found = curve_and_bound(ROPE, ones, ones, max_distance=100)
    assert (np.abs(np.diff(found.products)) == 0).all()
    assert (np.abs(curve.score) > 1).any()
    assert_within(
        "Abel bound",
        got=curve.abel_bound[0],
        expected=abs(found.products[-1]) * 64,
        tolerance=1e-12,
    )
    assert curve.tightness["abel_bound"][0] == pytest.approx(1, rel=1e-12)


def test_aligned_phases_reach_the_envelope() -> None:
    q, k = np.random.default_rng(0).standard_normal((2, 16))
    made = Rotary(head_dim=16)
    _, found = curve_and_bound(made, q, k, max_distance=5)
    h = found.products
    # k turned by the phase of h has h_i = |h_i|, and the score at 0 is their sum.
    aligned = (k[::2] + 1j * k[1::2]) * np.exp(1j * np.angle(h))
    key = np.stack([aligned.real, aligned.imag], axis=1).ravel()
    again, bound = curve_and_bound(made, q, key, max_distance=5)
    assert again.score[0] == pytest.approx(found.envelope, rel=1e-12)
    assert bound.envelope == pytest.approx(found.envelope, rel=1e-12)
    assert again.tightness["envelope"].argmax() == 0


def test_rms_is_that_over_many_distances() -> None:
    """Phases of 8 pairs with irrational ratios fill the torus (Weyl)."""
    made = Rotary(head_dim=16, base=3.0)
    q, k = np.random.default_rng(1).standard_normal((2, 16))
    curve, found = curve_and_bound(made, q, k, max_distance=200_000)
    assert math.sqrt(float((curve.score**2).mean())) == pytest.approx(found.rms, rel=0.01)


def test_pairs_at_rest_and_coordinates_in_no_pair_are_constant() -> None:
    made = rope("p-rope", head_dim=8, rotary_dim=4, p=0.5)
    q, k = np.arange(8.0), np.ones(8)
    _, found = curve_and_bound(made, q, k, max_distance=3)
    still = 2.0 + 3 + 4 + 5 + 6 + 7  # the second pair, and the last four coordinates
    assert found.rms == pytest.approx(math.sqrt(abs(found.products[0]) ** 2 / 2 + still**2))


# Position Interpolation (Chen et al. 2023, arXiv:2306.15595).


def test_theorem_2_1_is_false_as_printed() -> None:
    """0.493876 is above d max|h| / (32 ln 10000) = 128 / 294.7309 = 0.434294."""
    curve, found = curve_and_bound(ROPE, *counterexample(ROPE))
    assert found.interpolation_error[0] == pytest.approx(0.493876, abs=5e-7)
    assert found.printed_bound == pytest.approx(0.434294, abs=5e-7)
    assert found.printed_bound == pytest.approx(128 / 294.7309, rel=1e-6)
    assert found.interpolation_bound == pytest.approx(0.499789, abs=5e-7)
    assert found.interpolation_error.max() <= found.interpolation_bound
    assert "exceeded: the theorem as printed is false" in str(curve)


def test_the_step_of_its_proof_that_fails() -> None:
    """The sum of theta^2 is 3.998308, above d / (4 ln c) = 3.474356."""
    total = float((ROPE.inv_freq**2).sum())
    assert total == pytest.approx(3.998308, abs=5e-7)
    assert total == pytest.approx((1 - 1e4**-2) / (1 - 1e4 ** (-4 / 128)), rel=1e-12)
    assert 128 / (4 * math.log(1e4)) == pytest.approx(3.474356, abs=5e-7)


def test_how_much_smaller_than_the_bound_of_extrapolation_it_is() -> None:
    """571 and 512 times, where the paper has 600; and B(s) >= d fails beyond 4096."""
    _, found = curve_and_bound(ROPE, *counterexample(ROPE))
    smallest = decay(ROPE, max_distance=4095, reduce="sum").lowest[0]
    assert 2 * smallest / found.interpolation_bound == pytest.approx(571, abs=1)
    assert 2 * 128 / found.interpolation_bound == pytest.approx(512, abs=0.5)
    assert smallest >= 128
    far = decay(ROPE, start=70_508, max_distance=70_508, reduce="sum").start
    assert far / 128 == pytest.approx(0.589676, abs=5e-7)


def test_the_printed_bound_is_that_of_plain_rope() -> None:
    q = np.ones(8)
    assert curve_and_bound(rope("linear", head_dim=8, factor=2.0), q, q)[1].printed_bound is None
    assert curve_and_bound(Rotary(head_dim=8, base=1.0), q, q)[1].printed_bound is None
    assert curve_and_bound(Rotary(head_dim=8), q, q)[1].printed_bound is not None


def test_vectors_of_zero() -> None:
    curve, _ = curve_and_bound(Rotary(head_dim=4), np.zeros(4), np.ones(4), max_distance=3)
    assert all((share == 1).all() for share in curve.tightness.values())
    assert "score" in str(curve)
    assert curve.figure().axes[0].get_yscale() == "linear"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"q": np.ones(4)}, "q must have shape (8,), got (4,)"),
        ({"k": [math.nan] * 8}, "k must be finite, got nan"),
        ({"at": math.inf}, "at must be finite, got inf"),
        ({"at": "1"}, "at must be a number, got '1'"),
        ({"q": ["a"] * 8}, "q must be an array of numbers, got list"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    given_all: dict[str, Any] = {"q": np.ones(8), "k": np.ones(8)} | arguments
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        decay(Rotary(head_dim=8), **given_all)
    assert message in str(caught.value)
