"""Absolute encodings: the laws of sinusoids, their two orders and exponents, and learned tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from numpy.typing import NDArray

from ropecli.encodings import encoding
from ropecli.encodings.types.learned import Learned
from ropecli.encodings.types.sinusoidal import Sinusoidal

DIM = 16
#: A coordinate is off by its angle's error, three roundings by 2^-53 of 200 radians (two of the
#: power, one of the product), and by three of its own; a product has two of them, and a sum has
#: DIM products and a rounding of each.
ALLOWED = DIM * (2 * (3 * 200 + 3) + 1) * 2.0**-53


def build(**options: Any) -> Sinusoidal:
    got = encoding("sinusoidal", model_dim=DIM, **options)
    assert isinstance(got, Sinusoidal)
    return got


def theta() -> NDArray[np.float64]:
    return np.array([10_000.0 ** (-2 * t / DIM) for t in range(DIM // 2)])


def test_first_rows_as_the_paper_writes_them() -> None:
    got = encoding("sinusoidal", model_dim=4, heads=2)
    assert isinstance(got, Sinusoidal)
    # theta is 1 and 10000^(-2/4) = 0.01.
    expected = [[0, 1, 0, 1], [np.sin(1), np.cos(1), np.sin(0.01), np.cos(0.01)]]
    assert_within("code", got=got.code([0, 1]), expected=expected, tolerance=4 * 2.0**-53)


def test_last_wavelength_of_either_exponent() -> None:
    # Half of the last wavelength turns (0, 1) into (0, -1): 10000 for one, 10000^(14/16) for other.
    for exponent, longest in (("2t/(d-2)", 10_000.0), ("2t/d", 10_000 ** (14 / 16))):
        last = build(exponent=exponent).code([np.pi * longest])[0, -2:]
        # The angle is pi, rounded at most five times.
        assert_within(exponent, got=last, expected=[0, -1], tolerance=5 * np.pi * 2.0**-52)


def test_two_coordinates_have_one_frequency_whichever_exponent() -> None:
    got = encoding("sinusoidal", model_dim=2, heads=1, exponent="2t/(d-2)")
    assert isinstance(got, Sinusoidal)
    assert_within("code", got=got.code([3]), expected=[[np.sin(3), np.cos(3)]], tolerance=2.0**-52)


def test_norm_and_inner_product() -> None:
    positions = np.arange(0, 200, 7)
    p = build().code(positions)
    distance = positions[:, None] - positions
    expected = np.cos(distance[:, :, None] * theta()).sum(axis=2)
    assert_within("p_m . p_n", got=p @ p.T, expected=expected, tolerance=ALLOWED)
    norms = (p * p).sum(axis=1)
    assert_within("|p|^2", got=norms, expected=np.full(len(p), DIM / 2), tolerance=ALLOWED)


def test_a_shift_is_a_matrix() -> None:
    positions, shift = np.arange(100), 37
    matrix = np.zeros((DIM, DIM))
    for t, angle in enumerate(shift * theta()):
        c, s = np.cos(angle), np.sin(angle)
        matrix[2 * t : 2 * t + 2, 2 * t : 2 * t + 2] = [[c, s], [-s, c]]
    p, shifted = build().code(positions), build().code(positions + shift)
    assert_within("M_k p_m", got=p @ matrix.T, expected=shifted, tolerance=ALLOWED)


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_values_are_made_of_token_and_position(name: str) -> None:
    made = encoding(name, model_dim=DIM, heads=2)
    assert isinstance(made, Sinusoidal | Learned)
    x = np.random.default_rng(0).standard_normal((5, DIM))
    positions = np.arange(5)
    attention = np.tile(np.eye(5), (2, 1, 1))  # each query takes one value
    with_position = x + made.code(positions)
    assert_within(
        "Eq. 3",
        got=made.output(attention, x, positions, positions),
        expected=with_position @ made.weights["value"],
        tolerance=0,
    )
