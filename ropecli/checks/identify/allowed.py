"""How far single vectors may be off what explains most of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.precision import (
    HALVES,
    ROUNDINGS,
    angle_roundings,
)
from ropecli.checks.identify.scaled import FACTOR
from ropecli.checks.identify.table import CLEARLY, roundings
from ropecli.units import DOUBLE, SINGLE

if TYPE_CHECKING:
    from ropecli.checks.identify.explanation import Explanation
    from ropecli.checks.identify.measured import Measured
    from ropecli.checks.identify.pairing import Pairing
    from ropecli.checks.identify.sight import Given, Sight

_FAR = 0.05  #: Of a pair's length: no rounding in full precision brings a vector so far off.
_FAR_IN_HALF = 0.5  #: The same in half precision, where the partner of a slow pair may be missed.


def allowed(
    data: Given, seen: Measured, found: Explanation, precision: str, furthest: float
) -> float:
    """How far a vector may be off, of its pair's length, for what explains the others to be right.

    Args:
        data: The arrays.
        seen: What was measured.
        found: What explains most of them.
        precision: Its name.
        furthest: The largest position in magnitude.
    """
    if is_half(precision):
        return np.inf
    if data.unit > SINGLE:
        return _FAR_IN_HALF
    # What turns the vectors of a position alike is off by so many roundings, and each from that.
    vectors = 2 * ROUNDINGS * data.unit + abs(found.factor / seen.pairing.factor - 1)
    angles = float((angle_roundings(found.table) * found.table).max()) * furthest
    if found.fit is None or not found.fit.is_round:
        sharpness = seen.uncertainty[seen.visible].max(initial=0.0) / found.step
        vectors += CLEARLY * float(sharpness) * furthest
    if precision == "exact":
        return vectors + 2 * DOUBLE * angles
    if precision == "float32 angles":
        return vectors + 2 * SINGLE + SINGLE * angles  # cos and sin are rounded too
    return _FAR


def is_half(precision: str) -> bool:
    """Whether anything was rounded to half precision."""
    return any(half in precision for half in HALVES)


def factor_of(pairing: Pairing, sight: Sight) -> tuple[float, float]:
    """The attention factor, 1 where rounding can't tell it from 1; and how well it is known.

    It is a mean over all rows, known to four standard deviations of that, relative. Tables in
    float32 may show under float64 data: an attention factor and cos and sin, each rounded.
    """
    deviation = max(sight.unit, pairing.spread) / math.sqrt(len(sight.positions))
    sure = max(4 * deviation, 2 * SINGLE)
    if abs(pairing.factor - 1) <= sure:
        return 1.0, sure
    return roundings(pairing.factor, sure / 4)[0], sure


def factors_alike(sight: Sight, precision: str, sure: float) -> float:
    """Up to which relative difference two attention factors are the same.

    A formula's is taken where it is within four times what is sure; no factor is known better than
    the tables in half precision that it may be multiplied by.
    """
    return FACTOR if sight.unit > SINGLE or is_half(precision) else 4 * sure
