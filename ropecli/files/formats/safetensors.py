"""The format .safetensors: eight bytes with a length, a JSON header of that length, the data.

The format's own package maps files and writes them from memory. Blocks are read from and written
to their places instead, so the header is parsed here, and checked against the size of the file.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, Format, Source, closed_on_error
from ropecli.files.formats.flat import FlatReader, FlatSink
from ropecli.files.formats.stored import Stored, check_name, in_c_order, short, unreadable
from ropecli.regular import read_bytes, read_pieces, write_at

SUFFIX = ".safetensors"
#: Bytes of the longest header that is parsed: room for 35,000 tensors, while a hostile header grows
#: to 100 MB of objects at most.
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
_FEW = 100_000  #: Lists and objects that any header may have: 20 MB or so.
_DENSEST = 10  #: Bytes per list or object of a larger one; a tensor has three in 50 or more.
_METADATA = "__metadata__"
_FLOAT8 = {"F8_E4M3", "F8_E5M2", "F8_E8M0"}
_ALIGNMENT = 8  #: Of the data, in bytes.


class _Source(FileSource):
    def __init__(self, path: Path) -> None:
        super().__init__(path, "a .safetensors file")
        with closed_on_error(self):
            self.header = read_header(path, self.fd)
        self.tensors = {tensor.name: tensor for tensor in self.header.tensors}
        self.arrays = {name: _describe(path, t) for name, t in self.tensors.items()}

    def reader(self, stored: Stored) -> FlatReader:
        return FlatReader(self.fd, stored, self.tensors[stored.name].begin)

    def copy(self, tensor: Tensor, target: int) -> None:
        """Copy the elements of a tensor to their place in another file."""
        for place, data in read_pieces(self.path, self.fd, tensor.begin, tensor.end):
            write_at(target, place, data)


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """Header entry of one tensor."""

    name: str
    dtype: str  #: As the header names it.
    shape: tuple[int, ...]
    begin: int  #: Its first byte in the file.
    end: int  #: The byte after its last.


@dataclass(frozen=True, kw_only=True)
class Header:
    """Header of a .safetensors file."""

    path: Path
    content: bytes  #: All bytes before the data.
    tensors: tuple[Tensor, ...]  #: In the order of their data.


def read_header(path: Path, fd: int) -> Header:
    """Read and check the header of an open file."""
    size = os.fstat(fd).st_size
    start = read_bytes(path, fd, 0, min(8, size))
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
    if not 2 <= length <= size - 8:
        raise _damaged_error(path, f"{size:,} bytes without a whole header")
    if length > LONGEST:
        raise FileError(f"{path} has a header of {length:,} bytes; expected at most {LONGEST:,}")
    content = start + read_bytes(path, fd, 8, length)
    try:
        entries = _load_json(content[8:])
    except ValueError as error:
        raise _damaged_error(path, str(error)) from None
    if not isinstance(entries, dict):
        raise _damaged_error(path, "header is not a JSON object")
    metadata = entries.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise _damaged_error(path, f"{_METADATA} must be an object of strings")
    tensors = [_parse_tensor(path, name, entry, len(content)) for name, entry in entries.items()]
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    place = len(content)
    for tensor in tensors:
        if tensor.begin != place:
            name = short(repr(tensor.name))
            raise _damaged_error(path, f"{name} does not begin where the tensor before it ends")
        place = tensor.end
    if place != size:
        raise _damaged_error(path, f"{size:,} bytes, but its header needs {place:,}")
    return Header(path=path, content=content, tensors=tuple(tensors))


def encode_header(arrays: Iterable[Stored]) -> bytes:
    """Return all bytes before the data of arrays that follow one another."""
    entries: dict[str, Any] = {}
    end = 0
    for array in arrays:
        begin, end = end, end + array.nbytes
        dtype = next(key for key, known in DTYPES.items() if known == array.dtype)
        shape = list(array.shape)
        entries[array.name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return struct.pack("<Q", len(header)) + header


def serialize(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a whole file with arrays by name; equal arrays give equal bytes."""
    header = encode_header(
        Stored(path=Path(), name=name, shape=array.shape, dtype=array.dtype)
        for name, array in tensors.items()
    )
    return header + b"".join(np.ascontiguousarray(array).tobytes() for array in tensors.values())


def _describe(path: Path, tensor: Tensor) -> Stored:
    known = DTYPES.get(tensor.dtype)
    if known is not None:
        return Stored(path=path, name=tensor.name, shape=tensor.shape, dtype=known)
    what = short(tensor.dtype)
    if tensor.dtype in _FLOAT8:
        what += (
            ": rounding the rotated values to 8 bits again would lose what their scale preserves"
        )
    return unreadable(path, tensor.name, what, (tensor.end - tensor.begin,))


def _load_json(text: bytes) -> Any:
    """Parse a header of limited length, each list or object of which may take 70 times its text."""
    lists = text.count(b"[") + text.count(b"{")
    most = max(_FEW, len(text) // _DENSEST)
    if lists > most:
        raise ValueError(f"{lists:,} lists and objects, expected at most {most:,}")
    try:
        return json.loads(text.decode(), object_pairs_hook=_distinct)
    except RecursionError:
        raise ValueError("lists or objects nested too deep") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("duplicate tensor name in header")
    return entries


def _parse_tensor(path: Path, name: str, entry: Any, start: int) -> Tensor:
    fields = entry if isinstance(entry, dict) else {}
    dtype = fields.get("dtype")
    shape = _parse_shape(fields.get("shape"))
    offsets = _parse_offsets(fields.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None:
        what = f"{short(repr(name))} lacks a valid dtype, shape or data_offsets"
        raise _damaged_error(path, what)
    begin, end = offsets
    known = DTYPES.get(dtype)
    if end < begin or (known is not None and end - begin != math.prod(shape) * known.itemsize):
        what = f"{end - begin:,} bytes of {short(repr(name))}, {short(dtype)} of shape {shape}"
        raise _damaged_error(path, what)
    return Tensor(name=name, dtype=dtype, shape=shape, begin=start + begin, end=start + end)


def _parse_shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value) if isinstance(value, list) and is_shape(value) else None


def _parse_offsets(value: Any) -> tuple[int, int] | None:
    valid = (
        isinstance(value, list)
        and len(value) == 2
        and all(type(number) is int and 0 <= number < 2**63 for number in value)
    )
    return (value[0], value[1]) if valid else None


def _damaged_error(path: Path, problem: str) -> FileError:
    return FileError(f"{path} is not a whole .safetensors file: {problem}")


def _as_stored(array: Stored) -> Stored:
    """Return the array little-endian, in C order."""
    check_name(array.path, array.name, lambda name: name.encode() != _METADATA.encode())
    return in_c_order(array, "<")


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> FlatSink:
    """Begin a file, with the header of another .safetensors file byte for byte."""
    if isinstance(source, _Source):
        header, tensors = source.header.content, source.header.tensors
        begins = {tensor.name: tensor.begin for tensor in tensors}
        end = tensors[-1].end if tensors else len(header)
    else:
        header = encode_header(arrays)
        ends = list(accumulate((array.nbytes for array in arrays), initial=len(header)))
        begins = {array.name: end for array, end in zip(arrays, ends, strict=False)}
        end = ends[-1]
    places = {array.name: (array, begins[array.name]) for array in arrays}
    sink = FlatSink(part, header, places, end)
    if isinstance(source, _Source):
        with closed_on_error(sink):
            for tensor in source.header.tensors:
                if tensor.name not in places:
                    source.copy(tensor, sink.fd)
    return sink


SAFETENSORS = Format(
    suffixes=(SUFFIX,), named=True, open=_Source, create=_create, as_stored=_as_stored
)
