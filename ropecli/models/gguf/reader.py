"""Read the header of a GGUF file, and small tensors by name.

The format is that of ggml's docs/gguf.md, versions 2 and 3. The file is not trusted: each count
is compared with the bytes that are left before anything is allocated or looped over, and
`bounded` limits the whole. Long values, such as vocabularies, are skipped.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.models.gguf.bounded import BoundedReader
from ropecli.models.source import GGUF_MAGIC
from ropecli.regular import read_bytes, regular_file

VERSIONS = (2, 3)
_WHAT = "a GGUF file"
_ALIGNMENT = 32  #: Of the tensors' data, where no key gives it.

# Limits, several times those of the largest real files.
_LONGEST_KEY = (1 << 16) - 1  #: From the format.
_MOST_KEYS = 1 << 14
_SMALLEST_KEY = 14  #: Bytes: length of the key, one of the key, type, one of the value.
LONGEST_STRING = 1 << 16  #: Bytes; a longer one is skipped.
MOST_NUMBERS = 1 << 16  #: In an array; a longer one is skipped.
MOST_PARTS = 1 << 10  #: Strings or arrays in an array; a longer one is skipped.
DEEPEST = 4  #: Arrays within arrays.
MOST_TENSORS = 1 << 15  #: Thirty times those of the largest models.
MOST_AXES = 4
MOST_ELEMENTS = 1 << 20  #: Of a tensor that is read.
_LONGEST_NAME = 64
_SMALLEST_TENSOR = 24  #: Bytes: length of the name, number of axes, type, offset.
#: Steps of an array, a key or a tensor; a string that is skipped is one.
PART_STEPS = 16

#: Name and `struct` code of each type of number, by its code in the file.
_NUMBERS = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "B"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
_BOOL, _STRING, _ARRAY = 7, 8, 9
#: Types of tensors that are read: name, and code of a NumPy type of that size.
_TYPES = {0: ("F32", "f4"), 1: ("F16", "f2"), 28: ("F64", "f8"), 30: ("BF16", "u2")}
_READ = "F32, F16, F64 or BF16"


@dataclass(frozen=True)
class Skipped:
    """A value too long to be kept."""

    count: int  #: Elements of an array, bytes of a string.
    kind: str  #: Type of the elements; "byte" for a string.


Value: TypeAlias = "int | float | bool | str | Skipped | tuple[Value, ...]"


class TensorInfo(NamedTuple):
    """One tensor's entry in the header."""

    name: str
    shape: tuple[int, ...]  #: As NumPy orders axes, the fastest last.
    type: int  #: The number that ggml gives to the type of the elements.
    offset: int  #: Bytes from the beginning of the tensors' data.


@dataclass(frozen=True, kw_only=True, eq=False)
class GgufFile:
    """The header of a GGUF file."""

    path: Path
    version: int
    order: str  #: "<" for a little-endian file, ">" for a big-endian one.
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    data_offset: int  #: Bytes from the beginning of the file to the tensors' data.

    def tensor(self, name: str) -> NDArray[np.float64]:
        """Read the elements of a small tensor."""
        info = self.tensors.get(name)
        if info is None:
            raise FileError(f"{self.path}: has no tensor {name!r}")
        label, count = f"{self.path}: tensor {name!r}", math.prod(info.shape)
        if info.type not in _TYPES:
            raise FileError(f"{label} is of ggml type {info.type}; expected {_READ}")
        if count > MOST_ELEMENTS:
            raise FileError(f"{label} has {count:,} elements; expected at most {MOST_ELEMENTS:,}")
        kind, code = _TYPES[info.type]
        dtype = np.dtype(self.order + code)
        begin = self.data_offset + info.offset
        end = begin + count * dtype.itemsize
        with regular_file(self.path, _WHAT) as fd:
            size = os.fstat(fd).st_size
            if end > size:
                raise FileError(f"{label} ends at byte {end:,}; the file has {size:,}")
            elements = np.frombuffer(read_bytes(self.path, fd, begin, end - begin), dtype)
        if kind == "BF16":
            elements = elements.astype(np.uint16).view(BFLOAT16)
        return elements.reshape(info.shape).astype(np.float64)


def read_gguf(path: Path) -> GgufFile:
    """Read the header of a GGUF file."""
    with regular_file(path, _WHAT) as fd:
        return _read_header(BoundedReader(path, fd))


def _read_header(reader: BoundedReader) -> GgufFile:
    version = _read_version(reader)
    tensor_count = reader.number("Q", "the number of tensors")
    key_count = reader.number("Q", "the number of keys")
    metadata = _read_metadata(reader, key_count)
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        reader.refuse(f"general.alignment is {_short(alignment)}; expected a power of two")
    tensors = read_tensor_infos(reader, tensor_count)
    return GgufFile(
        path=reader.path,
        version=version,
        order=reader.order,
        metadata=MappingProxyType(metadata),
        tensors=MappingProxyType(tensors),
        data_offset=-(-reader.at // alignment) * alignment,
    )


def _read_version(reader: BoundedReader) -> int:
    start = reader.take(min(len(GGUF_MAGIC), reader.size), "the first bytes")
    if start != GGUF_MAGIC:
        what = "is empty" if not start else f"starts with {start!r}"
        reader.refuse(f"{what}; expected a GGUF file, which starts with {GGUF_MAGIC!r}")
    stored = reader.take(4, "the version")
    version = int.from_bytes(stored, "little")
    if not version & 0xFFFF:  # the low half of a small number is empty in the other byte order
        reader.order, version = ">", int.from_bytes(stored, "big")
    if version not in VERSIONS:
        reader.refuse(f"has GGUF version {version:,} at byte 4; expected 2 or 3")
    return version


def _read_metadata(reader: BoundedReader, count: int) -> dict[str, Value]:
    if count > _MOST_KEYS:
        reader.refuse(f"the header counts {count:,} keys; expected at most {_MOST_KEYS:,}")
    reader.need(count * _SMALLEST_KEY, f"the list of {count:,} keys")
    metadata: dict[str, Value] = {}
    for _ in range(count):
        reader.step(PART_STEPS)
        place = reader.at
        raw = read_string(reader, _LONGEST_KEY, "a key")
        reader.keep(300 + 4 * len(raw))
        try:
            key = raw.decode()
        except UnicodeDecodeError:
            reader.refuse(f"the key {_short(raw)} at byte {place:,} is not UTF-8")
        if not key or "\0" in key:
            reader.refuse(f"the key {_short(key)} at byte {place:,} is empty or holds a NUL")
        if key in metadata:
            reader.refuse(f"the key {_short(key)} at byte {place:,} is a duplicate")
        what = f"the value of {_short(key)}"
        metadata[key] = _value(reader, _type(reader, what), what, 0)
    return metadata


def _short(value: object) -> str:
    """Show a value in one short line."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:60]}...{shown[-10:]}"


# Values of the metadata.


def read_string(reader: BoundedReader, longest: int, what: str) -> bytes:
    """Read the next string as bytes, refused if it is too long."""
    place = reader.at
    length = reader.number("Q", f"the length of {what}")
    if length > longest:
        reader.refuse(
            f"{what} at byte {place:,} is {length:,} bytes long; expected at most {longest:,}"
        )
    return reader.take(length, what)


def _type(reader: BoundedReader, what: str) -> int:
    place = reader.at
    code: int = reader.number("I", f"the type of {what}")
    if code not in _NUMBERS and code not in {_STRING, _ARRAY}:
        reader.refuse(f"{what} is of type {code:,} at byte {place:,}; expected 0 to 12")
    return code


def _value(reader: BoundedReader, code: int, what: str, depth: int) -> Value:
    if code == _STRING:
        return _string(reader, what)
    if code == _ARRAY:
        return _array(reader, what, depth + 1)
    return _numbers(reader, code, 1, what)[0]


def _string(reader: BoundedReader, what: str) -> str | Skipped:
    length = reader.number("Q", f"the length of {what}")
    if length > LONGEST_STRING:
        reader.skip(length, what)
        return Skipped(length, "byte")
    reader.keep(80 + 4 * length)  # four bytes a character, where one of them is not in Latin-1
    return reader.take(length, what).decode(errors="replace")


def _array(reader: BoundedReader, what: str, depth: int) -> tuple[Value, ...] | Skipped:
    if depth > DEEPEST:
        reader.refuse(
            f"{what} has arrays {depth} deep at byte {reader.at:,}; expected at most {DEEPEST}"
        )
    reader.step(PART_STEPS)
    code = _type(reader, what)
    count = reader.number("Q", f"the number of elements of {what}")
    if code in _NUMBERS:
        name, form = _NUMBERS[code]
        if count > MOST_NUMBERS:
            reader.skip(count * struct.calcsize(form), what)
            return Skipped(count, name)
        return _numbers(reader, code, count, what)
    # The length of a string is 8 bytes; the type and the length of an array are 12.
    reader.need(count * (8 if code == _STRING else 12), what)
    if count <= MOST_PARTS:
        reader.keep(64 * count)
        return tuple(_value(reader, code, what, depth) for _ in range(count))
    if code == _STRING:
        reader.skip_strings(count, what)
        return Skipped(count, "string")
    for _ in range(count):
        _array(reader, what, depth + 1)
    return Skipped(count, "array")


def _numbers(
    reader: BoundedReader, code: int, count: int, what: str
) -> tuple[int | float | bool, ...]:
    name, form = _NUMBERS[code]
    size = struct.calcsize(form)
    reader.need(count * size, what)
    reader.keep(40 * count)
    place = reader.at
    array = np.frombuffer(reader.take(count * size, what), np.dtype(reader.order + form))
    if code != _BOOL:
        return tuple(array.tolist())
    if count and array.max() > 1:
        reader.refuse(f"{what} at byte {place:,} has a {name} of {array.max()}; expected 0 or 1")
    return tuple(array.astype(bool).tolist())


# Tensors.


def read_tensor_infos(reader: BoundedReader, count: int) -> dict[str, TensorInfo]:
    """Read the entries of all tensors, by name."""
    if count > MOST_TENSORS:
        reader.refuse(f"the header counts {count:,} tensors; expected at most {MOST_TENSORS:,}")
    reader.need(count * _SMALLEST_TENSOR, f"the list of {count:,} tensors")
    infos: dict[str, TensorInfo] = {}
    for _ in range(count):
        info = _read_info(reader)
        if info.name in infos:
            reader.refuse(f"duplicate tensor name {info.name!r} before byte {reader.at:,}")
        infos[info.name] = info
    return infos


def _read_info(reader: BoundedReader) -> TensorInfo:
    reader.step(PART_STEPS)
    reader.keep(600)
    name = read_string(reader, _LONGEST_NAME, "the name of a tensor").decode(errors="replace")
    place = reader.at
    axes = reader.number("I", f"the number of axes of {name!r}")
    if axes > MOST_AXES:
        reader.refuse(f"{name!r} has {axes:,} axes at byte {place:,}; expected at most {MOST_AXES}")
    shape = tuple(reader.number("Q", f"the shape of {name!r}") for _ in range(axes))[::-1]
    if not is_shape(shape):
        expected = "expected fewer than 2^59 elements"
        reader.refuse(f"{name!r} has shape {shape} before byte {reader.at:,}; {expected}")
    kind = reader.number("I", f"the type of {name!r}")
    return TensorInfo(name, shape, kind, reader.number("Q", f"the offset of {name!r}"))
