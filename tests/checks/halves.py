"""Rotations in the half-split layout to break in one place, and what `check` says of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import ropecli
from ropecli.checks.implementation import Verdict
from ropecli.checks.implementation.check import check
from ropecli.checks.law import Check

Array = NDArray[Any]

DIM = 32
CONTEXT = 4096
HALF = ropecli.Rotary(head_dim=DIM, layout="half")


def table(base: float = 10_000.0) -> Array:
    return np.asarray(base ** (-np.arange(0, DIM, 2) / DIM))


THETA = table()


def turn(x: Array, positions: Any, theta: Array = THETA, factor: Any = 1.0) -> Array:
    """A right one; the factor is a number, or one for each row."""
    angle = np.asarray(positions, np.float64)[..., None] * theta
    factor = np.asarray(factor, float)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
        factor = factor[:, None] if factor.ndim == 3 else factor
    return turned(x, angle, factor)


def rotate_half(x: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([-b, a], axis=-1)


def turned(x: Array, angle: Array, factor: Any = 1.0) -> Array:
    """By the angle of each pair."""
    cosine, sine = factor * np.cos(angle), factor * np.sin(angle)
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], axis=-1).astype(x.dtype)


class Module:
    """A right one with a base of its own."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, table(self.base))


def judged(target: Any, **options: Any) -> Verdict:
    return check(target, **({"head_dim": DIM, "context_length": CONTEXT} | options))


def judged_once(target: Any, **options: Any) -> Verdict:
    """In float32 alone."""
    return judged(target, **({"dtypes": ["float32"]} | options))


def failed(verdict: Verdict) -> list[str]:
    return [each.name for each in verdict.checks if each.passed is False]


def assert_failed(verdict: Verdict, law: str) -> Check:
    """The failure of that law."""
    names = failed(verdict)
    assert law in names, f"{law} must fail, got {names or 'nothing'}"
    return next(each for each in verdict.checks if each.name == law and each.passed is False)
