"""Rounding to narrow dtypes by looking through all of their numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.policy import STAGE_DTYPES

Array = NDArray[Any]


@cache
def numbers(dtype: str) -> Array:
    """All finite numbers of a dtype of 8 or 16 bits, rising, 0 once; even ones at even places."""
    kind = STAGE_DTYPES[dtype]
    bits = np.arange(2 ** (8 * kind.itemsize), dtype=f"u{kind.itemsize}")
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = bits.view(kind).astype(np.float64)
    positive = values[: len(values) // 2]
    positive = positive[np.isfinite(positive)]
    return np.concatenate([-positive[:0:-1], positive])


def nearest(values: Any, dtype: str) -> Array:
    """The nearest number of a dtype, ties to an even last bit; beyond all, infinite."""
    x = np.asarray(values, dtype=np.float64)
    if dtype == "float64":
        return x
    if dtype == "float32":
        with np.errstate(over="ignore"):
            return x.astype(np.float32).astype(np.float64)
    all_of_them = numbers(dtype)
    zero = len(all_of_them) // 2
    above = np.searchsorted(all_of_them, x).clip(1, len(all_of_them) - 1)
    low, high = all_of_them[above - 1], all_of_them[above]
    even = np.where((above - zero) % 2 == 0, high, low)
    with np.errstate(invalid="ignore"):  # of infinities, which are replaced below
        closer = np.where(x - low < high - x, low, high)
        result = np.where(x - low == high - x, even, closer)
    largest = all_of_them[-1]
    # Half a unit beyond the largest number rounds to even, which is the next one.
    limit = largest + (largest - all_of_them[-2]) / 2
    beyond = np.abs(x) >= limit if (len(all_of_them) - 1 - zero) % 2 else np.abs(x) > limit
    return np.where(np.isnan(x), x, np.where(beyond, np.copysign(np.inf, x), result))
