"""The axes of an array in a file, and the blocks that it is cut into."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ropecli.errors import ArgumentError, FileError
from ropecli.files.formats.stored import Box, Stored, grow
from ropecli.numbers import even, integer

_LONGEST_HEAD = 512  #: Above every head dim in use; a longer last axis is likely several heads.
#: Bytes that a vector counts at least: short vectors take less memory than their positions.
_LEAST_VECTOR = 128


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Axes of an array: the sequence, and the heads side by side along the last axis."""

    stored: Stored
    sequence_axis: int | None  #: 0 or more; None of a single vector, whose position is the offset.
    heads: int  #: Heads along the last axis.
    head_dim: int

    @property
    def sequence(self) -> int:
        """Positions along the sequence axis."""
        return 1 if self.sequence_axis is None else self.stored.shape[self.sequence_axis]


def vector_length(stored: Stored, *, head_dim: int | None = None) -> int:
    """Return the length of the last axis, of all heads side by side."""
    if not stored.shape:
        raise FileError(
            f"{stored.label} has shape (); expected a vector, or several along the other axes"
        )
    last = stored.shape[-1]
    if not last or (head_dim is not None and last % head_dim):
        expected = "2 or more" if head_dim is None else f"a multiple of the head dim {head_dim}"
        raise ArgumentError(
            f"the last axis must be {expected}, got {last} in shape {stored.shape} "
            f"of {stored.label}"
        )
    return last


def understand_axes(
    stored: Stored, *, head_dim: int | None = None, sequence_axis: int | None = None
) -> Axes:
    """Return the axes of an array."""
    dim = None if head_dim is None else even("head dim", head_dim)
    last, ndim = vector_length(stored, head_dim=dim), len(stored.shape)
    dim = dim or last
    axis: int | None = ndim - 2 if ndim > 1 else None
    if sequence_axis is not None:
        axis = axis_from_start(sequence_axis, ndim)
    return Axes(stored=stored, sequence_axis=axis, heads=last // dim, head_dim=dim)


def axis_notes(axes: Axes, *, axis_given: bool, dim_given: bool) -> tuple[str, ...]:
    """Return notes on axes that may silently be wrong because the user did not name them.

    Parameters are in backquotes, as in the advice of an error.
    """
    notes = []
    ndim = len(axes.stored.shape)
    if ndim >= 4 and not axis_given:
        notes.append(
            f"of {ndim} axes, {axes.sequence_axis} ({axes.sequence:,} long) was taken for the "
            "sequence; if it is another, name it with `sequence_axis`"
        )
    if axes.head_dim > _LONGEST_HEAD and not dim_given:
        notes.append(
            f"the last axis was taken for one head of {axes.head_dim:,}; "
            "if several heads lie side by side, give the head dim with `head_dim`"
        )
    return tuple(notes)


def blocks(axes: Axes, limit: int) -> Iterator[Box]:
    """Cut an array into parts of whole vectors and whole chunks, in the order of the file."""
    shape, lengths = axes.stored.shape, block_shape(axes, limit)
    order = _slowest_first(axes)
    cuts = [range(0, shape[axis], max(1, lengths[axis])) for axis in order]
    for starts in _product(cuts):
        first = dict(zip(order, starts, strict=True))
        yield tuple(
            slice(first[axis], min(first[axis] + lengths[axis], length))
            for axis, length in enumerate(shape)
        )


def block_shape(axes: Axes, limit: int) -> tuple[int, ...]:
    """Return the shape of a part: grown along the axes of the file, the fastest first."""
    lengths = _least_lengths(axes)
    vector = axes.head_dim * axes.stored.dtype.itemsize
    size = math.prod(lengths) * max(vector, _LEAST_VECTOR) // axes.head_dim
    fastest_first = reversed(_slowest_first(axes))
    return grow(lengths, axes.stored.shape, fastest_first, size=size, limit=limit)


def _product(cuts: list[range]) -> Iterator[tuple[int, ...]]:
    """Yield one of each, the last fastest; `itertools.product` would list millions first."""
    if not cuts:
        yield ()
        return
    for first in cuts[0]:
        for others in _product(cuts[1:]):
            yield first, *others


def _least_lengths(axes: Axes) -> list[int]:
    """Return the least length of a part along each axis: whole chunks, and whole vectors."""
    shape, chunks = axes.stored.shape, axes.stored.chunks
    lengths = [1] * len(shape) if chunks is None else list(map(min, chunks, shape))
    lengths[-1] = min(math.lcm(max(1, lengths[-1]), axes.head_dim), shape[-1])
    return lengths


def _slowest_first(axes: Axes) -> list[int]:
    order = list(range(len(axes.stored.shape)))
    return order[::-1] if axes.stored.fortran_order else order


def axis_from_start(axis: object, ndim: int) -> int:
    """Return an axis of the positions, 0 or more."""
    axis = integer("sequence axis", axis)
    if ndim == 1:
        raise ArgumentError(
            f"a single vector has no sequence axis, got {axis}", "`offset` is its position"
        )
    positive = axis + ndim if axis < 0 else axis
    if not 0 <= positive < ndim - 1:
        expected = "0 or -2" if ndim == 2 else f"from 0 to {ndim - 2} or from -{ndim} to -2"
        raise ArgumentError(f"sequence axis must be {expected}, got {axis}")
    return positive
