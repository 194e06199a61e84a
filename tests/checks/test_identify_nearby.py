"""Vectors that a usual RoPE explains at other positions, or but for noise, are refused with it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from rotated import normals

from ropecli import Identification, Rotary, identify, rotate

Array = NDArray[np.float64]

ROPE = Rotary(head_dim=32, base=500_000.0, layout="half")
X = normals(3, 96, 32, dtype="float32")
MISSING = np.delete(np.arange(126), slice(40, 70))
SHUFFLED = np.random.default_rng(0).permutation(96)


@pytest.mark.parametrize(("positions", "row"), [(MISSING, 40), (SHUFFLED, 0), (MISSING[::-1], 0)])
def test_rows_at_other_positions(positions: NDArray[np.int64], row: int) -> None:
    found = identify(X, rotate(X, ROPE, positions))
    assert not found.recognised
    assert found.positions is not None
    assert found.positions.tolist() == positions.tolist()
    assert f"row {row} is rotated by position {positions[row]}" in str(found.reason)
    assert "half layout, base 500000" in str(found.reason)
    assert identify(X, rotate(X, ROPE, positions), positions).recognised


@pytest.mark.parametrize("size", [0.01, 0.05])
def test_noise(size: float) -> None:
    noise = size * normals(*X.shape, dtype="float32", seed=1)
    found = identify(X, rotate(X, ROPE) + noise)
    assert not found.recognised
    assert f"near a rotation (half layout, base 500000), but off by {size:g}" in str(found.reason)


def test_what_no_usual_rope_explains_keeps_its_reason() -> None:
    odd = rotate(X, Rotary(head_dim=32, base=777.0, layout="half"), SHUFFLED)
    for after in (odd, normals(*X.shape, dtype="float32", seed=2)):
        assert "layout, base" not in str(identify(X, after).reason)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_of_eight_bits(dtype: str) -> None:
    x = X.astype(dtype)
    found: Identification = identify(x, rotate(x, ROPE).astype("float8_e4m3fn").astype(dtype))
    assert (found.recognised, found.precision) == (True, "float8_e4m3fn arithmetic")
    assert (found.layout, found.base) == ("half", 500_000.0)


def test_vectors_of_two_bits_of_fraction_are_too_coarse() -> None:
    found = identify(X, rotate(X, ROPE).astype("float8_e5m2").astype("f4"))
    assert "layout, base 500000), but off by 0.0" in str(found.reason)
    assert str(found.reason).endswith(": they keep to float8_e5m2")
