"""Axial RoPE: the pairs shared out to the axes of an image or a video."""

from __future__ import annotations

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.rotary.frequencies import Table, geometric
from ropecli.rotary.numbers import integer


def axial(*, dim: int, base: float, axes: int = 2) -> Table:
    """base^(-2i/s) for each axis, s = 2 (dim // (2 axes)) coordinates of the head being its own.

    Positions are points (row, column), or (frame, row, column). With two axes it is the vision
    RoPE of Qwen2-VL (arXiv:2409.12191) and of most released encoders.

    Args:
        dim: Coordinates of the head; what the axes can't share evenly is left alone.
        base: The base.
        axes: How many coordinates a position has, 1 to 4.

    Raises:
        ArgumentError: A value that is not allowed.
        ArgumentTypeError: axes is not an integer.
    """
    count = integer("axes", axes)
    if not 1 <= count <= 4 or dim < 2 * count:
        msg = f"axes must be from 1 to 4, with a pair each in {dim} coordinates, got {count}"
        raise ArgumentError(msg)
    pairs = dim // (2 * count)
    table = geometric(base, pairs, denominator=2 * pairs)
    axis = tuple(a for a in range(count) for _ in range(pairs))
    return Table(inv_freq=np.tile(table, count), axis=axis)
