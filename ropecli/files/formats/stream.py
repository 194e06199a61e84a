"""Arrays that come as a stream: read in order, or unpacked into an unnamed file."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import FileError
from ropecli.files.formats.base import Reader
from ropecli.files.formats.flat import FlatReader, run_of
from ropecli.files.formats.library import translate_read_errors
from ropecli.files.formats.stored import Box, Stored
from ropecli.regular import COPY_BYTES


class Stream(Protocol):
    """Bytes that come in order."""

    def readinto(self, into: memoryview, /) -> int:
        """Fill what is available, waiting for at least a byte; return 0 at the end."""


class PieceStream:
    """`Stream` of pieces of any length, none of them empty."""

    def __init__(self, pieces: Iterable[bytes | memoryview]) -> None:
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readinto(self, into: memoryview, /) -> int:
        """Fill from the current piece; return 0 after the last."""
        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        count = min(len(into), len(self._rest))
        into[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def read_up_to(stream: Stream, length: int) -> bytes:
    """Return the next bytes of a stream; fewer than `length` only at its end."""
    data = bytearray(length)
    place = 0
    while place < length and (count := stream.readinto(memoryview(data)[place:])):
        place += count
    return bytes(data[:place])


class StreamReader(Reader):
    """`Reader` of a stream that is at the first element.

    Once a part is not the next in the stream, the rest of the stream is unpacked into a file. So
    are arrays in Fortran order, whose vectors are spread over the stream.
    """

    in_order = True

    def __init__(self, stream: Stream, stored: Stored) -> None:
        super().__init__(stored)
        self._stream = stream
        self._place = 0  # in bytes
        self._unpacked: FlatReader | None = None

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array."""
        if not out.size:
            return
        next_run = self._place // self.stored.dtype.itemsize, out.size
        in_order = not self.stored.fortran_order and run_of(box, self.stored) == next_run
        if self._unpacked is None and not in_order:
            self._unpacked = self._unpack()
        if self._unpacked is not None:
            self._unpacked.read(box, out)
            return
        self._fill(out.reshape(-1).view(np.uint8).data)
        if not self.stored.dtype.isnative:
            out.byteswap(inplace=True)

    def _fill(self, into: memoryview) -> None:
        stored = self.stored
        while into:
            with translate_read_errors(stored.label):
                count = self._stream.readinto(into)
            if not count:
                raise FileError(
                    f"{stored.label} ends after {self._place:,} bytes of elements; "
                    f"shape {stored.shape} of {stored.described} needs {stored.nbytes:,}"
                )
            self._place += count
            into = into[count:]

    def _unpack(self) -> FlatReader:
        """Write the rest of the stream to a temporary file, and return its reader."""
        stored, begin = self.stored, self._place
        file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as its reader exists
        reader = FlatReader(file.fileno(), stored, -begin)
        weakref.finalize(reader, file.close)
        block = memoryview(bytearray(min(COPY_BYTES, stored.nbytes - begin)))
        for place in range(begin, stored.nbytes, COPY_BYTES):
            part = block[: stored.nbytes - place]
            self._fill(part)
            try:
                file.write(part)
                file.flush()
            except OSError as error:
                raise FileError(
                    f"cannot unpack {stored.label} into {tempfile.gettempdir()}: {error.strerror}"
                ) from None
        return reader
