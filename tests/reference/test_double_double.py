"""Arithmetic of pairs of float64 numbers, and the Abel sums in it, against mpmath."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpc, mpf
from numpy.typing import NDArray

from ropecli import Rotary, verify
from ropecli.reference import abel, double_double, rotation
from ropecli.reference.double_double import DoubleDouble, cos_sin, two_product, two_sum

Array = NDArray[np.float64]


@pytest.fixture(autouse=True)
def many_digits() -> Iterator[None]:
    with mp.workdps(60):
        yield


def exact(number: DoubleDouble) -> NDArray[Any]:
    high, low = (np.vectorize(mpf, otypes=[object])(part) for part in (number.high, number.low))
    return np.asarray(high + low)


def random_numbers(random: np.random.Generator, count: int) -> DoubleDouble:
    high = random.standard_normal(count) * 2.0 ** random.integers(-30, 31, count)
    return DoubleDouble(*two_sum(high, high * random.uniform(-1, 1, count) * 2.0**-53))


numbers = st.floats(-1e100, 1e100).filter(lambda x: x == 0 or abs(x) > 1e-100)


@given(a=numbers, b=numbers)
def test_sums_and_products_split_exactly(a: float, b: float) -> None:
    with mp.workdps(300):
        total, error = two_sum(np.array(a), np.array(b))
        assert mpf(float(total)) + mpf(float(error)) == mpf(a) + mpf(b)
        product, error = two_product(np.array(a), np.array(b))
        assert mpf(float(product)) + mpf(float(error)) == mpf(a) * mpf(b)


def test_an_operation_rounds_by_fifteen_u_squared_at_most() -> None:
    random = np.random.default_rng(0)
    a, b = random_numbers(random, 1_000), random_numbers(random, 1_000)
    x, y = exact(a), exact(b)
    nearly = a + DoubleDouble(-a.high)  # all but the low part cancels
    for got, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (b.high - a, np.vectorize(mpf, otypes=[object])(b.high) - x),
        (nearly, np.vectorize(mpf, otypes=[object])(a.low)),
        ((a * a).sqrt(), abs(x)),
    ):
        error = abs(exact(got) - expected)
        assert (error <= 15 * mpf(2) ** -106 * abs(expected)).all()
    assert DoubleDouble(np.zeros(1)).sqrt().high == 0


def test_the_largest_is_chosen_by_its_low_part_where_that_decides() -> None:
    tie = DoubleDouble(np.array([1.0, 1.0, -3.0]), np.array([1e-20, 2e-20, 5e-20]))
    assert (float(tie.max().high), float(tie.max().low)) == (1.0, 2e-20)


@pytest.mark.parametrize("largest", [1.0, 100.0, 2.0**20, 2.0**50])
def test_cosines_and_sines_are_within_their_error(largest: float) -> None:
    random = np.random.default_rng(int(math.log2(largest)))
    positions = np.round(random.uniform(-largest, largest, 24) * 4) / 4
    inv_freq = np.append(random.uniform(0, 1, 13), [1.0, -1.0, 0.0])
    expected = rotation.cos_sin(positions, inv_freq)
    for got, right in zip(cos_sin(positions, inv_freq), expected, strict=True):
        assert max(abs(exact(got) - right).ravel()) < double_double.ERROR


def test_angles_at_which_a_quarter_turn_all_but_cancels() -> None:
    # Near multiples of pi / 2 by continued fractions (the first one is off by 2.6e-16), and zero.
    positions = np.array([214112296674652.0, 355.0, 11.0, 0.0, -355.0])
    right = rotation.cos_sin(positions, np.array([0.5, 1.0]))
    for got, expected in zip(cos_sin(positions, np.array([0.5, 1.0])), right, strict=True):
        assert max(abs(exact(got) - expected).ravel()) < double_double.ERROR


def test_beyond_the_largest_angle_verify_computes_in_forty_digits() -> None:
    rope = Rotary.from_inv_freq([2.0**8, 1e-3], head_dim=4)
    assert verify(rope, dtype="float64", max_position=2**49).passed


def test_verify_says_when_its_reference_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(double_double, "QUARTER_TURN", (math.pi / 2, 0.0, 0.0))
    with pytest.raises(ArithmeticError, match=r"the reference is off by .* at the angle"):
        verify(Rotary(head_dim=8), dtype="float64")


# Abel summation.


def by_hand(q: Array, k: Array, distance: float, inv_freq: Array, pairs: Any) -> dict[str, Any]:
    """Eq. 35-37 for one distance, in mpmath."""
    h = [mpc(float(q[a]), float(q[b])) * mpc(float(k[a]), -float(k[b])) for a, b in pairs]
    turns = [mp.expj(mpf(float(distance)) * mpf(float(theta))) for theta in inv_freq]
    sums = [sum(turns[: j + 1], mpc(0)) for j in range(len(turns))]
    steps = [after - before for before, after in zip(h, [*h[1:], mpc(0)], strict=True)]
    sizes = [abs(s) for s in sums]
    return {
        "score": mp.re(sum(a * b for a, b in zip(h, turns, strict=True))),
        "mean": sum(sizes) / len(sizes),
        "abel": sum(size * abs(step) for size, step in zip(sizes, steps, strict=True)),
        "most": max(abs(step) for step in steps) * sum(sizes),
    }


def test_scores_and_bounds_are_those_of_mpmath() -> None:
    random = np.random.default_rng(1)
    inv_freq, pairs = 10_000.0 ** (-np.arange(16) / 16), rotation.pairs_of("half", 32)
    distances = np.array([0.0, 1.0, 17.5, 4096.0, 131_072.0, 2.0**48])
    q, k = random.standard_normal((2, len(distances), 32))
    turn, h = cos_sin(distances, inv_freq), abel.products(q, k, pairs)
    found = {
        "score": abel.score(turn, h),
        "by parts": abel.score_by_parts(turn, h),
        **dict(zip(("abel", "most"), abel.bounds(turn, h), strict=True)),
    }
    mean = abel.relative_upper_bound(turn)
    for row, distance in enumerate(distances):
        right = by_hand(q[row], k[row], distance, inv_freq, pairs)
        right["by parts"] = right["score"]
        for name, got in found.items():
            # At most 16^2 terms of size 2 or so, each with the error of its cosine.
            assert abs(exact(got[[row]])[0] - right[name]) < mpf(2) ** -84, (name, distance)
        assert abs(mean[row] - right["mean"]) < 2.0**-50


def test_partial_sums_by_hand() -> None:
    # At distance pi with frequencies 1 and 2: S_1 = -1 and S_2 = -1 + 1 = 0.
    turn = cos_sin(np.array([math.pi]), np.array([1.0, 2.0]))
    real, imaginary = abel.partial_sums(turn)
    # pi rounded to float64 is off by 1.2e-16, twice that for the second frequency.
    assert abs(real.high[0] - [-1.0, 0.0]).max() < 1.3e-16
    assert abs(imaginary.high).max() < 4e-16
    assert abs(abel.relative_upper_bound(turn)[0] - 0.5) < 4e-16


def test_the_score_at_distance_0_is_the_inner_product() -> None:
    q, k = np.array([[1.0, 2.0, 3.0, 4.0]]), np.array([[5.0, 6.0, 7.0, 8.0]])
    h = abel.products(q, k, rotation.pairs_of("interleaved", 4))
    assert abel.score(cos_sin(np.zeros(1), np.array([1.0, 0.5])), h).high == [70]
