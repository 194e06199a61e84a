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


def rounded(values: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Numbers of mpmath to the nearest of a dtype, ties to even, in one rounding."""
    with mp.workdps(DIGITS):
        nearest = [
            _nearest(value, SIGNIFICAND_BITS[dtype], LEAST_EXPONENT[dtype])
            for value in values.ravel()
        ]
    out: NDArray[Any] = np.array(nearest, dtype=np.float64).reshape(values.shape)
    return out.astype(DTYPES[dtype])


def _nearest(value: mpf, digits: int, least: int) -> float:
    """The value to so many binary digits, or to a multiple of 2^least where that is coarser."""
    if not value:
        return 0.0
    step = max(int(mp.mag(value)) - digits, least)
    return float(mp.ldexp(mp.nint(mp.ldexp(value, -step)), step))


def rotated(x: Array, positions: Array, inv_freq: Array, facts: Mapping[str, Any]) -> NDArray[Any]:
    """R_m x in 40 digits.

    Args:
        x: (heads, sequence, head_dim).
        positions: (sequence,), or (sequence, axes).
        inv_freq: (pairs,).
        facts: Direction, pairs and factors as they stand in the case.
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
    """cos and sin, each (sequence, pairs)."""
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


def attention_factor(rope_type: str, parameters: Mapping[str, Any]) -> float:
    """What cos and sin carry, from the formulas as printed.

    YaRN 0.1 ln s + 1 (arXiv:2309.00071, Eq. 22), TeleChat3 0.07 ln s + 1, DeepSeek the ratio of
    two such (its code), LongRoPE sqrt(1 + ln s / ln L0) (arXiv:2402.13753, section 3.3).
    """
    with mp.workdps(DIGITS):
        if rope_type == "longrope":
            original = mpf(parameters["original_max_position_embeddings"])
            scale = parameters["max_position_embeddings"] / original
            return float(mp.sqrt(1 + mp.log(scale) / mp.log(original)))
        if rope_type == "yarn":
            return float(_m(parameters["factor"], 1))
        if rope_type == "telechat3_yarn":
            return float(_m(parameters["factor"], mpf(7) / 10))
        if rope_type == "deepseek_yarn":
            scale, all_dim = parameters["factor"], parameters["mscale_all_dim"]
            return float(_m(scale, mpf(parameters["mscale"])) / _m(scale, mpf(all_dim)))
        return 1.0


def softmax_factor(rope_type: str, parameters: Mapping[str, Any]) -> float:
    """What the score carries beside the rotation: DeepSeek's m(s, mscale_all_dim)^2."""
    if rope_type != "deepseek_yarn":
        return 1.0
    with mp.workdps(DIGITS):
        return float(_m(parameters["factor"], mpf(parameters["mscale_all_dim"])) ** 2)


def _m(scale: float, k: mpf) -> mpf:
    return mpf(k) * mp.log(mpf(scale)) / 10 + 1


def growth(rope_type: str, role: str, dim: int, parameters: Mapping[str, Any]) -> Array | None:
    """xPos: ln((2i/d + gamma) / (1 + gamma)) / scale_base (arXiv:2212.10554), less for keys."""
    if rope_type != "xpos":
        return None
    with mp.workdps(DIGITS):
        gamma, scale_base = mpf(parameters["gamma"]), mpf(parameters["scale_base"])
        rates = [
            mp.log((mpf(2 * i) / dim + gamma) / (1 + gamma)) / scale_base for i in range(dim // 2)
        ]
    return (-1 if role == "key" else 1) * np.array([float(rate) for rate in rates])
