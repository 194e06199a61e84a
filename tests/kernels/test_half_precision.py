"""float16 and bfloat16 as bits, against NumPy and ml_dtypes: every value, every tie."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from helpers import assert_same_bits
from numpy.typing import NDArray

from ropecli.kernels import half_precision

WIDEN = {"float16": half_precision.widen_float16, "bfloat16": half_precision.widen_bfloat16}
NARROW = {"float16": half_precision.narrow_float16, "bfloat16": half_precision.narrow_bfloat16}
KNOWN: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
ALL = np.arange(2**16, dtype=np.uint16)


def widened(name: str, bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    wide = np.empty((1, bits.size), np.float32)
    WIDEN[name](bits[None], 0, wide)
    result: NDArray[np.float32] = wide[0]
    return result


def narrowed(name: str, wide: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = np.empty((1, wide.size), np.uint16)
    NARROW[name](wide[None], 0, bits)
    result: NDArray[np.uint16] = bits[0]
    return result


def assert_narrows_alike(name: str, wide: NDArray[np.float32]) -> None:
    with np.errstate(over="ignore"):
        expected = wide.astype(KNOWN[name])
    got, number = narrowed(name, wide), ~np.isnan(wide)
    assert_same_bits(name, got=got[number], expected=expected.view(np.uint16)[number])
    assert np.isnan(got[~number].view(KNOWN[name]).astype(np.float32)).all()


@pytest.mark.parametrize("name", KNOWN)
def test_every_value_is_widened_exactly(name: str) -> None:
    with np.errstate(invalid="ignore"):  # signalling NaNs
        expected = ALL.view(KNOWN[name]).astype(np.float32)
    got, number = widened(name, ALL), ~np.isnan(expected)
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


@pytest.mark.parametrize("name", KNOWN)
def test_only_the_columns_asked_for_are_touched(name: str) -> None:
    bits = np.arange(12, dtype=np.uint16).reshape(2, 6) + 16_000
    wide = np.empty((2, 3), np.float32)
    WIDEN[name](bits, 2, wide)
    expected = bits.view(KNOWN[name]).astype(np.float32)[:, 2:5]
    assert_same_bits(name, got=wide, expected=expected)
    target = np.zeros((2, 6), np.uint16)
    NARROW[name](wide, 2, target)
    assert target[:, 2:5].tolist() == bits[:, 2:5].tolist()
    assert not target[:, :2].any()
    assert not target[:, 5].any()
