"""The rotation of one array of a file, a block at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.files.array_axes import Axes, blocks
from ropecli.files.formats.stored import Box, box_shape
from ropecli.files.positions import Positions
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate_into

#: Bytes of a block: enough for starting the threads to cost nothing.
BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class NonFiniteCounts:
    """Numbers that are not finite, before and after a rotation."""

    nonfinite: int = 0  #: NaNs and infinities among the input's elements.
    overflowed: int = 0  #: Finite pairs that became infinite.

    def __add__(self, other: NonFiniteCounts) -> NonFiniteCounts:
        """Add the counts of two blocks."""
        return NonFiniteCounts(self.nonfinite + other.nonfinite, self.overflowed + other.overflowed)


@dataclass(frozen=True, eq=False)
class ArrayJob:
    """The rotation of one array."""

    axes: Axes
    positions: Positions
    rope: Rotary
    inverse: bool

    @property
    def name(self) -> str:
        """Name of the array in its file."""
        return self.axes.stored.name

    def blocks(self, chunks: tuple[int, ...] | None, limit: int | None = None) -> Iterator[Box]:
        """Return the parts that are rotated one by one, of whole chunks, in the file's order."""
        stored = self.axes.stored if chunks is None else replace(self.axes.stored, chunks=chunks)
        return blocks(replace(self.axes, stored=stored), limit or BLOCK_BYTES)

    def rotate(self, box: Box, before: NDArray[Any], after: NDArray[Any]) -> NonFiniteCounts:
        """Rotate a part."""
        shape = self.kernel_shape(box_shape(box))
        x, out = before.reshape(shape), after.reshape(shape)
        rotate_into(x, out, self.rope, self.positions.of(box), inverse=self.inverse)
        if all_finite(after):
            return NonFiniteCounts()
        vectors = (-1, self.axes.head_dim)
        overflowed = count_overflowed(
            before.reshape(vectors), after.reshape(vectors), self.rope, inverse=self.inverse
        )
        return NonFiniteCounts(count_nonfinite(before), overflowed)

    def kernel_shape(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape (batch, outer, sequence, inner, head_dim) of a part."""
        axis, dim = self.axes.sequence_axis, self.axes.head_dim
        if axis is None:
            return 1, lengths[0] // dim, 1, 1, dim
        batch = lengths[0] if self.positions.per_batch else 1
        outer, sequence = math.prod(lengths[:axis]) // batch, lengths[axis]
        inner = math.prod(lengths[axis + 1 :]) // dim
        if sequence == 1:
            # Vectors at one position go where the kernel shares them out to threads.
            outer, inner = outer * inner, 1
        return batch, outer, sequence, inner, dim


def all_finite(block: NDArray[Any]) -> bool:
    """True if all elements are finite."""
    if block.dtype.itemsize > 2:
        return bool(np.isfinite(block).all())
    # Thirty times faster than isfinite: above infinity's bits there are only NaNs, among the
    # positive numbers and, read as unsigned, among the negative ones.
    infinity = np.array([np.inf, -np.inf], block.dtype)
    positive = block.view(np.int16).max() < infinity.view(np.int16)[0]
    return bool(positive and block.view(np.uint16).max() < infinity.view(np.uint16)[1])


def count_nonfinite(block: NDArray[Any]) -> int:
    """Count the elements that are NaN or infinite."""
    with np.errstate(invalid="ignore"):  # bfloat16 warns of signalling NaNs
        return int(np.count_nonzero(~np.isfinite(block)))


def count_overflowed(
    before: NDArray[Any], after: NDArray[Any], rope: Rotary, *, inverse: bool
) -> int:
    """Count the pairs that were finite and no longer are."""
    read, written = rope.pairs_in, rope.pairs_out
    if inverse:
        read, written = written, read
    with np.errstate(invalid="ignore"):
        was = np.isfinite(before)[:, read].all(axis=-1)
        is_finite = np.isfinite(after)[:, written].all(axis=-1)
    return int(np.count_nonzero(was & ~is_finite))
