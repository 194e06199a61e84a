"""Arrays that come as a stream: read in order, or unpacked into a file without a name."""

from __future__ import annotations

import contextlib
import tempfile
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ropecli.errors import FileError
from ropecli.files.formats.flat import FlatReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.files.formats.stored import Box, Stored

_BLOCK = 1 << 20  #: Bytes that are unpacked at once.


class Stream(Protocol):
    """Bytes that come in order."""

    def readinto(self, into: memoryview, /) -> int:
        """Fill as much as comes at once, for which it waits; 0 at the end."""


class StreamReader:
    """As `Reader`. What is asked for in another order than the stream's is unpacked first.

    So are arrays in Fortran order, whose vectors lie in pieces all over the stream.
    """

    in_order = True

    def __init__(self, stream: Stream, stored: Stored) -> None:
        """Read from a stream that stands at the first element."""
        self.stored = stored
        self._stream = stream
        self._place = 0  # in bytes
        self._rest: FlatReader | None = None

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        if not out.size:
            return
        comes_next = self._place // self.stored.dtype.itemsize, out.size
        in_pieces = self.stored.fortran_order or run_of(box, self.stored) != comes_next
        if self._rest is None and in_pieces:
            self._rest = self._unpacked()
        if self._rest is not None:
            self._rest.read(box, out)
            return
        self.fill(out.reshape(-1).view(np.uint8).data)
        if not self.stored.dtype.isnative:
            out.byteswap(inplace=True)

    def fill(self, into: memoryview) -> None:
        """Take the next bytes.

        Raises:
            FileError: There are fewer, or they can't be read.
        """
        stored = self.stored
        while into:
            with translate_read_errors(stored.label):
                count = self._stream.readinto(into)
            if not count:
                msg = f"{stored.label} ends after {self._place:,} bytes of elements; "
                msg += f"shape {stored.shape} of {stored.described} needs {stored.nbytes:,}"
                raise FileError(msg)
            self._place += count
            into = into[count:]

    def _unpacked(self) -> FlatReader:
        """What reads a temporary file of all that is left."""
        stored, begin = self.stored, self._place
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as its reader
        reader = FlatReader(file.fileno(), stored, -begin)
        weakref.finalize(reader, file.close)
        block = memoryview(bytearray(min(_BLOCK, stored.nbytes - begin)))
        for place in range(begin, stored.nbytes, _BLOCK):
            part = block[: stored.nbytes - place]
            self.fill(part)
            try:
                file.write(part)
                file.flush()
            except OSError as error:
                msg = f"cannot unpack {stored.label} into {tempfile.gettempdir()}: {error.strerror}"
                raise FileError(msg) from None
        return reader


def run_of(box: Box, stored: Stored) -> tuple[int, int]:
    """Where a part begins in its file, and how far on it ends, in elements.

    It lies in one piece where that is as many elements as it has.
    """
    shape = stored.shape
    if stored.fortran_order:
        box, shape = box[::-1], shape[::-1]
    first = int(np.ravel_multi_index([part.start for part in box], shape))
    last = int(np.ravel_multi_index([part.stop - 1 for part in box], shape))
    return first, last - first + 1


@contextlib.contextmanager
def translate_read_errors(label: str) -> Iterator[None]:
    """Turn whatever a parser makes of a damaged file into one line.

    Args:
        label: Of the file.

    Raises:
        FileError: In place of any other exception.
    """
    try:
        yield
    except FileError:
        raise
    # What parsers were seen to raise for damaged files has no common base below Exception.
    except Exception as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        shown = "".join(letter if letter.isprintable() else "?" for letter in said)
        msg = f"cannot read {label}: {shown or type(error).__name__}"
        raise FileError(msg) from None
