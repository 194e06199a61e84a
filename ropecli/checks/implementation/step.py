"""How many times a position counts: what multiplies every frequency of a known table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification

#: Relative error of a frequency that a neighbour foretells: a hundred times what is measured, and
#: so little that a table of no formula, which is right, is hit once in 10,000 pairs.
FORETOLD = 1e-4
FEWEST = 4  #: Pairs that show it: two give the ratio, two must keep to it.


def step_of(found: Identification) -> float:
    """What positions are multiplied by before they turn; 1 where they are not, or none can tell."""
    rope = found.rotary
    if found.position_step is not None and found.position_step != 1:
        return found.position_step
    if rope is None or rope.axes > 1:
        return 1.0
    return _beyond_half_a_turn(np.abs(rope.inv_freq))


def in_words(step: float) -> str:
    """What is wrong with such positions, and why."""
    times = "twice" if step == 2 else f"{step:g} times"
    return f"positions count {times}: multiplied by {step:g} before they turn"


def _beyond_half_a_turn(theta: NDArray[np.float64]) -> float:
    """The first frequency of a geometric table, seen from its slow pairs; 1 if it is none.

    Fast pairs make more than half a turn a position, and look like slower ones. The slow pairs say
    how fast they must be, whole turns and direction apart.
    """
    if len(theta) < FEWEST or not 0 < theta[-1] < theta[-2]:
        return 1.0
    speeds = [theta[-1], theta[-2]]
    for seen in theta[-3::-1]:
        ratio = (speeds[-1] / speeds[0]) ** (1 / (len(speeds) - 1))
        foretold = speeds[-1] * ratio
        either = np.array([seen, -seen])
        whole = either + 2 * np.pi * np.round((foretold - either) / (2 * np.pi))
        speeds.append(float(whole[np.abs(whole - foretold).argmin()]))
        if abs(speeds[-1] - foretold) > FORETOLD * foretold:
            return 1.0
    # The slower ones alone would have been recognised.
    line = np.geomspace(speeds[0], speeds[-1], len(speeds))
    geometric = (np.abs(speeds - line) <= FORETOLD * line).all()
    return speeds[-1] if geometric and speeds[-1] > np.pi else 1.0
