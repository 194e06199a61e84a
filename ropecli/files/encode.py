"""Rotate an array from one file into another, in blocks."""

from __future__ import annotations

import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.atomic import check_target, replacing
from ropecli.files.axes import Axes, axis_notes, understand_axes
from ropecli.files.finite import all_finite, count_nonfinite, count_overflowed
from ropecli.files.npy import SUFFIX, NpyReader, NpyWriter, open_npy
from ropecli.files.positions import Positions, open_positions
from ropecli.files.tiles import Tile, tiles
from ropecli.rotary.apply import turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.rotary import Rotary

    Progress = Callable[[int, int], None]

#: What is in memory at a time: enough for starting the threads to cost nothing beside it.
BLOCK_BYTES = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Encoded:
    """What was rotated, and what was seen on the way."""

    input: Path  #: The file that was read.
    output: Path  #: The file that was written.
    shape: tuple[int, ...]  #: Of both arrays.
    dtype: str  #: Of both arrays.
    layout: str  #: How coordinates are paired.
    sequence_axis: int  #: 0 or more.
    heads: int  #: Side by side along the last axis.
    head_dim: int  #: Coordinates of one head.
    positions: tuple[float, float] | None  #: The first and the last; None of an empty sequence.
    bytes: int  #: Of the elements.
    seconds: float  #: Time it took.
    nonfinite: int  #: NaNs and infinities among the input's elements.
    overflowed: int  #: Finite pairs that became infinite.
    notes: tuple[str, ...]  #: What could be silently wrong.


def encode_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    rope: Rotary,
    *,
    positions: Any = None,
    offset: int = 0,
    sequence_axis: int | None = None,
    inverse: bool = False,
    dtype: str | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Encoded:
    """Rotate every vector of a .npy file by its position (RoFormer Eq. 34).

    The file may be larger than memory. The output has the input's shape, dtype, byte order and
    memory order, and appears whole or not at all. The bits are those of `ropecli.rotate`.

    Args:
        input: float64, float32, float16 or bfloat16; C or Fortran order; the last axis is a
            multiple of the rope's head dim, several heads lying side by side.
        output: A .npy file that doesn't exist yet.
        rope: The encoding.
        positions: (sequence,) or (batch, sequence), batch being the first axis, integers or
            floats; with one more axis, last, where the rope has several axes; an array, or the
            path of a .npy file. 0 ... sequence-1 by default, on every axis.
        offset: Added to every position.
        sequence_axis: Where the positions run; the axis before the last by default.
        inverse: Turn back: divide by the attention factor and turn the other way.
        dtype: "bfloat16" to take 2-byte void elements for that.
        force: Replace the output if it exists.
        progress: Called after each block with the bytes that are done and those in all.

    Raises:
        ArgumentError: A value that is not allowed, or does not fit the array.
        ArgumentTypeError: An argument of a type that is not allowed.
        FileError: A file that can't be read or written, or holds something else.
    """
    begin = time.perf_counter()
    check_output(output)
    with open_npy(input, dtype) as reader:
        file = reader.file
        axes = understand_axes(file, head_dim=rope.head_dim, sequence_axis=sequence_axis)
        sources = [input, positions] if isinstance(positions, str | os.PathLike) else [input]
        check_target(output, force=force, sources=sources)
        with open_positions(positions, axes, offset, coordinates=rope.axes) as places:
            ends = places.ends
            with replacing(output, force=force) as stream:
                job = _Job(rope, axes, places, inverse=inverse)
                job.run(reader, NpyWriter(stream, file), progress)
    return Encoded(
        input=Path(input),
        output=Path(output),
        shape=file.shape,
        dtype=str(dtype_name(file.dtype)),
        layout=rope.layout,
        sequence_axis=axes.sequence_axis,
        heads=axes.heads,
        head_dim=axes.head_dim,
        positions=ends,
        bytes=file.nbytes,
        seconds=time.perf_counter() - begin,
        nonfinite=job.nonfinite,
        overflowed=job.overflowed,
        notes=axis_notes(axes, axis_given=sequence_axis is not None, dim_given=True),
    )


def default_output(input: str | os.PathLike[str]) -> Path:
    """The output that an input is given: input.rope.npy for input.npy."""
    path = Path(input)
    stem = path.stem if path.suffix.lower() == SUFFIX else path.name
    return path.with_name(f"{stem}.rope{SUFFIX}")


def check_output(output: str | os.PathLike[str]) -> None:
    """Refuse an output whose suffix names no format that can be written.

    Raises:
        FileError: Such an output.
    """
    if Path(output).suffix.lower() != SUFFIX:
        msg = f"cannot write {os.fspath(output)}: allowed is a name that ends in {SUFFIX}"
        raise FileError(msg)


class _Job:
    """The rotation of one file."""

    def __init__(self, rope: Rotary, axes: Axes, places: Positions, *, inverse: bool) -> None:
        self.rope = rope
        self.axes = axes
        self.places = places
        self.inverse = inverse
        self.nonfinite = 0
        self.overflowed = 0

    def run(self, reader: NpyReader, writer: NpyWriter, progress: Progress | None) -> None:
        """Read, turn and write block after block.

        One at a time: doing the three at once was measured and gains nothing, since the system
        reads ahead and writes behind anyway.
        """
        axes, done = self.axes, 0
        if not axes.file.nbytes:
            return
        dtype = axes.file.dtype.newbyteorder("=")
        buffer = np.empty(max(BLOCK_BYTES // dtype.itemsize, axes.head_dim), dtype)
        # Where positions differ along an axis that runs faster, no rows share one.
        alone = self.places.per_batch and axes.file.fortran_order
        share = 1 if alone else axes.sequence_stride
        for tile in tiles(axes, share=share, limit=BLOCK_BYTES):
            shape = len(tile.rows), len(tile.columns)
            block = buffer[: math.prod(shape)].reshape(shape)
            reader.read_tile(tile.rows, tile.columns, block)
            self._turn(tile, block)
            if not all_finite(block):
                self._count(reader, tile, block)
            writer.write_tile(tile.rows, tile.columns, block)
            done += block.nbytes
            if progress is not None:
                progress(done, axes.file.nbytes)

    def _turn(self, tile: Tile, block: NDArray[Any]) -> None:
        rows = np.arange(tile.rows.start, tile.rows.stop, tile.share)
        positions = self.places.of_rows(rows)[None]
        head_dim = self.axes.head_dim
        # Vectors that all stand at one position go where the kernel shares them out to threads.
        shape = (1, 1, len(rows), -1, head_dim) if len(rows) > 1 else (1, -1, 1, 1, head_dim)
        x = block.reshape(shape)
        turn(x, x, self.rope, positions, inverse=self.inverse)

    def _count(self, reader: NpyReader, tile: Tile, after: NDArray[Any]) -> None:
        before = np.empty_like(after)
        reader.read_tile(tile.rows, tile.columns, before)
        self.nonfinite += count_nonfinite(before)
        vectors = (-1, self.axes.head_dim)
        self.overflowed += count_overflowed(
            before.reshape(vectors), after.reshape(vectors), self.rope, inverse=self.inverse
        )
