"""The format .npy: a header, and one array behind it.

Nothing is unpickled, and no memory is allocated from what the header says before it has been
compared with the size of the file.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from numpy.lib import format as npy_format

from ropecli.arrays import BFLOAT16, MOST_AXES, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, Format, Reader, Source, closed_on_error
from ropecli.files.formats.flat import FlatReader, FlatSink
from ropecli.files.formats.stored import Stored, label_of

_LONGEST_HEADER = 10_000  #: Bytes; NumPy itself writes 118.
#: Bytes that contain any header that is accepted.
HEADER_BYTES = npy_format.MAGIC_LEN + 4 + _LONGEST_HEADER
#: Bytes of the header's length, and NumPy's parser, by version. Version 3.0 differs from 2.0 in
#: the letters that names of fields may have, and arrays with fields are refused.
_VERSIONS = {
    (1, 0): (2, npy_format.read_array_header_1_0),
    (2, 0): (4, npy_format.read_array_header_2_0),
    (3, 0): (4, npy_format.read_array_header_2_0),
}


class Stream(Protocol):
    """Bytes that come in order."""

    def readinto(self, into: memoryview, /) -> int | None:
        """Fill what is available, waiting for at least a byte; return 0 at the end."""


def read_up_to(stream: Stream, length: int) -> bytes:
    """Return the next bytes of a stream; fewer than `length` only at its end."""
    data = bytearray(length)
    place = 0
    while place < length and (count := stream.readinto(memoryview(data)[place:])):
        place += count
    return bytes(data[:place])


class NpySource(FileSource):
    """`Source` of a .npy file."""

    header: NpyHeader

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a .npy file")
        with closed_on_error(self):
            self.header = read_header(path, self.fd)
        self.arrays = {"": self.header.stored}

    def reader(self, stored: Stored) -> Reader:
        """Return the reader of the array."""
        return FlatReader(self.fd, stored, len(self.header.content))


@dataclass(frozen=True, kw_only=True)
class NpyHeader:
    """Header of a .npy file."""

    stored: Stored
    content: bytes  #: All bytes before the elements.


def read_header(path: Path, fd: int) -> NpyHeader:
    """Read and check the header of an open file."""
    try:
        size = os.fstat(fd).st_size
        start = os.pread(fd, HEADER_BYTES, 0)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror}") from None
    return parse_header(path, start, size)


def read_stream_header(
    path: Path, stream: Stream, size: int | None = None, *, name: str = ""
) -> NpyHeader:
    """Read the header of a stream, and not a byte more."""
    start = read_up_to(stream, npy_format.MAGIC_LEN + 4)
    if start.startswith(npy_format.MAGIC_PREFIX):
        width = 2 if start[6:7] == b"\1" else 4
        length = int.from_bytes(start[8 : 8 + width], "little")
        end = min(npy_format.MAGIC_LEN + width + length, HEADER_BYTES)
        start += read_up_to(stream, end - len(start))
    return parse_header(path, start, size, name=name)


def parse_header(path: Path, start: bytes, size: int | None, *, name: str = "") -> NpyHeader:
    """Parse and check a header."""
    label = label_of(path, name)
    if not start.startswith(npy_format.MAGIC_PREFIX):
        what = "is empty" if not start else f"starts with {start[:6]!r}"
        raise FileError(f"{label} {what}; expected a .npy file")
    version = tuple(start[6:8])
    if version not in _VERSIONS:
        shown = ".".join(str(part) for part in version)
        raise FileError(f"{label} has .npy version {shown}; expected 1.0, 2.0 or 3.0")
    width, parse = _VERSIONS[version]
    length = int.from_bytes(start[8 : 8 + width], "little")
    end = npy_format.MAGIC_LEN + width + length
    if length > _LONGEST_HEADER:
        raise FileError(
            f"{label} has a .npy header of {length:,} bytes; expected at most {_LONGEST_HEADER:,}"
        )
    if len(start) < end:
        raise FileError(f"{label} is cut short within its .npy header")
    header = start[:end]
    # Python 2 wrote integers as 10L. NumPy reads them too, but warns.
    readable = re.sub(rb"(?<=\d)\s*L", lambda match: b" " * len(match[0]), header)
    try:
        with warnings.catch_warnings():  # of other traces of Python 2
            warnings.simplefilter("ignore")
            stream = io.BytesIO(readable[npy_format.MAGIC_LEN :])
            shape, fortran_order, dtype = parse(stream)
    # Exceptions that the parser raises for damaged headers have no common base below Exception.
    except Exception:
        raise FileError(f"{label} has a damaged .npy header") from None
    if not is_shape(shape):
        raise FileError(
            f"{label} has an impossible shape in its .npy header; "
            f"expected at most {MOST_AXES} lengths of 0 or more"
        )
    stored = Stored(path=path, name=name, shape=shape, dtype=dtype, fortran_order=fortran_order)
    if not dtype.hasobject and size is not None and size != end + stored.nbytes:
        raise FileError(
            f"{label} holds {size - end:,} bytes after its header, "
            f"but shape {shape} of {stored.described} needs {stored.nbytes:,}"
        )
    return NpyHeader(stored=stored, content=header)


def header_for(array: Stored, source: Source) -> bytes:
    """Return the header of an array: that of the .npy file it comes from, else NumPy's own."""
    return source.header.content if isinstance(source, NpySource) else new_header(array)


def new_header(array: Stored) -> bytes:
    """Return the header that NumPy itself writes."""
    descr = "|V2" if array.dtype == BFLOAT16 else npy_format.dtype_to_descr(array.dtype)
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": array.fortran_order, "shape": array.shape}
    npy_format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> FlatSink:
    """Begin a file, with the header of another .npy file byte for byte."""
    (array,) = arrays
    header = header_for(array, source)
    places = {array.name: (array, len(header))}
    return FlatSink(part, header, places, len(header) + array.nbytes)


NPY = Format(suffixes=(".npy",), open=NpySource, create=_create)
