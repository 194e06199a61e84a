"""An open input: its arrays, and the rotation of each, a part at a time."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentTypeError, FileError
from ropecli.files.array_axes import Axes, blocks, understand_axes, vector_length
from ropecli.files.arrays import choose
from ropecli.files.formats.base import Source
from ropecli.files.formats.registry import open_input
from ropecli.files.formats.stored import Box, Stored, box_shape, check_rotatable
from ropecli.files.positions import Positions, open_positions
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate_into

#: Bytes of a block: enough for starting the threads to cost nothing.
BLOCK_BYTES = 16 << 20


class RotationOptions(TypedDict, total=False):
    """The rotation of the arrays of a file, as the arguments of `encode_file` say."""

    tensor: str | None
    positions: Any
    offset: int
    sequence_axis: int | None
    inverse: bool
    dtype: str | None
    shape: Sequence[int] | None


@dataclass(frozen=True, kw_only=True, eq=False)
class OpenInput:
    """An open file whose arrays are to be rotated."""

    input: Path  #: As it was given; "-" of standard input.
    source: Source
    rope: Rotary
    arrays: tuple[RotatedArray, ...]  #: In the order of the file.
    options: RotationOptions  #: As it was opened with.
    begin: float  #: Time at which it was opened, in seconds.

    @property
    def axes(self) -> Axes:
        """Axes of the first array."""
        return self.arrays[0].axes

    @property
    def others(self) -> tuple[str, ...]:
        """Names of the arrays that stay as they are."""
        rotated = {array.stored.name for array in self.arrays}
        return tuple(name for name in self.source.arrays if name not in rotated)


@contextlib.contextmanager
def open_rotation(
    input: str | os.PathLike[str],
    rope: Rotary | Callable[[int], Rotary],
    **options: Unpack[RotationOptions],
) -> Iterator[OpenInput]:
    """Open a file once, with the axes and positions of the arrays that are rotated.

    The arguments are those of `encode_file`; `rope` may be the function that returns the encoding
    for the length of the last axis.
    """
    dtype, shape = options.get("dtype"), options.get("shape")
    positions, offset = options.get("positions"), options.get("offset", 0)
    begin = time.perf_counter()
    check_encoding(rope)
    with open_input(Path(input), shape, dtype) as source:
        stored = [
            check_rotatable(source.arrays[name], dtype if shape is None else None)
            for name in choose(source, options.get("tensor"))
        ]
        encoding = rope if isinstance(rope, Rotary) else rope(vector_length(stored[0]))
        all_axes = [
            understand_axes(
                array,
                head_dim=encoding.head_dim,
                sequence_axis=options.get("sequence_axis"),
            )
            for array in stored
        ]
        for axes in all_axes:
            source.check(axes.stored)
            if axes.sequence_axis is None and positions is None and not offset:
                raise FileError(
                    f"{axes.stored.label} has shape {axes.stored.shape}, a single vector",
                    "give its position with `offset`",
                )
        with open_positions(positions, offset, coordinates=encoding.axes) as positions_of:
            arrays = tuple(
                RotatedArray(
                    axes=axes,
                    positions=positions_of(axes),
                    rope=encoding,
                    inverse=options.get("inverse", False),
                )
                for axes in all_axes
            )
            yield OpenInput(
                input=Path(input),
                source=source,
                rope=encoding,
                arrays=arrays,
                options=options,
                begin=begin,
            )


def check_encoding(rope: object) -> None:
    """Refuse what is neither an encoding nor a function that returns one."""
    if not (isinstance(rope, Rotary) or callable(rope)):
        raise ArgumentTypeError(f"rope must be a Rotary, got {type(rope).__name__}")


@dataclass(frozen=True)
class NonFiniteCounts:
    """Numbers that are not finite, before and after a rotation."""

    nonfinite: int = 0  #: NaNs and infinities among the input's elements.
    overflowed: int = 0  #: Finite pairs that became infinite.

    def __add__(self, other: NonFiniteCounts) -> NonFiniteCounts:
        """Add the counts of two blocks."""
        return NonFiniteCounts(self.nonfinite + other.nonfinite, self.overflowed + other.overflowed)


@dataclass(frozen=True, kw_only=True, eq=False)
class RotatedArray:
    """An array of a file, with what its rotation takes."""

    axes: Axes
    positions: Positions
    rope: Rotary
    inverse: bool

    @property
    def stored(self) -> Stored:
        """The array as its file describes it."""
        return self.axes.stored

    def blocks(self, chunks: tuple[int, ...] | None, limit: int | None = None) -> Iterator[Box]:
        """Return the parts that are rotated one by one, of whole chunks, in the file's order."""
        stored = self.stored if chunks is None else replace(self.stored, chunks=chunks)
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
