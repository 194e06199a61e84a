"""Rotations in 40 digits from the reference, and numbers rounded once to a dtype.

The frequencies and factors of a case are rounded to float64 first and taken as given from there
on: whoever reads them from a file has what its output was computed from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from mpmath import mp, mpf

from ropecli.arrays import DTYPES
from ropecli.reference.rotation import DIGITS, cos_sin, elementwise
from ropecli.units import LEAST_EXPONENT, SIGNIFICAND_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def round_to(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Round mpmath numbers once to the nearest of a dtype, ties to even."""
    with mp.workdps(DIGITS):
        nearest = [
            _nearest(value, SIGNIFICAND_BITS[dtype], LEAST_EXPONENT[dtype])
            for value in values.ravel()
        ]
    out: NDArray[Any] = np.array(nearest, dtype=np.float64).reshape(values.shape)
    return out.astype(DTYPES[dtype])


def _nearest(value: mpf, digits: int, least: int) -> float:
    """Round to a number of binary digits, or to a multiple of 2^least where that is coarser."""
    if not value:
        return 0.0
    step = max(int(mp.mag(value)) - digits, least)
    return float(mp.ldexp(mp.nint(mp.ldexp(value, -step)), step))


def rotate_exactly(
    x: Array, positions: Array, inv_freq: Array, facts: Mapping[str, Any]
) -> NDArray[Any]:
    """Return R_m x in 40 digits.

    Args:
        x: (heads, sequence, head_dim).
        positions: (sequence,), or (sequence, axes).
        inv_freq: (pairs,).
        facts: Direction, pairs and factors of the case.
    """
    sign = -1 if facts["direction"] == "reversed" else 1
    cosine, sine = _turns(positions, sign * inv_freq, facts["axis"])
    before, after = np.array(facts["pairs_in"]), np.array(facts["pairs_out"])
    heads = []
    for head in x:
        turned = elementwise(head, cosine, sine, before, facts["attention_factor"])
        moved = turned.copy()
        moved[:, after] = turned[:, before]
        if facts["growth"] is not None:
            _grow(moved, after, positions, facts["growth"])
        heads.append(moved)
    return np.array(heads)


def _turns(
    positions: Array, inv_freq: Array, axis: list[int] | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return cos and sin, each (sequence, pairs)."""
    if axis is None:
        return cos_sin(positions, inv_freq)
    shape = (len(positions), len(inv_freq))
    cosine, sine = np.empty(shape, dtype=object), np.empty(shape, dtype=object)
    for i, coordinate in enumerate(axis):
        column = cos_sin(positions[:, coordinate], inv_freq[i : i + 1])
        cosine[:, i], sine[:, i] = column[0][:, 0], column[1][:, 0]
    return cosine, sine


def _grow(
    out: NDArray[Any], pairs: NDArray[np.int64], positions: Array, growth: list[float]
) -> None:
    """Multiply pair i at position m by e^(m growth_i), in place."""
    with mp.workdps(DIGITS):
        for n, m in enumerate(positions):
            for pair, rate in zip(pairs, growth, strict=True):
                stretch = mp.exp(mpf(float(m)) * mpf(rate))
                out[n, pair] = [value * stretch for value in out[n, pair]]
