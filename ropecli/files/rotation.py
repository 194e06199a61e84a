"""The rotation of the arrays of a file, a block at a time."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ropecli.errors import ArgumentTypeError
from ropecli.files.arrays import choose
from ropecli.files.axes import understand_axes
from ropecli.files.blocks import blocks
from ropecli.files.finite import all_finite, count_nonfinite, count_overflowed
from ropecli.files.formats.base import FileSource
from ropecli.files.formats.registry import open_input
from ropecli.files.formats.stored import box_shape, check_rotatable
from ropecli.files.positions import open_positions
from ropecli.files.version import version_of
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate_into

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.axes import Axes
    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Box
    from ropecli.files.positions import Positions
    from ropecli.files.version import Version

#: What is read at a time: enough for starting the threads to cost nothing beside it.
BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, eq=False)
class Job:
    """All that is needed to rotate any block of a file, in any process that sees the file."""

    input: Path
    rope: Rotary
    tensor: str | None = None  #: A name, or a pattern of names, where the file holds several.
    positions: Any = None  #: As in `open_positions`.
    offset: int = 0  #: Added to every position.
    sequence_axis: int | None = None  #: The axis before the last by default.
    inverse: bool = False  #: Turn back.
    dtype: str | None = None  #: "bfloat16" to take 2-byte void elements for that.
    shape: Sequence[int] | None = None  #: Where the file has no header; `dtype` then is its own.

    def __post_init__(self) -> None:
        """Refuse what is no encoding.

        Raises:
            ArgumentTypeError: It is none.
        """
        rope: object = self.rope
        if not isinstance(rope, Rotary):
            msg = f"rope must be a Rotary, got {type(rope).__name__}"
            raise ArgumentTypeError(msg)

    @contextlib.contextmanager
    def opened(self, *, checked: bool = False, version: Version = version_of) -> Iterator[OpenJob]:
        """Open the file and its positions, and check that they fit the encoding.

        Args:
            checked: Whether another process has gone through all positions.
            version: Tells a file from any other.

        Raises:
            ArgumentError: A value that does not fit an array.
            FileError: A file that can't be read, or holds something else.
        """
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(open_input(self.input, self.shape, self.dtype))
            axes = [
                understand_axes(
                    check_rotatable(
                        source.arrays[name], self.dtype if self.shape is None else None
                    ),
                    head_dim=self.rope.head_dim,
                    sequence_axis=self.sequence_axis,
                )
                for name in choose(source, self.tensor)
            ]
            along = stack.enter_context(
                open_positions(
                    self.positions,
                    self.offset,
                    coordinates=self.rope.axes,
                    checked=checked,
                    version=version,
                )
            )
            rotations = (
                Rotation(each, along(each), self.rope, inverse=self.inverse) for each in axes
            )
            yield OpenJob(source, tuple(rotations), version)


@dataclass(frozen=True, eq=False)
class OpenJob:
    """An open file, and what is to be done with its arrays."""

    source: Source
    rotations: tuple[Rotation, ...]
    look: Version = version_of  #: At what tells a file from any other.

    @cached_property
    def version(self) -> str:
        """What tells the file from any other; of a store, all files are looked at."""
        fd = self.source.fd if isinstance(self.source, FileSource) else None
        return self.look(self.source.path, fd)

    @property
    def rest(self) -> tuple[str, ...]:
        """Names of the arrays that stay as they are."""
        chosen = {rotation.name for rotation in self.rotations}
        return tuple(name for name in self.source.arrays if name not in chosen)


@dataclass(frozen=True)
class Unfinite:
    """Numbers that were not finite."""

    nonfinite: int = 0  #: NaNs and infinities among the input's elements.
    overflowed: int = 0  #: Finite pairs that became infinite.

    def __add__(self, other: Unfinite) -> Unfinite:
        """Both."""
        return Unfinite(self.nonfinite + other.nonfinite, self.overflowed + other.overflowed)


class Rotation:
    """The rotation of one array."""

    def __init__(self, axes: Axes, places: Positions, rope: Rotary, *, inverse: bool) -> None:
        """Rotate an array by positions that fit it."""
        self.axes = axes
        self.places = places
        self.rope = rope
        self.inverse = inverse

    @property
    def name(self) -> str:
        """Of the array, in its file."""
        return self.axes.stored.name

    def blocks(self, chunks: tuple[int, ...] | None = None) -> Iterator[Box]:
        """The parts that are rotated one by one, in the order of the file.

        Args:
            chunks: What is written at once, where that is fixed: whole ones of the file's own.
        """
        if chunks is None:
            return blocks(self.axes, BLOCK_BYTES)
        stored = replace(self.axes.stored, chunks=chunks)
        return blocks(replace(self.axes, stored=stored), BLOCK_BYTES)

    def turn(self, box: Box, before: NDArray[Any], after: NDArray[Any]) -> Unfinite:
        """Rotate a part.

        Args:
            box: Which.
            before: Of its shape, C-contiguous, in native byte order.
            after: As `before`; what is written to.
        """
        shape = self.as_kernels_take_it(box_shape(box))
        x, out = before.reshape(shape), after.reshape(shape)
        rotate_into(x, out, self.rope, self.places.of(box), inverse=self.inverse)
        return Unfinite() if all_finite(after) else self._count(before, after)

    def as_kernels_take_it(self, lengths: tuple[int, ...]) -> tuple[int, ...]:
        """The shape (batch, outer, sequence, inner, head_dim) of a part."""
        axis, dim = self.axes.sequence_axis, self.axes.head_dim
        batch = lengths[0] if self.places.per_batch else 1
        outer, sequence = math.prod(lengths[:axis]) // batch, lengths[axis]
        inner = math.prod(lengths[axis + 1 :]) // dim
        if sequence == 1:
            # Vectors that stand at one position go where the kernel shares them out to threads.
            outer, inner = outer * inner, 1
        return batch, outer, sequence, inner, dim

    def _count(self, before: NDArray[Any], after: NDArray[Any]) -> Unfinite:
        vectors = (-1, self.axes.head_dim)
        overflowed = count_overflowed(
            before.reshape(vectors), after.reshape(vectors), self.rope, inverse=self.inverse
        )
        return Unfinite(count_nonfinite(before), overflowed)
