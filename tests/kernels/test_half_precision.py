"""float16 and bfloat16 as bits, against NumPy and ml_dtypes: every value, every tie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numba
import numpy as np
import pytest
from helpers import assert_same_bits
from numpy.typing import NDArray

from ropecli.kernels import half_precision

pytestmark = pytest.mark.slow

KNOWN: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
STORED: dict[str, Any] = {"float16": np.int16, "bfloat16": np.uint16}
ALL = np.arange(2**16, dtype=np.uint16)


@numba.njit
def widen_all(bits, wide):  # type: ignore[no-untyped-def]
    for j in range(bits.size):
        wide[j] = half_precision.widen(bits[j])  # type: ignore[no-untyped-call]


@numba.njit
def narrow_all(wide, bits):  # type: ignore[no-untyped-def]
    for j in range(bits.size):
        bits[j] = half_precision.narrow(wide[j], bits[j])  # type: ignore[no-untyped-call]


def widen(name: str, bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    wide = np.empty(bits.size, np.float32)
    with np.errstate(over="ignore"):
        widen_all(bits.view(STORED[name]), wide)
    return wide


def narrow(name: str, wide: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = np.empty(wide.size, STORED[name])
    with np.errstate(over="ignore"):
        narrow_all(wide, bits)
    return bits.view(np.uint16)


def assert_narrows_alike(name: str, wide: NDArray[np.float32]) -> None:
    with np.errstate(over="ignore"):
        expected = wide.astype(KNOWN[name])
    got, number = narrow(name, wide), ~np.isnan(wide)
    assert_same_bits(name, got=got[number], expected=expected.view(np.uint16)[number])
    assert np.isnan(got[~number].view(KNOWN[name]).astype(np.float32)).all()


@pytest.mark.parametrize("name", KNOWN)
def test_every_value_is_widened_exactly(name: str) -> None:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = ALL.view(KNOWN[name]).astype(np.float32)
    got, number = widen(name, ALL), ~np.isnan(expected)
    assert_same_bits(name, got=got[number], expected=expected[number])
    assert np.isnan(got[~number]).all()


@pytest.mark.parametrize("name", KNOWN)
def test_values_ties_and_their_neighbours_are_narrowed_alike(name: str) -> None:
    exact = np.unique(ALL.view(KNOWN[name]).astype(np.float32))
    exact = exact[np.isfinite(exact)]
    ties = ((exact[:-1].astype(np.float64) + exact[1:]) / 2).astype(np.float32)
    around = [np.nextafter(ties, np.float32(way)) for way in (-np.inf, np.inf)]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520, 3.4e38], np.float32)
    for values in (exact, ties, *around, special, -special):
        assert_narrows_alike(name, values)


@pytest.mark.parametrize("name", KNOWN)
def test_random_words_are_narrowed_alike(name: str) -> None:
    words = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint64)
    with np.errstate(invalid="ignore"):
        assert_narrows_alike(name, words.astype(np.uint32).view(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_pass_as_they_are(dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(9).astype(dtype)
    wide, back = np.empty_like(x), np.empty_like(x)
    widen_all(x, wide)
    narrow_all(wide, back)
    assert_same_bits("widened", got=wide, expected=x)
    assert_same_bits("narrowed", got=back, expected=x)
