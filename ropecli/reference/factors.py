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


def yarn(
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    **_table: Any,
) -> Factors:
    """0.1 ln s + 1 (arXiv:2309.00071, Eq. 22); in the released code also a ratio, or as given."""
    if attention_factor is not None:
        return Factors(attention=mpf(attention_factor))
    scale = _stretch(factor, max_position_embeddings, original_max_position_embeddings)
    if mscale and mscale_all_dim:  # one of them alone, or 0, counts for nothing
        return Factors(attention=_m(scale, mscale) / _m(scale, mscale_all_dim))
    return Factors(attention=_m(scale, 1))


def telechat3_yarn(*, factor: float, **_table: Any) -> Factors:
    """0.07 ln s + 1, from the released code."""
    return Factors(attention=_m(mpf(factor), mpf(7) / 10))


def deepseek_yarn(
    *, factor: float, mscale: float = 1.0, mscale_all_dim: float = 0.0, **_table: Any
) -> Factors:
    """m(s, mscale) / m(s, mscale_all_dim), and its denominator squared on the score."""
    all_dim = _m(mpf(factor), mscale_all_dim)
    return Factors(attention=_m(mpf(factor), mscale) / all_dim, softmax=all_dim**2)


def longrope(
    *,
    original_max_position_embeddings: int,
    factor: float | None = None,
    max_position_embeddings: int | None = None,
    attention_factor: float | None = None,
    **_table: Any,
) -> Factors:
    """sqrt(1 + ln s / ln L0), 1 where s <= 1 (arXiv:2402.13753, section 3.3), or as given."""
    if attention_factor is not None:
        return Factors(attention=mpf(attention_factor))
    scale = _stretch(factor, max_position_embeddings, original_max_position_embeddings)
    if scale <= 1:
        return Factors()
    return Factors(attention=mp.sqrt(1 + mp.log(scale) / mp.log(original_max_position_embeddings)))


def xpos(*, dim: int, gamma: float = 0.4, scale_base: float = 512.0, **_table: Any) -> Factors:
    """ln((2i/d + gamma) / (1 + gamma)) / scale_base for pair i (arXiv:2212.10554)."""
    floor, per = mpf(gamma), mpf(scale_base)
    growth = (mp.log((mpf(2 * i) / dim + floor) / (1 + floor)) / per for i in range(dim // 2))
    return Factors(growth=tuple(growth))


def _m(scale: mpf, k: float | mpf) -> mpf:
    """0.1 k ln s + 1, and 1 for a context that is not longer."""
    return mpf(k) * mp.log(scale) / 10 + 1 if scale > 1 else mpf(1)


def _stretch(factor: float | None, longest: int | None, original: int) -> mpf:
    """s, or where it is not given the context length over the original one."""
    if factor is not None:
        return mpf(factor)
    assert longest is not None
    return mpf(longest) / original
