"""Arrays that lie in a file in one piece, element after element.

Files are read and written, not mapped: mapped pages would count towards the resident set, and a
file that shrinks would end the process.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.files.formats.stored import Box, Stored, extents
from ropecli.regular import read_into

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.files.formats.output import OutputFile

#: Bytes read at once where only some of them are wanted: cheaper than many short reads.
_SPAN = 1 << 20


class FlatReader:
    """Reads one array of an open file. Several threads may read at once."""

    in_order = False

    def __init__(self, fd: int, stored: Stored, begin: int) -> None:
        """Read from an open file in which the array begins at a byte."""
        self.stored = stored
        self._fd = fd
        self._begin = begin

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        if not out.size:
            return
        dtype = self.stored.dtype
        if not self.stored.fortran_order:
            self._fill(box, self.stored.shape, out.view(dtype))
        else:
            turned = np.empty(out.shape[::-1], dtype)
            self._fill(box[::-1], self.stored.shape[::-1], turned)
            out.view(dtype)[...] = turned.T
        if not dtype.isnative:
            out.byteswap(inplace=True)

    def _fill(self, box: Box, shape: tuple[int, ...], out: NDArray[Any]) -> None:
        """Read a part of an array in C order, in reads that are as few as is sensible."""
        size = self.stored.dtype.itemsize
        strides = _strides(shape, size)
        lengths = [_span(box[axis:], strides[axis:], size) for axis in range(len(shape) + 1)]
        exact = [math.prod(out.shape[axis:]) * size for axis in range(len(shape) + 1)]
        axis = next(
            a for a in range(len(shape) + 1) if lengths[a] == exact[a] or lengths[a] <= _SPAN
        )
        for place, index in _starts(box, strides, axis):
            part = _within(out, index)
            if lengths[axis] == exact[axis]:
                self._read(self._begin + place, _bytes(part))
                continue
            span = bytearray(lengths[axis])
            self._read(self._begin + place, memoryview(span))
            part[...] = np.ndarray(part.shape, part.dtype, span, 0, strides[axis:])

    def _read(self, place: int, into: memoryview) -> None:
        read_into(self.stored.path, self._fd, place, into)


class FlatWriter:
    """Writes one array of an open file. Several threads may write at once."""

    def __init__(self, file: OutputFile, stored: Stored, begin: int) -> None:
        """Write to an open file in which the array begins at a byte."""
        self._file = file
        self._stored = stored
        self._begin = begin

    def place(self, box: Box) -> int:
        """Where in the file the first element of a part stands."""
        order = slice(None, None, -1 if self._stored.fortran_order else 1)
        strides = _strides(self._stored.shape[order], self._stored.dtype.itemsize)
        return self._begin + _offset(box[order], strides)

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """As `Writer.write`."""
        if not block.size:
            return
        dtype, shape = self._stored.dtype, self._stored.shape
        if not dtype.isnative:
            block.byteswap(inplace=True)
        if self._stored.fortran_order:
            block, box, shape = np.ascontiguousarray(block.T), box[::-1], shape[::-1]
        strides = _strides(shape, dtype.itemsize)
        axis = next(
            a
            for a in range(len(shape) + 1)
            if _span(box[a:], strides[a:], dtype.itemsize)
            == math.prod(block.shape[a:]) * dtype.itemsize
        )
        for place, index in _starts(box, strides, axis):
            self._file.write(self._begin + place, _bytes(_within(block, index)))


def _within(array: NDArray[Any], index: tuple[int, ...]) -> NDArray[Any]:
    """What stands at the index of the first axes: a view, even of a single element."""
    found: NDArray[Any] = array[(*index, Ellipsis)]  # type: ignore[arg-type]
    return found


def _bytes(array: NDArray[Any]) -> memoryview:
    """The bytes of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))


def _offset(box: Box, strides: tuple[int, ...]) -> int:
    """Bytes before the first element of a part."""
    return sum(part.start * stride for part, stride in zip(box, strides, strict=True))


def _span(box: Box, strides: tuple[int, ...], size: int) -> int:
    """Bytes from the first element of a part to the end of its last."""
    lengths = extents(box)
    return sum((n - 1) * stride for n, stride in zip(lengths, strides, strict=True)) + size


def _starts(box: Box, strides: tuple[int, ...], axis: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Where the pieces of a part begin, in bytes, one for each index of the axes before `axis`."""
    base = _offset(box, strides)
    for index in np.ndindex(*extents(box[:axis])):
        yield base + sum(n * s for n, s in zip(index, strides, strict=False)), index
