"""The oracle against rows computed by hand, and its forms against each other."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within
from mpmath import mp, mpf

from ropecli.reference import float64, frequencies, rotation
from ropecli.units import DOUBLE


def test_cos_and_sin_are_right_to_forty_digits() -> None:
    cosine, sine = rotation.cos_sin(np.array([1.0]), np.array([1.0]))
    with mp.workdps(45):
        # cos 1 and sin 1, printed digits of the OEIS entries A049470 and A049469.
        assert abs(cosine[0, 0] - mpf("0.5403023058681397174009366074429766037323")) < mpf("1e-39")
        assert abs(sine[0, 0] - mpf("0.8414709848078965066525023216302989996226")) < mpf("1e-39")


def test_the_angle_is_not_rounded() -> None:
    # 3 * 0.1 rounds to 0.30000000000000004 in float64; the reference multiplies exactly.
    cosine, _ = rotation.cos_sin(np.array([3.0]), np.array([0.1]))
    with mp.workdps(45):
        assert abs(cosine[0, 0] - mp.cos(3 * mpf(0.1))) < mpf("1e-39")
        assert abs(cosine[0, 0] - mp.cos(mpf(3 * 0.1))) > mpf("1e-18")


@pytest.mark.parametrize(
    ("layout", "expected"),
    [("interleaved", [[1, 2], [3, 4]]), ("half", [[1, 3], [2, 4]])],
)
def test_pairs(layout: str, expected: list[list[int]]) -> None:
    assert rotation.pairs_of(layout, 4, 1).tolist() == expected


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_the_forms_agree(layout: str) -> None:
    random = np.random.default_rng(0)
    x, positions = random.standard_normal((5, 8)), np.array([0.0, 1.0, -3.0, 0.25, 1e6])
    pairs = rotation.pairs_of(layout, 6, 1)
    table = rotation.cos_sin(positions, np.array([1.0, 0.1, 0.01]))
    exact = rotation.elementwise(x, *table, pairs, 1.25).astype(np.float64)
    cosine, sine = (each.astype(np.float64) for each in table)
    size = 1.25 * np.abs(x).max()
    # Five roundings of at most u each, and sqrt 2 from a pair's length to its coordinates.
    allowed = 5 * 2.0**-53 * np.sqrt(2) * size * 2
    by_complex = rotation.as_complex(x, cosine, sine, pairs, 1.25)
    assert_within("Eq. 12", got=by_complex, expected=exact, tolerance=allowed)
    for row in range(5):
        matrix = rotation.matrix(cosine[row], sine[row], pairs, 8, 1.25)
        assert_within("Eq. 15", got=matrix @ x[row], expected=exact[row], tolerance=allowed)
        c, s = float(cosine[row, 0]), float(sine[row, 0])
        planar = rotation.planar(x[row, pairs[0]], c, s, 1.25)
        assert_within("Eq. 13", got=planar, expected=exact[row, pairs[0]], tolerance=allowed)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_the_float64_rotation_is_as_near_to_the_exact_one_as_it_says(layout: str) -> None:
    random = np.random.default_rng(1)
    x = random.standard_normal((64, 8))
    positions = np.concatenate([np.arange(32.0), random.integers(-(2**20), 2**20, 32)])
    inv_freq, pairs = np.array([1.0, 0.1, 0.01]), rotation.pairs_of(layout, 6, 1)
    exact = rotation.elementwise(x, *rotation.cos_sin(positions, inv_freq), pairs, 1.25)
    angles = float64.angles(positions, inv_freq)
    got = float64.rotate(x, angles, pairs_in=pairs, pairs_out=pairs, factor=1.25)
    error = np.linalg.norm((got - exact).astype(np.float64)[:, pairs], axis=2)
    length = 1.25 * np.linalg.norm(x[:, pairs], axis=2)
    assert (error <= (np.abs(angles) + 5) * DOUBLE * length).all()
    assert (got[:, [0, 7]] == x[:, [0, 7]]).all()


def test_the_float64_rotation_follows_axes_direction_and_written_pairs() -> None:
    quarter = np.pi / 2
    points = np.array([[1.0, 0.0], [0.0, 1.0]])
    angles = float64.angles(points, quarter * np.eye(2), direction="reversed")
    assert (angles == [[-quarter, 0], [0, -quarter]]).all()
    x = np.array([[1.0, 2.0, 3.0, 4.0]])
    read, written = rotation.pairs_of("interleaved", 4), rotation.pairs_of("half", 4)
    got = float64.rotate(x, angles[:1], pairs_in=read, pairs_out=written, factor=2.0)
    # The pair (1, 2) turned back by a quarter is (2, -1); the pair (3, 4) stays.
    assert_within("written pairs", got=got, expected=[[4, 6, -2, 8]], tolerance=20 * DOUBLE)


def test_frequencies_by_hand() -> None:
    assert [float(f) for f in frequencies.default(base=16.0, dim=4)] == [1.0, 0.25]
    assert [float(f) for f in frequencies.linear(base=16.0, dim=4, factor=2.0)] == [
        0.5,
        0.125,
    ]
