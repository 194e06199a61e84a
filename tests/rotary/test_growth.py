"""xPos: vectors turn and change their length with position."""

from __future__ import annotations

import numpy as np
import pytest

from ropecli import ArgumentError, decay, rope, rotate, verify

RNG = np.random.default_rng(9)


def test_scores_depend_on_distance_alone_and_shrink_with_it() -> None:
    made = rope("xpos", head_dim=16)
    q, k = RNG.standard_normal((2, 16))
    m, n = 700.0, 450.0

    def score(m: float, n: float) -> float:
        left = rotate(q[None], made, [m])[0]
        return float(left @ rotate(k[None], made.for_keys, [n])[0])

    # z^(m/512) z^(-n/512): at most e^(0.0025 * 700) from 1, with a few ulps each.
    assert score(m, n) == pytest.approx(score(m + 1000, n + 1000), rel=1e-12, abs=1e-12)
    pair = (q[0] + 1j * q[1]) * np.conj(k[0] + 1j * k[1])
    alone = np.zeros(16)
    alone[:2] = q[:2]
    left = rotate(alone[None], made, [m])[0]
    expected = (pair * np.exp(1j * (m - n))).real * (0.4 / 1.4) ** ((m - n) / 512)
    got = float(left @ rotate(k[None], made.for_keys, [n])[0])
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_back_again(dtype: str) -> None:
    made = rope("xpos", head_dim=16, layout="half")
    x = RNG.standard_normal((2, 300, 16)).astype(dtype)
    there = rotate(x, made)
    back = rotate(there, made, inverse=True)
    # A rounding to the dtype each way, of pairs that have shrunk by up to (0.4/1.4)^(299/512).
    unit = {"float64": 2**-46, "float32": 2**-24, "float16": 2**-11}[dtype]
    assert np.abs(back - x).max() <= 4 * unit * np.abs(x).max()
    assert there.dtype == x.dtype


def test_in_place_gives_the_same_bits() -> None:
    made = rope("xpos", head_dim=8)
    x = RNG.standard_normal((5, 8)).astype(np.float32)
    fresh = rotate(x, made)
    assert rotate(x, made, out=x).tobytes() == fresh.tobytes()


def test_laws_of_rotations_are_not_its_own() -> None:
    made = rope("xpos", head_dim=8)
    with pytest.raises(ArgumentError, match="xPos is not a rotation"):
        verify(made)
    with pytest.raises(ArgumentError, match="for rotations"):
        decay(made)
