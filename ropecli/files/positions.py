"""The positions of the vectors of a file, taken a block at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.files.arrays import open_array, read_part
from ropecli.files.formats.stored import extents, of_numbers
from ropecli.files.version import version_of
from ropecli.rotary.positions import LIMIT, as_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ropecli.files.axes import Axes
    from ropecli.files.formats.stored import Box

_CHUNK = 1 << 18  #: Positions that are checked at a time.


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """Where the vectors of an array stand: counted along the sequence, or looked up."""

    axes: Axes
    offset: int  #: Added to every position.
    per_batch: bool  #: Whether they differ along the first axis.
    coordinates: int  #: That each position has; 1 where it is a number.
    origin: str  #: Tells them from positions that came from elsewhere.
    #: From a part of the array of positions to what stands there.
    lookup: Callable[[Box], NDArray[Any]]

    @property
    def identity(self) -> str:
        """What tells them from any other positions."""
        return f"{self.origin} + {self.offset}"

    @property
    def batch(self) -> int:
        """Sequences of positions."""
        return self.axes.stored.shape[0] if self.per_batch else 1

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last, as integers where they are; None where there are none.

        Of a position with several coordinates it is the first of them.
        """
        if not self.batch * self.axes.sequence:
            return None
        last = self.batch - 1, self.axes.sequence - 1
        first, final = (
            self.at(slice(row, row + 1), slice(place, place + 1)).flat[0]
            for row, place in ((0, 0), last)
        )
        return _plain(first), _plain(final)

    def of(self, box: Box) -> NDArray[np.float64]:
        """The positions of a part of the array: (batch, sequence) or (batch, sequence, axes).

        There is one batch where they do not differ along the first axis.
        """
        return self.at(box[0] if self.per_batch else slice(0, 1), box[self.axes.sequence_axis])

    def at(self, batch: slice, sequence: slice) -> NDArray[np.float64]:
        """The positions of some sequences, offset included.

        Raises:
            ArgumentError: Not finite, or beyond 2^53 in magnitude.
            ArgumentTypeError: Not integers or floats.
        """
        box = (batch, sequence) if self.per_batch else (sequence,)
        if self.coordinates > 1:
            box += (slice(0, self.coordinates),)
        found = as_positions(self.lookup(box))
        # Held against the limit before adding, which would round.
        bad = (found > LIMIT - self.offset) | (found < -LIMIT - self.offset)
        if bad.any():
            msg = (
                "positions must be at most 2^53 in magnitude, "
                f"got {_plain(found[bad][0])} with offset {self.offset}"
            )
            raise ArgumentError(msg)
        point = (self.coordinates,) if self.coordinates > 1 else ()
        return (found + self.offset).reshape(*extents((batch, sequence)), *point)

    def check(self) -> None:
        """Go through all of them.

        Raises:
            ArgumentError: As `at`.
            ArgumentTypeError: As `at`.
        """
        for batch, sequence in self._parts():
            try:
                self.at(batch, sequence)
            except ArgumentError as error:
                counted = batch.start * self.axes.sequence + sequence.start
                if not counted:
                    raise
                msg = f"{error} (counted from index {counted * self.coordinates})"
                raise ArgumentError(msg) from None

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        """All of them, a part at a time: several whole sequences, or a part of one."""
        length = self.axes.sequence
        rows = max(1, _CHUNK // max(1, length))
        for row in range(0, self.batch, rows):
            for first in range(0, length, _CHUNK):
                batch = slice(row, min(row + rows, self.batch))
                yield batch, slice(first, min(first + _CHUNK, length))


@contextlib.contextmanager
def open_positions(
    source: object,
    axes: Axes,
    offset: object = 0,
    *,
    coordinates: int = 1,
    checked: bool = False,
) -> Iterator[Positions]:
    """Open the positions of an array in a file, checked.

    Args:
        source: (sequence,) or (batch, sequence), batch being the first axis; an array, or the path
            of a file of one. None counts 0, 1, 2, ...
        axes: Those of the array.
        offset: Added to every position.
        coordinates: Of each position; where there are several they are the source's last axis.
        checked: Whether another process has gone through all of them.

    Raises:
        ArgumentError: Positions of another shape, not finite, or beyond 2^53 in magnitude.
        ArgumentTypeError: Not integers or floats; an offset that is not an integer.
        FileError: A file that can't be read.
    """
    shift = _checked_offset(offset)
    if source is None:
        last = shift + axes.sequence - 1
        if last > LIMIT:
            msg = f"positions must be at most 2^53 in magnitude, got {shift} to {last}"
            raise ArgumentError(msg)
        yield Positions(
            axes=axes,
            offset=shift,
            per_batch=False,
            coordinates=1,
            origin="counted",
            lookup=_counted,
        )
        return
    with contextlib.ExitStack() as stack:
        lookup: Callable[[Box], NDArray[Any]]
        if isinstance(source, str | os.PathLike):
            reader = stack.enter_context(open_array(source, accept=of_numbers))
            shape, lookup = reader.stored.shape, partial(read_part, reader)
            origin = version_of(Path(source))
        else:
            array = as_array("positions", source)
            shape, lookup = array.shape, array.__getitem__
            origin = f"{array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()}"
        positions = Positions(
            axes=axes,
            offset=shift,
            per_batch=_is_per_batch(shape, axes, coordinates),
            coordinates=coordinates,
            origin=origin,
            lookup=lookup,
        )
        if not checked:
            positions.check()
        yield positions


def _counted(box: Box) -> NDArray[Any]:
    (sequence,) = box
    return np.arange(sequence.start, sequence.stop)


def _is_per_batch(shape: tuple[int, ...], axes: Axes, coordinates: int) -> bool:
    point = (coordinates,) if coordinates > 1 else ()
    allowed: list[tuple[int, ...]] = [(axes.sequence, *point)]
    if axes.sequence_axis > 0:
        allowed.append((axes.stored.shape[0], axes.sequence, *point))
    if shape not in allowed:
        msg = f"positions must have shape {' or '.join(map(str, allowed))}, got {shape}"
        raise ArgumentError(msg)
    return len(shape) - len(point) == 2


def _checked_offset(offset: object) -> int:
    if isinstance(offset, bool) or not isinstance(offset, int | np.integer):
        msg = f"offset must be an integer, got {offset!r}"
        raise ArgumentTypeError(msg)
    if abs(int(offset)) > LIMIT:
        msg = f"offset must be at most 2^53 in magnitude, got {offset}"
        raise ArgumentError(msg)
    return int(offset)


def _plain(number: np.float64) -> float:
    """The number, as an integer where it is one."""
    return int(number) if number.is_integer() else float(number)
