"""The positions of the vectors of a file, a block at a time."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import LARGEST_POSITION, as_array, as_positions
from ropecli.errors import ArgumentError
from ropecli.files.array_axes import Axes
from ropecli.files.arrays import open_array, read_part, read_whole
from ropecli.files.formats.base import MemoryReader, Reader
from ropecli.files.formats.stored import Box, Stored, box_shape, check_numeric
from ropecli.numbers import integer

_CHUNK = 1 << 18  #: Positions that are checked at a time.


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """Positions of the vectors of an array: counted along the sequence, or looked up."""

    axes: Axes
    offset: int  #: Added to every position.
    table: PositionTable | None  #: Where they are looked up; None where they are counted.

    @property
    def per_batch(self) -> bool:
        """True if they differ along the first axis."""
        return self.table is not None and self.table.per_batch

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last, as integers where they are; None where there are none.

        Of a position with several coordinates it is the first of them.
        """
        rows = self.axes.stored.shape[0] if self.per_batch else 1
        if not rows * self.axes.sequence:
            return None
        first = self.at(slice(0, 1), slice(0, 1))
        last = self.at(slice(rows - 1, rows), slice(self.axes.sequence - 1, self.axes.sequence))
        return _plain(first.flat[0]), _plain(last.flat[0])

    @property
    def furthest(self) -> float:
        """The largest in magnitude, on any axis, as an integer where it is; 0 if there are none."""
        if self.table is not None:
            return self.table.furthest()
        return max(map(abs, self.ends or (0,)))

    def of(self, box: Box) -> NDArray[np.float64]:
        """Return the positions of a part: (batch, sequence) or (batch, sequence, axes).

        There is one batch where they do not differ along the first axis.
        """
        axis = self.axes.sequence_axis
        along = slice(0, 1) if axis is None else box[axis]
        return self.at(box[0] if self.per_batch else slice(0, 1), along)

    def at(self, batch: slice, sequence: slice) -> NDArray[np.float64]:
        """Return the positions of some sequences, offset included."""
        if self.table is not None:
            return self.table.at(batch, sequence)
        counted = np.arange(sequence.start + self.offset, sequence.stop + self.offset)
        return counted.astype(np.float64)[None]

    def in_memory(self) -> Positions:
        """Return the same positions without an open file, so that they can be sent elsewhere."""
        return self if self.table is None else replace(self, table=self.table.in_memory())


IN_MEMORY = Path("positions")  #: Stands for the path of an array in memory.


class PositionTable:
    """Positions in an array, in memory or in a file."""

    def __init__(self, reader: Reader, *, offset: int, coordinates: int) -> None:
        """Look positions up."""
        self.shape = reader.stored.shape
        self._reader, self._offset = reader, offset
        path = reader.stored.path
        self._name = "positions" if path == IN_MEMORY else f"positions of {path}"
        self._point = (coordinates,) if coordinates > 1 else ()
        self._furthest: float | None = None

    @property
    def per_batch(self) -> bool:
        """True if they differ along the first axis."""
        return len(self.shape) - len(self._point) == 2

    def check_fits(self, axes: Axes) -> None:
        """Refuse an array of another shape."""
        expected: list[tuple[int, ...]] = [(axes.sequence, *self._point)]
        if axes.sequence_axis:
            expected.append((axes.stored.shape[0], axes.sequence, *self._point))
        if self.shape not in expected:
            shapes = " or ".join(map(str, expected))
            axes_first = bool(self._point) and (*self.shape[1:], *self.shape[:1]) in expected
            raise ArgumentError(
                f"{self._name} must have shape {shapes}, got {self.shape}",
                "the axes of a position come last: np.moveaxis(ids, 0, -1)" if axes_first else "",
            )

    def at(self, batch: slice, sequence: slice) -> NDArray[np.float64]:
        """Return the positions of some sequences, as `Positions.at`."""
        box = (batch, sequence) if self.per_batch else (sequence,)
        point = (slice(0, length) for length in self._point)
        positions = as_positions(read_part(self._reader, (*box, *point)))
        # Compared with the limit before adding, which would round.
        bad = (positions > LARGEST_POSITION - self._offset) | (
            positions < -LARGEST_POSITION - self._offset
        )
        if bad.any():
            raise ArgumentError(
                f"positions must be at most 2^53 in magnitude, got {_plain(positions[bad][0])} "
                f"with offset {self._offset} at index {int(np.flatnonzero(bad)[0])}"
            )
        return (positions + self._offset).reshape(*box_shape((batch, sequence)), *self._point)

    def furthest(self) -> float:
        """Return the largest in magnitude, 0 if there are none, after checking all of them once."""
        if self._furthest is None:
            largest = max((np.abs(part).max() for part in self._all()), default=np.float64(0))
            self._furthest = _plain(largest)
        return self._furthest

    def in_memory(self) -> PositionTable:
        """Return the same table without an open file."""
        return PositionTable(
            MemoryReader(self._reader.stored, read_whole(self._reader)),
            offset=self._offset,
            coordinates=math.prod(self._point),
        )

    def _all(self) -> Iterator[NDArray[np.float64]]:
        """Yield all of them in parts: several whole sequences, or a part of one."""
        count, length = self.shape[:2] if self.per_batch else (1, self.shape[0])
        rows = max(1, _CHUNK // max(1, length))
        for row, first in itertools.product(range(0, count, rows), range(0, length, _CHUNK)):
            batch = slice(row, min(row + rows, count))
            sequence = slice(first, min(first + _CHUNK, length))
            try:
                yield self.at(batch, sequence)
            except ArgumentError as error:
                counted = (row * length + first) * math.prod(self._point)
                if not counted:
                    raise
                raise ArgumentError(f"{error} (counted from index {counted})") from None


@contextlib.contextmanager
def open_positions(
    source: object, offset: object = 0, *, coordinates: int = 1
) -> Iterator[Callable[[Axes], Positions]]:
    """Open the positions of the arrays of a file, and yield the function from axes to positions.

    However many arrays there are, one file is held open, and each position is checked once.
    """
    shift = checked_offset(offset)
    if source is None:
        yield partial(_count_positions, shift)
        return
    with contextlib.ExitStack() as stack:
        reader: Reader
        if isinstance(source, str | os.PathLike):
            reader = stack.enter_context(open_array(source, accept=check_numeric))
        else:
            array = as_array("positions", source)
            stored = Stored(path=IN_MEMORY, shape=array.shape, dtype=array.dtype)
            reader = MemoryReader(stored, array)
        table = PositionTable(reader, offset=shift, coordinates=coordinates)

        def positions_of(axes: Axes) -> Positions:
            table.check_fits(axes)
            table.furthest()
            return Positions(axes=axes, offset=shift, table=table)

        yield positions_of


def _count_positions(offset: int, axes: Axes) -> Positions:
    last = offset + axes.sequence - 1
    if last > LARGEST_POSITION:
        raise ArgumentError(f"positions must be at most 2^53 in magnitude, got {offset} to {last}")
    return Positions(axes=axes, offset=offset, table=None)


def checked_offset(offset: object) -> int:
    """Return an offset as an int."""
    shift = integer("offset", offset)
    if abs(shift) > LARGEST_POSITION:
        raise ArgumentError(f"offset must be at most 2^53 in magnitude, got {offset}")
    return shift


def _plain(number: np.float64) -> float:
    """Return the number as an int where it is one."""
    return int(number) if number.is_integer() else float(number)
