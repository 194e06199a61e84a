"""The format .safetensors: eight bytes with a length, a JSON header of that length, the data."""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16
from ropecli.errors import FileError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

SUFFIX = ".safetensors"
LONGEST = 2**24  #: Bytes of a header that are still read; large models have some 100,000.
#: NumPy's dtypes by their names in the header.
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": BFLOAT16,
    "I64": np.dtype("<i8"),
}
_ALIGNMENT = 8  #: Of the data, in bytes.
_METADATA = "__metadata__"


@dataclass(frozen=True, kw_only=True)
class Stored:
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
    tensors: tuple[Stored, ...]  #: In the order of their bytes.


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """A descriptor of a regular file.

    Raises:
        FileError: It can't be read, or is none.
    """
    try:
        # Asked before opening: a pipe would wait for its other end.
        if not stat.S_ISREG(path.stat().st_mode):
            msg = f"{path} is no regular file"
            raise FileError(msg)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        if isinstance(error, FileError):
            raise
        msg = f"cannot read {path}: {getattr(error, 'strerror', error)}"
        raise FileError(msg) from None
    try:
        yield fd
    finally:
        os.close(fd)


def read_bytes(path: Path, fd: int, begin: int, length: int) -> bytes:
    """So many bytes from a place of an open file.

    Raises:
        FileError: The file ends too soon, or can't be read.
    """
    parts = []
    while length:
        try:
            part = os.pread(fd, length, begin)
        except OSError as error:
            msg = f"cannot read {path}: {error.strerror}"
            raise FileError(msg) from None
        if not part:
            msg = f"{path} became shorter while it was being read"
            raise FileError(msg)
        parts.append(part)
        begin, length = begin + len(part), length - len(part)
    return b"".join(parts)


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
        entries = json.loads(content[8:].decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"a header that is no JSON object of tensors: {error}") from None
    if not isinstance(entries, dict):
        raise _damaged(path, "a header that is no JSON object")
    entries.pop(_METADATA, None)
    tensors = [_stored(path, name, entry, len(content)) for name, entry in entries.items()]
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    place = len(content)
    for tensor in tensors:
        if tensor.begin != place:
            raise _damaged(path, f"{tensor.name!r} not where the tensor before it ends")
        place = tensor.end
    if place != size:
        raise _damaged(path, f"{size:,} bytes where its header needs {place:,}")
    return Header(path=path, content=content, tensors=tuple(tensors))


def serialised(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """A whole file with arrays by name, the same bytes for the same arrays."""
    entries: dict[str, Any] = {}
    data = b""
    for name, array in tensors.items():
        dtype = next(key for key, known in DTYPES.items() if known == array.dtype)
        begin = len(data)
        data += np.ascontiguousarray(array).tobytes()
        shape = list(array.shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(data)]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    return struct.pack("<Q", len(header)) + header + data


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a name stands in it twice"
        raise ValueError(msg)
    return found


def _stored(path: Path, name: str, entry: Any, start: int) -> Stored:
    fields = entry if isinstance(entry, dict) else {}
    dtype = fields.get("dtype")
    shape, offsets = _sizes(fields.get("shape")), _sizes(fields.get("data_offsets"))
    if not isinstance(dtype, str) or shape is None or offsets is None or len(offsets) != 2:
        raise _damaged(path, f"no dtype, shape and data_offsets of {name!r}")
    begin, end = offsets
    known = DTYPES.get(dtype)
    if end < begin or (known is not None and end - begin != math.prod(shape) * known.itemsize):
        raise _damaged(path, f"{end - begin:,} bytes of {name!r}, {dtype} of shape {shape}")
    return Stored(name=name, dtype=dtype, shape=shape, begin=start + begin, end=start + end)


def _sizes(value: Any) -> tuple[int, ...] | None:
    whole = isinstance(value, list) and all(
        type(number) is int and 0 <= number < 2**63 for number in value
    )
    return tuple(value) if whole else None


def _damaged(path: Path, what: str) -> FileError:
    return FileError(f"{path} is no whole .safetensors file: it has {what}")
