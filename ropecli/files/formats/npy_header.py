"""The header of a .npy file, taken for what it is: somebody's claim.

Nothing is unpickled and no memory is taken on the header's word: what it promises is held against
the size of the file first.
"""

from __future__ import annotations

import io
import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.lib import format as npy_format

from ropecli.arrays import BFLOAT16, MOST_AXES, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.stored import Stored, label_of

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST = 10_000  #: Bytes of a header that are still read; NumPy itself writes 118.
ENOUGH = npy_format.MAGIC_LEN + 4 + _LONGEST  #: Bytes that hold any header that is read.
#: Bytes of the header's length, and NumPy's reader, by version. Version 3.0 differs from 2.0 in
#: the letters that names of fields may have, and arrays with fields are refused.
_VERSIONS = {
    (1, 0): (2, npy_format.read_array_header_1_0),
    (2, 0): (4, npy_format.read_array_header_2_0),
    (3, 0): (4, npy_format.read_array_header_2_0),
}


@dataclass(frozen=True, kw_only=True)
class NpyHeader:
    """What stands before the elements."""

    stored: Stored
    content: bytes  #: All of it: the elements follow.


def read_header(path: Path, fd: int) -> NpyHeader:
    """Read and check the header of an open file.

    Raises:
        FileError: Not a .npy file, or one that is damaged or cut short.
    """
    try:
        size = os.fstat(fd).st_size
        start = os.pread(fd, ENOUGH, 0)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FileError(msg) from None
    return parse_header(path, start, size)


def parse_header(path: Path, start: bytes, size: int | None, *, name: str = "") -> NpyHeader:
    """Read and check a header.

    Args:
        path: The file, for messages.
        start: The first `ENOUGH` bytes, or all.
        size: Of header and elements; None where that will only be seen.
        name: Of the array, in a file that holds several.

    Raises:
        FileError: Not a .npy file, or one that is damaged or cut short.
    """
    label = label_of(path, name)
    if not start.startswith(npy_format.MAGIC_PREFIX):
        what = "is empty" if not start else f"starts with {start[:6]!r}"
        msg = f"{label} {what}; allowed is a .npy file"
        raise FileError(msg)
    version = tuple(start[6:8])
    if version not in _VERSIONS:
        shown = ".".join(str(part) for part in version)
        msg = f"{label} has .npy version {shown}; allowed are 1.0, 2.0 and 3.0"
        raise FileError(msg)
    width, parse = _VERSIONS[version]
    length = int.from_bytes(start[8 : 8 + width], "little")
    end = npy_format.MAGIC_LEN + width + length
    if length > _LONGEST:
        msg = f"{label} has a .npy header of {length:,} bytes; allowed are {_LONGEST:,}"
        raise FileError(msg)
    if len(start) < end:
        msg = f"{label} is cut short within its .npy header"
        raise FileError(msg)
    header = start[:end]
    # Python 2 wrote integers as 10L. NumPy reads them too, but warns.
    readable = re.sub(rb"(?<=\d)\s*L", lambda found: b" " * len(found[0]), header)
    try:
        with warnings.catch_warnings():  # of other traces of Python 2
            warnings.simplefilter("ignore")
            stream = io.BytesIO(readable[npy_format.MAGIC_LEN :])
            shape, fortran_order, dtype = parse(stream)
    # What damage was seen to raise in the parser has no common base below Exception.
    except Exception:
        msg = f"{label} has a .npy header that can't be understood"
        raise FileError(msg) from None
    if not is_shape(shape):
        msg = (
            f"{label} has a shape in its .npy header that no array has; "
            f"allowed are at most {MOST_AXES} lengths of 0 or more"
        )
        raise FileError(msg)
    stored = Stored(path=path, name=name, shape=shape, dtype=dtype, fortran_order=fortran_order)
    if not dtype.hasobject and size is not None and size != end + stored.nbytes:
        msg = (
            f"{label} holds {size - end:,} bytes after its header, "
            f"but shape {shape} of {stored.described} needs {stored.nbytes:,}"
        )
        raise FileError(msg)
    return NpyHeader(stored=stored, content=header)


def written_header(stored: Stored) -> bytes:
    """The header that NumPy would write."""
    bfloat16 = stored.dtype == BFLOAT16
    descr = "|V2" if bfloat16 else npy_format.dtype_to_descr(stored.dtype)
    stream = io.BytesIO()
    header = {"descr": descr, "fortran_order": stored.fortran_order, "shape": stored.shape}
    npy_format.write_array_header_1_0(stream, header)
    return stream.getvalue()
