"""RIFLEx (arXiv:2502.15894): videos longer than trained, without a repetition in time."""

from __future__ import annotations

import math

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import integer, length
from ropecli.rotary.rotary import Rotary, check_rope

TURN = 0.9  #: Of a turn within the new length, as in the code of its authors; the paper has 1.


def riflex(rope: Rotary, *, pair: int, sequence_length: int, axis: int = 0) -> Rotary:
    """Slow the intrinsic pair of an axis to 0.9 of a turn, theta_k = 0.9 * 2 pi / L.

    It is the pair whose period is nearest to the frame from which videos repeat themselves.

    Args:
        rope: An encoding with an axis of its own for each pair.
        pair: The intrinsic pair among those of the axis, from 1: 4 in HunyuanVideo, 2 in CogVideoX.
        sequence_length: Positions along the axis, such as latent frames.
        axis: The axis that is extended, time by default.

    Raises:
        ArgumentError: No such pair or axis, or a length that the pair does not repeat within.
        ArgumentTypeError: An argument of the wrong type.
    """
    check_rope(rope)
    frames, number = length("sequence_length", sequence_length), integer("pair", pair)
    members = [i for i, index in enumerate(rope.axis or ()) if index == integer("axis", axis)]
    if not 1 <= number <= len(members):
        raise ArgumentError(
            f"pair must be one of the {len(members)} of axis {axis}, from 1, got {number}"
        )
    table, slowed = rope.diagonal_inv_freq, TURN * 2 * math.pi / frames
    if slowed >= abs(table[members[number - 1]]):
        raise ArgumentError(
            f"sequence_length must be above {TURN} periods of pair {number}, "
            f"{TURN * rope.wavelength[members[number - 1]]:.4g} positions, got {frames}"
        )
    table[members[number - 1]] = np.copysign(slowed, table[members[number - 1]])
    return rope.with_inv_freq(table)
