"""Where the pairs end, and which way they turn."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.identify.table import CLEARLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.measured import Measured
    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]

_LONGER = 1e-3  #: Attention factors further from 1 show in every coordinate that is rotated.


def ended(seen: Measured, sight: Sight) -> Measured:
    """Without the pairs at an open end that stand still where the ratio of pairs has them turn."""
    last = int(np.flatnonzero(seen.found).max()) + 1
    if not seen.open_end or last == len(seen.found):
        return seen
    moved: NDArray[np.bool_] = np.any(seen.pairing.moved[seen.read], axis=1)
    moved[np.arange(len(moved)) < last] = True
    moving = int(np.flatnonzero(moved).max()) + 1
    expected = extrapolated(seen)
    # What is rotated is longer, too, by an attention factor; and one pair alone has no ratio.
    if abs(seen.pairing.factor - 1) > _LONGER or expected is None:
        return _cut(seen, moving)
    still = (expected > CLEARLY * seen.uncertainty) & ~seen.visible
    still |= ~moved & (expected * _away(seen, sight) > CLEARLY * sight.unit)
    still &= np.arange(len(still)) >= moving
    return _cut(seen, int(still.argmax()) if still.any() else len(still))


def _away(seen: Measured, sight: Sight) -> Array:
    """How far from 0 most positions of each pair are, where they are known and begin there."""
    begun = np.abs(seen.intercept) <= CLEARLY * seen.loose
    if not sight.known or not begun[seen.visible].all():
        return np.zeros(len(seen.axis))
    return np.asarray(np.median(np.abs(seen.positions), axis=0)[seen.axis])


def _cut(seen: Measured, end: int) -> Measured:
    names = [
        "read",
        "written",
        "found",
        "slope",
        "intercept",
        "uncertainty",
        "loose",
        "axis",
        "apart",
        "mirrored",
    ]
    cut: dict[str, Any] = {name: getattr(seen, name)[:end] for name in names}
    return replace(seen, off=seen.off[:, :end], **cut)


def extrapolated(seen: Measured) -> Array | None:
    """Frequencies of all pairs, in the ratio of the last ones that are seen."""
    visible = np.flatnonzero(seen.visible & seen.found)
    if len(visible) < 2:
        return None
    first, last = visible[max(0, len(visible) - 8)], visible[-1]
    size = np.abs(seen.slope)
    step = math.log(size[last] / size[first]) / (last - first)
    expected: Array = size[last] * np.exp(step * (np.arange(len(size)) - last))
    return expected


def forward(seen: Measured) -> bool:
    """Whether pairs turn forward; without a layout to say which coordinate is first, they do."""
    signs = np.sign(seen.slope[seen.visible])
    return bool((signs > 0).any())


def one_direction(seen: Measured, direction: str) -> Measured:
    """Pairs that turn the other way are read the other way round: no tensor tells the two apart."""
    sign = 1 if direction == "forward" else -1
    other = seen.visible & (np.sign(seen.slope) == -sign)
    if not other.any():
        return seen
    flip = other[:, None]
    return replace(
        seen,
        read=np.where(flip, seen.read[:, ::-1], seen.read),
        written=np.where(flip, seen.written[:, ::-1], seen.written),
        slope=np.where(other, -seen.slope, seen.slope),
        intercept=np.where(other, -seen.intercept, seen.intercept),
        off=np.where(other, -seen.off, seen.off),
    )
