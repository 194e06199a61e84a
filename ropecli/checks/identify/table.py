"""A table of frequencies as it was measured, and how well another one fits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.units import DOUBLE, SINGLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

CLEARLY = 6.0  #: Standard deviations that chance does not bring about.
#: Relative error of base^(-2i/d) / factor in float32, as released code has it: the exponent's
#: rounding times ln(base), the power's and the division's own; for bases up to e^20.
FLOAT32 = 28 * SINGLE

_DIGITS = 4  #: More, and chance brings a round number about.


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Frequencies in the order of a table, forward ones above 0."""

    theta: Array  #: (pairs,), radians per position.
    uncertainty: Array  #: (pairs,), one standard deviation.
    relative: float  #: Relative error that a table computed in lower precision may have.
    head_dim: int  #: Coordinates of a head.
    axis: NDArray[np.int64]  #: (pairs,), the coordinate of the position that turns each.

    @property
    def tolerance(self) -> Array:
        """How far a table may be off."""
        return CLEARLY * self.uncertainty + self.relative * np.abs(self.theta)

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Pairs that clearly turn."""
        return np.abs(self.theta) > CLEARLY * self.uncertainty

    def off(self, table: Array) -> float:
        """The largest difference as a share of the tolerance: up to 1 is a fit."""
        if len(table) != len(self.theta):
            return np.inf
        return float((np.abs(table - self.theta) / self.tolerance).max(initial=0.0))


def geometric_start(seen: Seen) -> tuple[float, float, int] | None:
    """ln of the first frequency, ln of the ratio of neighbours, and how many pairs keep to it.

    Every scaling leaves the fastest pairs in one ratio. None where fewer than two are seen.
    """
    usable = int(np.argmin(seen.visible)) if not seen.visible.all() else len(seen.theta)
    usable = min(usable, int((seen.theta > 0).argmin()) if (seen.theta <= 0).any() else usable)
    if usable < 2:
        return None
    log = np.log(seen.theta[:usable])
    relative = seen.tolerance[:usable] / seen.theta[:usable]
    sure = seen.uncertainty[:usable] / seen.theta[:usable] + 2 * DOUBLE
    kept, found = 2, _through(log[:2], sure[:2])
    for count in range(3, usable + 1):
        start, step = _through(log[:count], sure[:count])
        if (np.abs(log[:count] - start - step * np.arange(count)) > relative[:count]).any():
            break
        kept, found = count, (start, step)
    return (*found, kept)


def _through(log: Array, relative: Array) -> tuple[float, float]:
    """A line through logarithms, the surer ones counting more."""
    weight = 1 / relative
    rows = np.column_stack([np.ones(len(log)), np.arange(len(log))])
    start, step = np.linalg.lstsq(rows * weight[:, None], log * weight, rcond=None)[0]
    return float(start), float(step)


def roundings(value: float, tolerance: float) -> list[float]:
    """Numbers within a relative tolerance, the roundest first, the value itself last."""
    if not np.isfinite(value) or value <= 0:
        return [value]
    tried = [float(f"{value:.{digits}e}") for digits in range(_DIGITS)]
    if value * tolerance < 1:
        tried.append(float(round(value)))
    near = [number for number in tried if abs(number / value - 1) <= tolerance]
    return list(dict.fromkeys([*near, value]))


def is_round(value: float, digits: int = _DIGITS) -> bool:
    """Whether a number has few digits."""
    return float(f"{value:.{digits - 1}e}") == value


def roundest(value: float, tolerance: float) -> float:
    """The number of fewest digits within a relative tolerance."""
    return roundings(value, tolerance)[0]
