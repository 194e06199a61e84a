"""Frequencies as rows show them, where the formula that was recognised is not quite right."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.oracle import Oracle, sequence_length

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

OTHER = 2e-5  #: Relative change of a frequency, ten times what float32 rounds of a table.
#: Radians that phases may be off typically. A drift that ends at an error of e is e / sqrt(3) off
#: on average: at half a radian it ends at 0.9, far from half a turn, beyond which it would wrap.
WRAPPED = 0.5
#: Share of the error that a line through it may leave. Errors that no line explains leave all of
#: it, a drift on half of the rows alone half; a drift leaves what rounding does.
LEFT = 1 / 8


def refined(oracle: Oracle, x: Array, y: Array, positions: Array) -> Oracle:
    """The oracle with frequencies that drift off in proportion to the position put right.

    Args:
        oracle: The rotation that was recognised.
        x: Rows before, (count, head_dim).
        y: Rows after.
        positions: (count,), or (count, axes).
    """
    rope = oracle.rotary_at(sequence_length(positions))
    exact = oracle.truth(x, positions, "float64").rows
    first, second = rope.pairs_out.T
    turned = y[:, first] + 1j * y[:, second]
    right = exact[:, first] + 1j * exact[:, second]
    weight = np.abs(right) ** 2
    off = np.angle(turned * np.conj(right))
    sign = 1 if rope.direction == "forward" else -1
    m = sign * oracle.places(rope, positions)
    change = (weight * m * off).sum(axis=0) / np.maximum((weight * m * m).sum(axis=0), 1e-300)
    theta = rope.inv_freq
    typical = np.sqrt((weight * off**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    left = off - m * change
    rest = np.sqrt((weight * left**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    # A drift, and nothing else: what else is wrong stays for the laws.
    drifts = (np.abs(change) > OTHER * theta) & (typical < WRAPPED) & (rest < LEFT * typical)
    if not drifts.any():
        return oracle
    table = np.where(drifts, np.maximum(theta + change, 0.0), theta)
    better = rope.with_inv_freq(table)
    spread = rest / np.sqrt(np.maximum((m * m).sum(axis=0), 1e-300))
    unsure = np.maximum(oracle.uncertainty, np.where(drifts, 4 * spread, 0.0))
    return replace(oracle, rotary_at=lambda _length: better, uncertainty=unsure)
