"""The rotation that an implementation was identified as, made an oracle for its rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.oracle import Oracle, sequence_length
from ropecli.units import UNIT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify import Identification

    Array = NDArray[np.float64]

#: Relative error of a frequency that its neighbours predict: a hundred times what is measured, and
#: so small that a correct table of no formula is hit once in 10,000 pairs.
PREDICTED = 1e-4
FEWEST_PAIRS = 4  #: Pairs that show a geometric table: two give the ratio, two must keep to it.
#: Relative change of a frequency that no loss of digits makes: twice the 2^-11 of float16.
CHANGED = 2.0**-10
OTHER = 2e-5  #: Relative change of a frequency, ten times what float32 rounds of a table.
#: Radians that phases may be off typically. A drift that ends at an error of e is e / sqrt(3) off
#: on average: at half a radian it ends at 0.9, far from half a turn, beyond which it would wrap.
WRAPPED = 0.5
#: Share of the error that a line through it may leave. Errors that no line explains leave all of
#: it, a drift on half of the rows alone half; a drift leaves what rounding does.
LEFT = 1 / 8


def position_scale(found: Identification) -> float:
    """Return what positions are multiplied by before they rotate; 1 where nothing shows it."""
    rope = found.rotary
    if found.position_step is not None and found.position_step != 1:
        return found.position_step
    if rope is None or rope.axes > 1:
        return 1.0
    return _beyond_half_a_turn(np.abs(rope.inv_freq))


def describe_scale(scale: float) -> str:
    """Say what is wrong with such positions, and why."""
    times = "twice" if scale == 2 else f"{scale:g} times"
    return f"positions count {times}: multiplied by {scale:g} before they turn"


def _beyond_half_a_turn(theta: NDArray[np.float64]) -> float:
    """Return the first frequency of a geometric table as its slow pairs predict it, or 1.

    Fast pairs make more than half a turn a position, and look like slower ones. The slow pairs say
    how fast they must be, up to whole turns and direction.
    """
    if len(theta) < FEWEST_PAIRS or not 0 < theta[-1] < theta[-2]:
        return 1.0
    speeds = [theta[-1], theta[-2]]
    for seen in theta[-3::-1]:
        ratio = (speeds[-1] / speeds[0]) ** (1 / (len(speeds) - 1))
        predicted = speeds[-1] * ratio
        either = np.array([seen, -seen])
        whole = either + 2 * np.pi * np.round((predicted - either) / (2 * np.pi))
        speeds.append(float(whole[np.abs(whole - predicted).argmin()]))
        if abs(speeds[-1] - predicted) > PREDICTED * predicted:
            return 1.0
    # The slower ones alone would have been recognised.
    line = np.geomspace(speeds[0], speeds[-1], len(speeds))
    geometric = (np.abs(speeds - line) <= PREDICTED * line).all()
    return speeds[-1] if geometric and speeds[-1] > np.pi else 1.0


def refine_frequencies(oracle: Oracle, x: Array, y: Array, positions: Array) -> Oracle:
    """Return the oracle with frequencies corrected whose error grows with the position.

    Args:
        oracle: The rotation that was recognised.
        x: Rows before rotation, (count, head_dim).
        y: Rows after rotation.
        positions: (count,), or (count, axes).
    """
    rope = oracle.rotary_at(sequence_length(positions))
    exact = oracle.truth(x, positions, "float64").rows
    first, second = rope.pairs_out.T
    rotated = y[:, first] + 1j * y[:, second]
    right = exact[:, first] + 1j * exact[:, second]
    weight = np.abs(right) ** 2
    off = np.angle(rotated * np.conj(right))
    sign = 1 if rope.direction == "forward" else -1
    m = sign * oracle.scaled_positions(rope, positions)
    change = (weight * m * off).sum(axis=0) / np.maximum((weight * m * m).sum(axis=0), 1e-300)
    theta = rope.inv_freq
    typical = np.sqrt((weight * off**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    left = off - m * change
    rest = np.sqrt((weight * left**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    # Only a drift is corrected: whatever else is wrong is for the laws to find.
    drifts = (np.abs(change) > OTHER * theta) & (typical < WRAPPED) & (rest < LEFT * typical)
    if not drifts.any():
        return oracle
    table = np.where(drifts, np.maximum(theta + change, 0.0), theta)
    better = rope.with_inv_freq(table)
    spread = rest / np.sqrt(np.maximum((m * m).sum(axis=0), 1e-300))
    uncertainty = np.maximum(oracle.uncertainty, np.where(drifts, 4 * spread, 0.0))
    return replace(oracle, rotary_at=lambda _length: better, uncertainty=uncertainty)


def oracle_of(found: Identification) -> Oracle:
    """Return the rotation that was identified, and the uncertainty of its frequencies."""
    rope = found.rotary
    assert rope is not None
    return Oracle(
        rotary_at=lambda _length: rope,
        scale=found.position_step or 1.0,
        offset=found.position_offset or 0.0,
        uncertainty=frequency_uncertainty(found),
        outside=_half_bound(found),
    )


def frequency_uncertainty(found: Identification) -> Array | float:
    """Return the error of the frequencies, radians per position; 0 where a formula gives all."""
    if "16" in found.dtype:
        uncertainty = 0.0 if found.uncertainty is None else found.uncertainty
        return np.maximum(uncertainty, _half_bound(found))
    known = found.rotary is not None and found.rotary.formula is not None
    return 0.0 if known or found.uncertainty is None else found.uncertainty


def _half_bound(found: Identification) -> float:
    """Return the radians per position that half precision hides: one rounding over all rows."""
    return 2 * UNIT[found.dtype] / found.rows if "16" in found.dtype else 0.0


def clearly_differ(one: Array, other: Array) -> bool:
    """Return True if some frequency differs by much more than it is measured to."""
    return len(one) == len(other) and bool((np.abs(other - one) > CHANGED * np.abs(one)).any())


def computed_in_half(found: Identification) -> bool:
    """Return True if positions, frequencies, angles or tables were rounded to half precision."""
    return found.precision is not None and "float16" in found.precision
