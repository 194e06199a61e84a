"""The format .safetensors: eight bytes with a length, a JSON header of that length, the data."""

from __future__ import annotations

import json
import math
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.json_text import loaded
from ropecli.files.formats.names import short
from ropecli.files.formats.stored import Stored
from ropecli.regular import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

SUFFIX = ".safetensors"
#: Bytes of a header that are still read: enough for 35,000 tensors, and for 100 MB of objects that
#: a hostile one makes of them.
LONGEST = 2**22
#: NumPy's dtypes by their names in the header.
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": BFLOAT16,
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U64": np.dtype("<u8"),
    "U32": np.dtype("<u4"),
    "U16": np.dtype("<u2"),
    "U8": np.dtype("u1"),
}
_ALIGNMENT = 8  #: Of the data, in bytes.
METADATA = "__metadata__"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """One tensor in a file."""

    name: str
    dtype: str  #: As the header names it.
    shape: tuple[int, ...]
    begin: int  #: First byte in the file.
    end: int  #: After its last byte.


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says about itself."""

    path: Path
    content: bytes  #: All that stands before the data.
    tensors: tuple[Tensor, ...]  #: In the order of their bytes.


def read_header(path: Path, fd: int) -> Header:
    """Read and check the header of an open file.

    Raises:
        FileError: Not a .safetensors file, or one that is damaged or cut short.
    """
    size = os.fstat(fd).st_size
    start = read_bytes(path, fd, 0, min(8, size))
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if not 2 <= length <= size - 8:
        raise _damaged(path, f"{size:,} bytes with no whole header")
    if length > LONGEST:
        raise _damaged(path, f"a header of {length:,} bytes; allowed are {LONGEST:,}")
    content = start + read_bytes(path, fd, 8, length)
    try:
        # A tensor has three lists and objects in 50 bytes or more.
        entries = loaded(content[8:], sparsest=10, as_object=_once)
    except ValueError as error:
        raise _damaged(path, f"a header that is no JSON object of tensors: {error}") from None
    if not isinstance(entries, dict):
        raise _damaged(path, "a header that is no JSON object")
    entries.pop(METADATA, None)
    tensors = [_tensor(path, name, entry, len(content)) for name, entry in entries.items()]
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    place = len(content)
    for tensor in tensors:
        if tensor.begin != place:
            raise _damaged(path, f"{short(repr(tensor.name))} not where the tensor before it ends")
        place = tensor.end
    if place != size:
        raise _damaged(path, f"{size:,} bytes where its header needs {place:,}")
    return Header(path=path, content=content, tensors=tuple(tensors))


def header_of(arrays: Iterable[Stored], metadata: Mapping[str, str] | None = None) -> bytes:
    """All that stands before the data of arrays that follow one another."""
    entries: dict[str, Any] = {} if metadata is None else {METADATA: dict(metadata)}
    end = 0
    for array in arrays:
        begin, end = end, end + array.nbytes
        dtype = next(key for key, known in DTYPES.items() if known == array.dtype)
        shape = list(array.shape)
        entries[array.name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return struct.pack("<Q", len(header)) + header


def serialised(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """A whole file with arrays by name, the same bytes for the same arrays."""
    header = header_of(
        Stored(path=Path(), name=name, shape=array.shape, dtype=array.dtype)
        for name, array in tensors.items()
    )
    return header + b"".join(np.ascontiguousarray(array).tobytes() for array in tensors.values())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a name stands in it twice"
        raise ValueError(msg)
    return found


def _tensor(path: Path, name: str, entry: Any, start: int) -> Tensor:
    fields = entry if isinstance(entry, dict) else {}
    dtype = fields.get("dtype")
    shape, offsets = _shape(fields.get("shape")), _offsets(fields.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None:
        raise _damaged(path, f"no dtype, shape and data_offsets of {short(repr(name))}")
    begin, end = offsets
    known = DTYPES.get(dtype)
    if end < begin or (known is not None and end - begin != math.prod(shape) * known.itemsize):
        what = f"{end - begin:,} bytes of {short(repr(name))}, {dtype} of shape {shape}"
        raise _damaged(path, what)
    return Tensor(name=name, dtype=dtype, shape=shape, begin=start + begin, end=start + end)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and is_shape(value) else None


def _offsets(value: Any) -> tuple[int, int] | None:
    whole = (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) is int and 0 <= number < 2**63 for number in value)
    )
    return (value[0], value[1]) if whole else None


def _damaged(path: Path, what: str) -> FileError:
    return FileError(f"{path} is no whole .safetensors file: it has {what}")
