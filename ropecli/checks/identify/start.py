"""Where positions began: phases at 0 are frequencies times the first position (Eq. 30, 33)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.phases import wrapped
from ropecli.checks.identify.table import CLEARLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_TURNS = 64  #: Whole turns of the slowest pair before position 0 that are tried.
_STILL = 2.0**-100  #: Radians per position that nothing can be divided by.
_SURE = 0.5  #: Radians that a guess may be off when the next faster pair refines it.


def start_of(theta: Array, phase: Array, loose: Array, slack: Array | float) -> tuple[float, bool]:
    """The position at which phases begin, and whether it explains them all.

    Slow pairs show it roughly and without whole turns in doubt, faster ones refine it. 0 is taken
    where it explains everything.

    Args:
        theta: (pairs,), radians per position, none of them 0.
        phase: (pairs,), radians at position 0.
        loose: (pairs,), standard deviation of the phases.
        slack: Radians that rounding may add to each.
    """
    allowed = CLEARLY * loose + slack
    if (np.abs(wrapped(phase)) <= allowed).all():
        return 0.0, True
    slowest = int(np.where(np.abs(theta) > _STILL, np.abs(theta), np.inf).argmin())
    first = (0.0, False)
    for turn in sorted(range(-_TURNS, _TURNS + 1), key=abs):
        begin = (phase[slowest] + 2 * np.pi * turn) / theta[slowest]
        found = _refined(float(begin), theta, phase, allowed)
        if found[1]:
            return found
        first = found if turn == 0 else first
    return first


def _refined(guess: float, theta: Array, phase: Array, allowed: Array) -> tuple[float, bool]:
    """A guess from the slowest pair, made better by each faster one that it is sure enough for."""
    off = np.inf
    for pair in np.argsort(np.abs(theta)):
        rate = abs(theta[pair])
        if rate <= _STILL:
            continue  # it shows no position at all
        if np.isfinite(off) and rate * off > _SURE:
            continue
        guess += float(wrapped(phase[pair] - theta[pair] * guess)) / float(theta[pair])
        off = min(off, float(allowed[pair] / rate))
    if np.isfinite(off) and abs(guess - round(guess)) <= off:
        guess = float(round(guess))
    left = np.abs(wrapped(phase - theta * guess))
    return guess, bool(np.isfinite(off) and (left <= allowed + np.abs(theta) * off).all())
