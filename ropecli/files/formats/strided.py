"""Arrays whose elements lie in a file at steps of any length, as those of views do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.regular import read_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.files.formats.stored import Box, Stored

_SPAN = 1 << 20  #: Bytes that are read in one piece where only some of them are wanted.


class StridedReader:
    """Reads one array of an open file. Several threads may read at once."""

    in_order = False

    def __init__(self, fd: int, stored: Stored, begin: int, strides: tuple[int, ...]) -> None:
        """Read from an open file in which the array begins at a byte.

        Args:
            fd: The file.
            stored: The array.
            begin: Where its first element is.
            strides: Bytes from one element to the next, of each axis; none is negative.
        """
        self.stored = stored
        self._fd = fd
        self._begin = begin
        # The stride of an axis of one element may be any number.
        self._strides = tuple(s if n > 1 else 0 for s, n in zip(strides, stored.shape, strict=True))

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        if not out.size:
            return
        place = sum(part.start * s for part, s in zip(box, self._strides, strict=True))
        self._fill(self._begin + place, out.view(self.stored.dtype))
        if not self.stored.dtype.isnative:
            out.byteswap(inplace=True)

    def _fill(self, place: int, out: NDArray[Any]) -> None:
        """Read a part, halving it along its longest axis until it lies close together."""
        steps = [(n - 1) * stride for n, stride in zip(out.shape, self._strides, strict=True)]
        span = sum(steps) + out.itemsize
        if span <= max(_SPAN, out.itemsize):
            data = read_bytes(self.stored.path, self._fd, place, span)
            out[...] = np.ndarray(out.shape, out.dtype, data, 0, self._strides)
            return
        axis = steps.index(max(steps))
        half = out.shape[axis] // 2
        before, after = np.split(out, [half], axis)
        self._fill(place, before)
        self._fill(place + half * self._strides[axis], after)
