"""What the data leave open."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.ends import extrapolated
from ropecli.checks.identify.table import CLEARLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.measured import Measured
    from ropecli.checks.identify.sight import Sight
    from ropecli.rotary import Rotary


def undetermined_pairs(
    seen: Measured, rotary: Rotary, sight: Sight
) -> tuple[tuple[int, ...], int | None]:
    """Pairs that can't be told from standing still, and positions with which they could."""
    expected, ratio = rotary.inv_freq, extrapolated(seen)
    if rotary.formula is None and ratio is None:
        return (), None
    if ratio is not None:  # a pair that may as well stand still
        expected = np.where((expected == 0) | (rotary.formula is None), ratio, expected)
    slow = ~seen.visible & (expected > 0) & (expected <= CLEARLY * seen.uncertainty)
    which = np.flatnonzero(slow)
    if not len(which):
        return (), None
    # Uncertainty falls with the stretch of positions, and more of them only add to that.
    times = CLEARLY * seen.uncertainty[which] / expected[which]
    return tuple(which.tolist()), math.ceil((times * _stretch(seen, sight)[which]).max())


def _stretch(seen: Measured, sight: Sight) -> NDArray[np.float64]:
    """Positions along the axis that turns each pair."""
    return np.asarray(sight.reach[seen.axis] + 1)


def notes(
    seen: Measured, sight: Sight, rotary: Rotary, undetermined: tuple[int, ...], needed: int | None
) -> tuple[str, ...]:
    """What no tensor tells, or not these, a sentence each."""
    said = []
    if undetermined:
        longest = float(_stretch(seen, sight)[list(undetermined)].max())
        said.append(
            f"{len(undetermined)} pairs (from {undetermined[0]}) are too slow to be seen turning "
            f"over {longest:g} positions; about {needed:,} would do"
        )
    if not sight.known:
        said.append(
            "positions were not given: a step of theirs and a factor of all frequencies can't be "
            "told apart"
        )
    if rotary.layout == "custom":
        said.append("a pair that is swapped can't be told from one that turns the other way")
    if assumed := int((~seen.found).sum()):
        said.append(f"{assumed} pairs are in the layout of the others, and not seen by themselves")
    return tuple(said)
