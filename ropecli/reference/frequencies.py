"""Frequency tables from their printed formulas, in mpmath."""

from __future__ import annotations

from mpmath import mp, mpf

DIGITS = 40


def default(*, base: float, rotary_dim: int) -> list[mpf]:
    """theta_i = base^(-2i/d), i from 0 (RoFormer Eq. 15, whose i runs from 1)."""
    with mp.workdps(DIGITS):
        return [mpf(base) ** (-2 * mpf(i) / rotary_dim) for i in range(rotary_dim // 2)]


def linear(*, base: float, rotary_dim: int, factor: float) -> list[mpf]:
    """Position interpolation: f(x, m L/L') turns by m theta_i L/L' (arXiv:2306.15595, Eq. 4)."""
    with mp.workdps(DIGITS):
        return [theta / mpf(factor) for theta in default(base=base, rotary_dim=rotary_dim)]
