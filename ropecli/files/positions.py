"""The positions of the vectors of a file, taken a block at a time."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError
from ropecli.files.arrays import open_array, read_part
from ropecli.files.formats.stored import box_shape, check_numeric
from ropecli.files.version import version_of
from ropecli.numbers import integer
from ropecli.rotary.positions import LIMIT, as_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ropecli.files.axes import Axes
    from ropecli.files.formats.stored import Box
    from ropecli.files.version import Version

_CHUNK = 1 << 18  #: Positions that are checked at a time.


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """Where the vectors of an array stand: counted along the sequence, or looked up."""

    axes: Axes
    offset: int  #: Added to every position.
    given: Given | None  #: What is looked up; None where they are counted.

    @property
    def identity(self) -> str:
        """What tells them from any other positions."""
        origin = "counted" if self.given is None else self.given.origin
        return f"{origin} + {self.offset}"

    @property
    def per_batch(self) -> bool:
        """Whether they differ along the first axis."""
        return self.given is not None and self.given.per_batch

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last, as integers where they are; None where there are none.

        Of a position with several coordinates it is the first of them.
        """
        batch = self.axes.stored.shape[0] if self.per_batch else 1
        if not batch * self.axes.sequence:
            return None
        last = batch - 1, self.axes.sequence - 1
        first, final = (
            self.at(slice(row, row + 1), slice(place, place + 1)).flat[0]
            for row, place in ((0, 0), last)
        )
        return _plain(first), _plain(final)

    @property
    def furthest(self) -> float:
        """The largest in magnitude, on any axis, as an integer where it is; 0 where there are none.

        Raises:
            ArgumentError: As `at`.
            ArgumentTypeError: As `at`.
        """
        if self.given is not None:
            return self.given.furthest()
        return max(map(abs, self.ends or (0,)))

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
        if self.given is not None:
            return self.given.at(batch, sequence)
        counted = np.arange(sequence.start + self.offset, sequence.stop + self.offset)
        return counted.astype(np.float64)[None]


class Given:
    """Positions as they were given: an array, in memory or in a file."""

    def __init__(
        self,
        shape: tuple[int, ...],
        lookup: Callable[[Box], NDArray[Any]],
        *,
        origin: str,
        offset: int,
        coordinates: int,
    ) -> None:
        """Look up what stands in a part of an array.

        Args:
            shape: Of the array.
            lookup: From a part of it to what stands there.
            origin: Tells them from positions that came from elsewhere.
            offset: Added to every position.
            coordinates: That each position has; 1 where it is a number.
        """
        self.shape, self.origin = shape, origin
        self._lookup, self._offset = lookup, offset
        self._point = (coordinates,) if coordinates > 1 else ()
        self._furthest: float | None = None

    @property
    def per_batch(self) -> bool:
        """Whether they differ along the first axis."""
        return len(self.shape) - len(self._point) == 2

    def check_fits(self, axes: Axes) -> None:
        """Refuse an array of another shape.

        Raises:
            ArgumentError: It has one.
        """
        allowed: list[tuple[int, ...]] = [(axes.sequence, *self._point)]
        if axes.sequence_axis > 0:
            allowed.append((axes.stored.shape[0], axes.sequence, *self._point))
        if self.shape not in allowed:
            msg = f"positions must have shape {' or '.join(map(str, allowed))}, got {self.shape}"
            raise ArgumentError(msg)

    def at(self, batch: slice, sequence: slice) -> NDArray[np.float64]:
        """As `Positions.at`, of arrays that fit."""
        box = (batch, sequence) if self.per_batch else (sequence,)
        found = as_positions(self._lookup((*box, *(slice(0, length) for length in self._point))))
        # Held against the limit before adding, which would round.
        bad = (found > LIMIT - self._offset) | (found < -LIMIT - self._offset)
        if bad.any():
            msg = (
                f"positions must be at most 2^53 in magnitude, got {_plain(found[bad][0])} "
                f"with offset {self._offset} at index {int(np.flatnonzero(bad)[0])}"
            )
            raise ArgumentError(msg)
        return (found + self._offset).reshape(*box_shape((batch, sequence)), *self._point)

    def furthest(self) -> float:
        """Go through all of them, once; the largest in magnitude, 0 where there are none.

        Raises:
            ArgumentError: As `Positions.at`.
            ArgumentTypeError: As `Positions.at`.
        """
        if self._furthest is None:
            largest = max((np.abs(part).max() for part in self._all()), default=np.float64(0))
            self._furthest = _plain(largest)
        return self._furthest

    def _all(self) -> Iterator[NDArray[np.float64]]:
        length = self.shape[1 if self.per_batch else 0]
        for batch, sequence in self._parts(length):
            try:
                yield self.at(batch, sequence)
            except ArgumentError as error:
                counted = (batch.start * length + sequence.start) * math.prod(self._point)
                if not counted:
                    raise
                msg = f"{error} (counted from index {counted})"
                raise ArgumentError(msg) from None

    def _parts(self, length: int) -> Iterator[tuple[slice, slice]]:
        """All of them, a part at a time: several whole sequences, or a part of one."""
        count = self.shape[0] if self.per_batch else 1
        rows = max(1, _CHUNK // max(1, length))
        for row in range(0, count, rows):
            for first in range(0, length, _CHUNK):
                batch = slice(row, min(row + rows, count))
                yield batch, slice(first, min(first + _CHUNK, length))


@contextlib.contextmanager
def open_positions(
    source: object,
    offset: object = 0,
    *,
    coordinates: int = 1,
    checked: bool = False,
    version: Version = version_of,
) -> Iterator[Callable[[Axes], Positions]]:
    """Open the positions of the arrays of a file: what says where those of each are, checked.

    However many arrays there are, one file is held open, and each position is checked once.

    Args:
        source: (sequence,) or (batch, sequence), batch being the first axis; an array, or the path
            of a file of one. None counts 0, 1, 2, ...
        offset: Added to every position.
        coordinates: Of each position; where there are several they are the source's last axis.
        checked: Whether another process has gone through all of them.
        version: Tells a file from any other.

    Raises:
        ArgumentError: Positions of another shape, not finite, or beyond 2^53 in magnitude.
        ArgumentTypeError: Not integers or floats; an offset that is not an integer.
        FileError: A file that can't be read.
    """
    shift = checked_offset(offset)
    if source is None:
        yield partial(_counted, shift)
        return
    with contextlib.ExitStack() as stack:
        lookup: Callable[[Box], NDArray[Any]]
        if isinstance(source, str | os.PathLike):
            reader = stack.enter_context(open_array(source, accept=check_numeric))
            shape, lookup = reader.stored.shape, partial(read_part, reader)
            origin = version(Path(source))
        else:
            array = as_array("positions", source)
            shape, lookup = array.shape, array.__getitem__
            origin = f"{array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()}"
        given = Given(shape, lookup, origin=origin, offset=shift, coordinates=coordinates)

        def along(axes: Axes) -> Positions:
            given.check_fits(axes)
            if not checked:
                given.furthest()
            return Positions(axes=axes, offset=shift, given=given)

        yield along


def _counted(offset: int, axes: Axes) -> Positions:
    last = offset + axes.sequence - 1
    if last > LIMIT:
        msg = f"positions must be at most 2^53 in magnitude, got {offset} to {last}"
        raise ArgumentError(msg)
    return Positions(axes=axes, offset=offset, given=None)


def checked_offset(offset: object) -> int:
    """An offset, if it can be added to positions.

    Raises:
        ArgumentError: Beyond 2^53 in magnitude.
        ArgumentTypeError: Not an integer.
    """
    whole = integer("offset", offset)
    if abs(whole) > LIMIT:
        msg = f"offset must be at most 2^53 in magnitude, got {offset}"
        raise ArgumentError(msg)
    return whole


def _plain(number: np.float64) -> float:
    """The number, as an integer where it is one."""
    return int(number) if number.is_integer() else float(number)
