"""Cutting an array in a file into parts that fit in memory and lie in few pieces on the disk."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ropecli.files.axes import Axes
    from ropecli.files.formats.stored import Box

#: Bytes that a vector counts at least: short vectors take less memory than their positions.
_LEAST_VECTOR = 128


def blocks(axes: Axes, limit: int) -> Iterator[Box]:
    """Cut an array into parts of whole vectors, in the order of the file.

    Args:
        axes: Of the array.
        limit: Bytes of a part; more only where a vector, or a chunk of the file, has more.
    """
    shape, lengths = axes.stored.shape, block_shape(axes, limit)
    order = _slowest_first(axes)
    cuts = [range(0, shape[axis], max(1, lengths[axis])) for axis in order]
    for starts in _combined(cuts):
        first = dict(zip(order, starts, strict=True))
        yield tuple(
            slice(first[axis], min(first[axis] + lengths[axis], length))
            for axis, length in enumerate(shape)
        )


def _combined(cuts: list[range]) -> Iterator[tuple[int, ...]]:
    """One of each, the last fastest; without a list of millions, as `itertools.product` makes."""
    if not cuts:
        yield ()
        return
    for first in cuts[0]:
        for others in _combined(cuts[1:]):
            yield first, *others


def block_shape(axes: Axes, limit: int) -> tuple[int, ...]:
    """The shape of a part: grown along the axes of the file, the fastest first."""
    shape = axes.stored.shape
    lengths = _units(axes)
    vector = axes.head_dim * axes.stored.dtype.itemsize
    size = math.prod(lengths) * max(vector, _LEAST_VECTOR) // axes.head_dim
    for axis in reversed(_slowest_first(axes)):
        whole = math.ceil(shape[axis] / max(1, lengths[axis]))
        room = min(max(1, limit // max(1, size)), max(1, whole))
        lengths[axis] = min(lengths[axis] * room, shape[axis])
        size *= room
    return tuple(lengths)


def _units(axes: Axes) -> list[int]:
    """The least that is read along each axis."""
    shape, chunks = axes.stored.shape, axes.stored.chunks
    lengths = [1] * len(shape) if chunks is None else list(map(min, chunks, shape))
    lengths[-1] = min(math.lcm(max(1, lengths[-1]), axes.head_dim), shape[-1])
    return lengths


def _slowest_first(axes: Axes) -> list[int]:
    order = list(range(len(axes.stored.shape)))
    return order[::-1] if axes.stored.fortran_order else order
