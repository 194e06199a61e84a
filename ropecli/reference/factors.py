"""Parameters of rope types besides frequencies: factors on attention and score, and growth.

Each function has the name of a rope type, and takes its parameters by their names in config.json;
a type without a function here has factors of 1 and no growth. Factors have 40 digits.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from mpmath import mp, mpf

from ropecli.reference.frequencies import DIGITS


@dataclass(frozen=True, kw_only=True)
class Factors:
    """Factors of one encoding."""

    attention: mpf | int = 1  #: Multiplies cos and sin.
    softmax: mpf | int = 1  #: Multiplies the score.
    growth: tuple[mpf, ...] | None = None  #: Logarithm of a query's growth per position, by pair.


def factors(rope_type: str, **parameters: Any) -> Factors:
    """Return the factors of a rope type with these parameters, dim among them."""
    formula = getattr(sys.modules[__name__], rope_type, None)
    if formula is None:
        return Factors()
    with mp.workdps(DIGITS):
        result: Factors = formula(**parameters)
        return result


def yarn(*, factor: float, **_table: Any) -> Factors:
    """0.1 ln s + 1 (arXiv:2309.00071, Eq. 22)."""
    return Factors(attention=_mscale(factor, 1))


def telechat3_yarn(*, factor: float, **_table: Any) -> Factors:
    """0.07 ln s + 1, from the released code."""
    return Factors(attention=_mscale(factor, mpf(7) / 10))


def deepseek_yarn(*, factor: float, mscale: float, mscale_all_dim: float, **_table: Any) -> Factors:
    """m(s, mscale) / m(s, mscale_all_dim), and its denominator squared on the score."""
    all_dim = _mscale(factor, mscale_all_dim)
    return Factors(attention=_mscale(factor, mscale) / all_dim, softmax=all_dim**2)


def longrope(
    *, original_max_position_embeddings: int, max_position_embeddings: int, **_table: Any
) -> Factors:
    """sqrt(1 + ln s / ln L0), s = Lmax / L0 (arXiv:2402.13753, section 3.3)."""
    original = mpf(original_max_position_embeddings)
    scale = max_position_embeddings / original
    return Factors(attention=mp.sqrt(1 + mp.log(scale) / mp.log(original)))


def xpos(*, dim: int, gamma: float, scale_base: float, **_table: Any) -> Factors:
    """ln((2i/d + gamma) / (1 + gamma)) / scale_base for pair i (arXiv:2212.10554)."""
    floor, per = mpf(gamma), mpf(scale_base)
    growth = (mp.log((mpf(2 * i) / dim + floor) / (1 + floor)) / per for i in range(dim // 2))
    return Factors(growth=tuple(growth))


def _mscale(scale: float, k: float | mpf) -> mpf:
    return mpf(k) * mp.log(mpf(scale)) / 10 + 1
