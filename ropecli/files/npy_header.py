"""The header of a .npy file, taken for what it is: somebody's claim.

Nothing is unpickled and no memory is taken on the header's word: what it promises is held against
the size of the file first.
"""

from __future__ import annotations

import io
import math
import os
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy_format

from ropecli.arrays import BFLOAT16, DTYPES, dtype_name
from ropecli.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST = 10_000  #: Bytes of a header that are still read; NumPy itself writes 118.
#: Bytes of the header's length, and NumPy's reader, by version. Version 3.0 differs from 2.0 in
#: the letters that names of fields may have, and arrays with fields are refused.
_VERSIONS = {
    (1, 0): (2, npy_format.read_array_header_1_0),
    (2, 0): (4, npy_format.read_array_header_2_0),
    (3, 0): (4, npy_format.read_array_header_2_0),
}
#: What a damaged header was seen to raise in the parser has no common base below Exception.
_Damage = Exception
_ALLOWED = "float64, float32, float16 and bfloat16"
_KINDS = {"S": "byte strings", "U": "strings", "b": "booleans"}


@dataclass(frozen=True, kw_only=True)
class NpyFile:
    """What a .npy file holds, and where."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype[Any]  #: As stored, byte order included.
    fortran_order: bool  #: Whether the first axis runs fastest.
    header: bytes  #: All that stands before the first element.

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """Rows and columns: the last axis lies along the columns, all others along the rows."""
        return math.prod(self.shape[:-1]), self.shape[-1]


def read_header(path: Path, fd: int) -> NpyFile:
    """Read and check the header of an open file.

    Raises:
        FileError: Not a .npy file, or one that is damaged or cut short.
    """
    try:
        size = os.fstat(fd).st_size
        start = os.pread(fd, npy_format.MAGIC_LEN + 4 + _LONGEST, 0)
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FileError(msg) from None
    if not start.startswith(npy_format.MAGIC_PREFIX):
        what = "is empty" if not start else f"starts with {start[:6]!r}"
        msg = f"{path} {what}; allowed is a .npy file"
        raise FileError(msg)
    version = tuple(start[6:8])
    if version not in _VERSIONS:
        shown = ".".join(str(part) for part in version)
        msg = f"{path} has .npy version {shown}; allowed are 1.0, 2.0 and 3.0"
        raise FileError(msg)
    width, parse = _VERSIONS[version]
    length = int.from_bytes(start[8 : 8 + width], "little")
    end = npy_format.MAGIC_LEN + width + length
    if length > _LONGEST:
        msg = f"{path} has a .npy header of {length:,} bytes; allowed are {_LONGEST:,}"
        raise FileError(msg)
    if len(start) < end:
        msg = f"{path} is cut short within its .npy header"
        raise FileError(msg)
    header = start[:end]
    # Python 2 wrote integers as 10L. NumPy reads them too, but warns.
    readable = re.sub(rb"(?<=\d)\s*L", lambda found: b" " * len(found[0]), header)
    try:
        shape, fortran_order, dtype = parse(io.BytesIO(readable[npy_format.MAGIC_LEN :]))
    except _Damage:
        msg = f"{path} has a .npy header that can't be understood"
        raise FileError(msg) from None
    if any(isinstance(n, bool) or n < 0 for n in shape):
        msg = f"{path} has shape {shape} in its .npy header; lengths must be 0 or more"
        raise FileError(msg)
    file = NpyFile(path=path, shape=shape, dtype=dtype, fortran_order=fortran_order, header=header)
    if not dtype.hasobject and size != end + file.nbytes:
        msg = (
            f"{path} holds {size - end:,} bytes after its header, "
            f"but shape {shape} of {_described(dtype)} needs {file.nbytes:,}"
        )
        raise FileError(msg)
    return file


def to_rotate(file: NpyFile, dtype: str | None) -> NpyFile:
    """The file with the dtype that its elements are to be taken for.

    Args:
        file: What the header says.
        dtype: "bfloat16" where 2-byte void elements are that; else only held against the header.

    Raises:
        ArgumentError: Not the name of a dtype that can be rotated.
        FileError: Elements that can't be rotated, or are not what `dtype` says.
    """
    if dtype is not None and dtype not in DTYPES:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ArgumentError(msg)
    stored = file.dtype
    if stored == np.dtype("V2"):
        if dtype == "bfloat16":
            return replace(file, dtype=BFLOAT16)
        msg = f"{file.path} holds 2-byte void elements; if they are bfloat16, use --dtype bfloat16"
        raise FileError(msg)
    name = dtype_name(stored)
    if name is None:
        msg = f"{file.path} holds {_described(stored)}; allowed are {_ALLOWED}"
        raise FileError(msg)
    if dtype not in (None, name):
        msg = f"{file.path} holds {name}, not {dtype}; leave --dtype out"
        raise FileError(msg)
    return file


def of_numbers(file: NpyFile) -> NpyFile:
    """The file, if it holds integers or floats.

    Raises:
        FileError: It holds anything else.
    """
    if file.dtype.kind not in "iuf" or file.dtype.itemsize > 8:
        msg = f"{file.path} holds {_described(file.dtype)}; allowed are integers and floats"
        raise FileError(msg)
    return file


def _described(dtype: np.dtype[Any]) -> str:
    if dtype.hasobject:
        return "Python objects, which are never loaded"
    if dtype.kind == "V":
        plain = dtype.names is None and dtype.subdtype is None
        return f"{dtype.itemsize}-byte void elements" if plain else "structured elements"
    return _KINDS.get(dtype.kind) or str(dtype.newbyteorder("="))
