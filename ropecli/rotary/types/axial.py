"""Axial RoPE: pairs divided among the axes of an image or a video."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.names import quote
from ropecli.numbers import integer
from ropecli.rotary.frequencies import Table, geometric


def axial(
    *,
    dim: int,
    base: float,
    axes: int = 2,
    axis_order: Sequence[int] | None = None,
    take_turns: bool = False,
    deal_out: bool = False,
    sections: Sequence[int] | None = None,
    patches: Sequence[int] | None = None,
) -> Table:
    """base^(-2i/s) for each axis, s = 2 (dim // (2 axes)) coordinates of the head being its own.

    Positions are points (row, column), or (frame, row, column). With two axes it is the vision
    RoPE of Qwen2-VL (arXiv:2409.12191) and of most released encoders.

    Args:
        dim: Coordinates of the head; a remainder that does not divide evenly is not rotated.
        base: The base.
        axes: How many coordinates a position has, 1 to 4.
        axis_order: The axes in the order of their pairs; (1, 0) begins with the column (Llama 4).
        take_turns: Whether the axes take turns pair by pair (Kimi-K2.5), instead of one run of
            pairs each.
        deal_out: Whether the axes deal out one table base^(-2i/dim) in turns (Pixtral), instead
            of having the same table each.
        sections: Pairs of each axis, if not as many (22, 21 and 21 in Wan), each axis having a
            table of its own, base^(-2i/s) with s twice as many.
        patches: Patches along each axis, if their centres are at 2 pi times -1 to 1 (DINOv3): the
            frequencies of an axis of N patches are 4 pi / N times as high.
    """
    count = integer("axes", axes)
    if not 1 <= count <= 4 or dim < 2 * count:
        raise ArgumentError(
            f"axes must be from 1 to 4, with a pair each in {dim} coordinates, got {count}"
        )
    order = list(range(count)) if axis_order is None else list(axis_order)
    if sorted(order) != list(range(count)):
        raise ArgumentError(
            f"axis_order must name each of the {count} axes once, got {quote(axis_order)}"
        )
    pairs = dim // (2 * count)
    if sections is not None:
        sizes = [integer("sections", section) for section in sections]
        if len(sizes) != count or min(sizes) < 1 or 2 * sum(sizes) > dim or take_turns or deal_out:
            raise ArgumentError(
                f"sections must be the pairs of each of the {count} axes, at least 1 and together "
                f"at most {dim // 2}, without take_turns and deal_out, got {quote(sections)}"
            )
        tables = [geometric(base, sizes[axis], denominator=2 * sizes[axis]) for axis in order]
        axis = np.repeat(order, [sizes[dimension] for dimension in order])
        return _per_patch(np.concatenate(tables), axis, count, patches)
    if deal_out:
        runs = geometric(base, pairs * count, denominator=dim).reshape(pairs, count).T
    else:
        runs = np.tile(geometric(base, pairs, denominator=2 * pairs), (count, 1))
    owners = np.repeat(np.array(order), pairs).reshape(count, pairs)
    if take_turns:
        runs, owners = runs.T, owners.T
    return _per_patch(runs.ravel(), owners.ravel(), count, patches)


def _per_patch(
    inv_freq: NDArray[np.float64],
    axis: NDArray[np.int64],
    count: int,
    patches: Sequence[int] | None,
) -> Table:
    """Return a table in radians per patch, where coordinates are those of an image from -1 to 1."""
    if patches is not None:
        sizes = [integer("patches", patch) for patch in patches]
        if len(sizes) != count or min(sizes) < 1:
            raise ArgumentError(
                f"patches must be at least 1 along each of the {count} axes, got {quote(patches)}"
            )
        inv_freq = 4 * np.pi / np.array(sizes, dtype=np.float64)[axis] * inv_freq
    return Table(inv_freq=inv_freq, axis=tuple(axis.tolist()))
