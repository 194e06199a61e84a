"""Arrays whose elements are contiguous in a file.

Files are read and written, not mapped: mapped pages would count towards the resident set, and a
file that shrinks would end the process.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.files.formats.base import Reader, Sink, closed_on_error
from ropecli.files.formats.stored import Box, Stored, box_shape
from ropecli.regular import read_into, write_at

#: Bytes read at once where only some of them are needed: cheaper than many short reads.
SPAN_BYTES = 1 << 20


class FlatReader(Reader):
    """One array of an open file, in which it begins at byte `begin`."""

    def __init__(self, fd: int, stored: Stored, begin: int) -> None:
        super().__init__(stored)
        self._fd = fd
        self._begin = begin

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array, in as few reads as is sensible."""
        if not out.size:
            return
        dtype = self.stored.dtype
        if not self.stored.fortran_order:
            self._fill(box, self.stored.shape, out.view(dtype))
        else:
            transposed = np.empty(out.shape[::-1], dtype)
            self._fill(box[::-1], self.stored.shape[::-1], transposed)
            out.view(dtype)[...] = transposed.T
        if not dtype.isnative:
            out.byteswap(inplace=True)

    def _fill(self, box: Box, shape: tuple[int, ...], out: NDArray[Any]) -> None:
        """Read a part of an array of this shape in C order."""
        size = self.stored.dtype.itemsize
        strides = _strides(shape, size)
        spans = [_span(box[axis:], strides[axis:], size) for axis in range(len(shape) + 1)]
        exact = [math.prod(out.shape[axis:]) * size for axis in range(len(shape) + 1)]
        axis = next(
            a for a in range(len(shape) + 1) if spans[a] == exact[a] or spans[a] <= SPAN_BYTES
        )
        for place, index in _pieces(box, strides, axis):
            part = _at(out, index)
            if spans[axis] == exact[axis]:
                self._read(self._begin + place, _as_bytes(part))
                continue
            span = bytearray(spans[axis])
            self._read(self._begin + place, memoryview(span))
            part[...] = np.ndarray(part.shape, part.dtype, span, 0, strides[axis:])

    def _read(self, place: int, into: memoryview) -> None:
        read_into(self.stored.path, self._fd, place, into)


class FlatSink(Sink):
    """`Sink` for a header and arrays at known places behind it."""

    def __init__(
        self, part: Path, header: bytes, arrays: Mapping[str, tuple[Stored, int]], size: int
    ) -> None:
        self.fd = os.open(part, os.O_WRONLY | os.O_CLOEXEC)
        self._arrays = arrays
        with closed_on_error(self):
            write_at(self.fd, 0, header)
            os.truncate(self.fd, size)

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        """Write a part of an array; `block` may be overwritten."""
        write_part(self.fd, *self._arrays[name], box, block)

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)


def run_of(box: Box, stored: Stored) -> tuple[int, int]:
    """Return the first element of a part in its file, and the elements from there to its last.

    The part is contiguous if it has as many elements.
    """
    shape = stored.shape
    if stored.fortran_order:
        box, shape = box[::-1], shape[::-1]
    strides = _strides(shape, 1)
    return _offset(box, strides), _span(box, strides, 1)


def write_part(fd: int, stored: Stored, begin: int, box: Box, block: NDArray[Any]) -> None:
    """Write a part of an array that begins at byte `begin`; `block` may be overwritten."""
    if not block.size:
        return
    dtype, shape = stored.dtype, stored.shape
    if not dtype.isnative:
        block.byteswap(inplace=True)
    if stored.fortran_order:
        block, box, shape = np.ascontiguousarray(block.T), box[::-1], shape[::-1]
    strides = _strides(shape, dtype.itemsize)
    axis = next(
        a
        for a in range(len(shape) + 1)
        if _span(box[a:], strides[a:], dtype.itemsize)
        == math.prod(block.shape[a:]) * dtype.itemsize
    )
    for place, index in _pieces(box, strides, axis):
        write_at(fd, begin + place, _as_bytes(_at(block, index)))


def _at(array: NDArray[Any], index: tuple[int, ...]) -> NDArray[Any]:
    """Return the view at an index of the first axes, even of a single element."""
    view: NDArray[Any] = array[(*index, Ellipsis)]  # type: ignore[arg-type]
    return view


def _as_bytes(array: NDArray[Any]) -> memoryview:
    """Return the bytes of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _strides(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) * size for axis in range(len(shape)))


def _offset(box: Box, strides: tuple[int, ...]) -> int:
    """Return the bytes before the first element of a part."""
    return sum(part.start * stride for part, stride in zip(box, strides, strict=True))


def _span(box: Box, strides: tuple[int, ...], size: int) -> int:
    """Return the bytes from the first element of a part to the end of its last."""
    lengths = box_shape(box)
    return sum((n - 1) * stride for n, stride in zip(lengths, strides, strict=True)) + size


def _pieces(box: Box, strides: tuple[int, ...], axis: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the byte and the index of each piece, one per index of the axes before `axis`."""
    base = _offset(box, strides)
    for index in np.ndindex(*box_shape(box[:axis])):
        yield base + sum(n * s for n, s in zip(index, strides, strict=False)), index
