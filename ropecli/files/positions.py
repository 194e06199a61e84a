"""The positions of the rows of a file, taken a block at a time."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.files.npy import NpyReader, open_numbers
from ropecli.rotary.positions import LIMIT, as_positions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ropecli.files.axes import Axes

_CHUNK = 1 << 18  #: Positions that are checked at a time.


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """Where the rows of an array stand: counted along the sequence, or looked up."""

    axes: Axes
    offset: int  #: Added to every position.
    per_batch: bool  #: Whether they differ along the first axis.
    coordinates: int  #: That each position has; 1 where it is a number.
    #: From indices, counted over (sequence,) or (batch, sequence), to what stands there.
    lookup: Callable[[NDArray[np.int64]], NDArray[Any]]

    @property
    def size(self) -> int:
        """How many there are."""
        return self.axes.sequence * (self.axes.file.shape[0] if self.per_batch else 1)

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last, as integers where they are; None where there are none.

        Of a position with several coordinates it is the first of them.
        """
        if not self.size:
            return None
        first, last = (self.at(np.array([k])).flat[0] for k in (0, self.size - 1))
        return _plain(first), _plain(last)

    def of_rows(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """The positions of rows, counted in the order of the file."""
        axes = self.axes
        index = rows // axes.sequence_stride % axes.sequence
        if self.per_batch:
            index += rows // axes.batch_stride % axes.file.shape[0] * axes.sequence
        return self.at(index)

    def at(self, index: NDArray[np.int64]) -> NDArray[np.float64]:
        """The positions at the indices given, offset included: (count,) or (count, coordinates).

        Raises:
            ArgumentError: Not finite, or beyond 2^53 in magnitude.
            ArgumentTypeError: Not integers or floats.
        """
        if self.coordinates > 1:
            index = index[:, None] * self.coordinates + np.arange(self.coordinates)
        found = as_positions(self.lookup(index.ravel()).reshape(index.shape))
        # Held against the limit before adding, which would round.
        bad = (found > LIMIT - self.offset) | (found < -LIMIT - self.offset)
        if bad.any():
            msg = (
                "positions must be at most 2^53 in magnitude, "
                f"got {_plain(found[bad][0])} with offset {self.offset}"
            )
            raise ArgumentError(msg)
        return found + self.offset

    def check(self) -> None:
        """Go through all of them.

        Raises:
            ArgumentError: As `at`.
            ArgumentTypeError: As `at`.
        """
        for first in range(0, self.size, _CHUNK):
            try:
                self.at(np.arange(first, min(first + _CHUNK, self.size)))
            except ArgumentError as error:
                if not first:
                    raise
                msg = f"{error} (counted from index {first})"
                raise ArgumentError(msg) from None


@contextlib.contextmanager
def open_positions(
    source: object, axes: Axes, offset: object = 0, *, coordinates: int = 1
) -> Iterator[Positions]:
    """Open the positions of an array in a file, checked.

    Args:
        source: (sequence,) or (batch, sequence), batch being the first axis; an array, or the path
            of a .npy file. None counts 0, 1, 2, ...
        axes: Those of the array.
        offset: Added to every position.
        coordinates: Of each position; where there are several they are the source's last axis.

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
            axes=axes, offset=shift, per_batch=False, coordinates=1, lookup=lambda index: index
        )
        return
    with contextlib.ExitStack() as stack:
        shape: tuple[int, ...]
        lookup: Callable[[NDArray[np.int64]], NDArray[Any]]
        if isinstance(source, str | os.PathLike):
            reader = stack.enter_context(open_numbers(source))
            shape, lookup = reader.file.shape, partial(_read, reader)
        else:
            array = as_array("positions", source)
            shape, lookup = array.shape, array.reshape(-1).__getitem__
        positions = Positions(
            axes=axes,
            offset=shift,
            per_batch=_is_per_batch(shape, axes, coordinates),
            coordinates=coordinates,
            lookup=lookup,
        )
        positions.check()
        yield positions


def _read(reader: NpyReader, index: NDArray[np.int64]) -> NDArray[Any]:
    """Read the elements at the indices given, counted in C order, run by run."""
    shape = reader.file.shape
    if reader.file.fortran_order:
        index = np.ravel_multi_index(np.unravel_index(index, shape), shape, order="F")
    wanted, places = np.unique(index, return_inverse=True)
    found = np.empty(len(wanted), reader.file.dtype)
    cuts = np.flatnonzero(np.diff(wanted) != 1) + 1
    for run, out in zip(np.split(wanted, cuts), np.split(found, cuts), strict=True):
        reader.read_run(int(run[0]), out)
    values: NDArray[Any] = found[places]
    return values


def _is_per_batch(shape: tuple[int, ...], axes: Axes, coordinates: int) -> bool:
    point = (coordinates,) if coordinates > 1 else ()
    allowed: list[tuple[int, ...]] = [(axes.sequence, *point)]
    if axes.sequence_axis > 0:
        allowed.append((axes.file.shape[0], axes.sequence, *point))
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
