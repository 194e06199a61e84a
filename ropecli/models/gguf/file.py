"""Read the header of a GGUF file, and tensors by name.

The format is that of ggml's docs/gguf.md, versions 2 and 3. Nothing here trusts the file: each
count is held against the bytes that are left before anything is made of it, and `bounded` limits
the whole. Long values, such as vocabularies, are passed over.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.models.gguf.bounded import BoundedReader
from ropecli.models.gguf.tensors import TensorInfo, as_float64, read_tensor_infos, tensor_bytes
from ropecli.models.gguf.values import PART_STEPS, Value, read_string, read_value
from ropecli.regular import opened, read_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_WHAT = "a GGUF file"
_ALIGNMENT = 32  #: Of the tensors' data, where no key says.
_LONGEST_KEY = (1 << 16) - 1  #: As the format says.
_MOST_KEYS = 1 << 14
_SMALLEST_KEY = 14  #: Bytes: length of the key, one of the key, type, one of the value.


@dataclass(frozen=True, kw_only=True, eq=False)
class GgufFile:
    """What the header of a GGUF file says."""

    path: Path
    version: int
    order: str  #: "<" for a little-endian file, ">" for a big-endian one.
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorInfo]
    data_offset: int  #: Bytes from the beginning of the file to the tensors' data.

    def tensor(self, name: str) -> NDArray[np.float64]:
        """A small tensor's elements.

        Raises:
            FileError: No such tensor, a large one, one of another type than F32, F16, BF16 and
                F64, or data that does not lie in the file.
        """
        info = self.tensors.get(name)
        if info is None:
            msg = f"{self.path}: has no tensor {name!r}"
            raise FileError(msg)
        count = tensor_bytes(info)
        if isinstance(count, str):
            msg = f"{self.path}: tensor {name!r} {count}"
            raise FileError(msg)
        place = self.data_offset + info.offset
        with opened(self.path, _WHAT) as fd:
            size = os.fstat(fd).st_size
            if place + count > size:
                msg = (
                    f"{self.path}: tensor {name!r} lies at bytes {place:,} to {place + count:,}; "
                    f"the file has {size:,}"
                )
                raise FileError(msg)
            return as_float64(info, read_bytes(self.path, fd, place, count), self.order)


def read_gguf(path: Path) -> GgufFile:
    """Read the header of a GGUF file.

    Raises:
        FileError: Not a GGUF file of version 2 or 3, one that is damaged, or one that goes beyond
            a limit.
    """
    with opened(path, _WHAT) as fd:
        return _read_header(BoundedReader(path, fd))


def _read_header(reader: BoundedReader) -> GgufFile:
    version = _read_version(reader)
    tensor_count = reader.number("Q", "the number of tensors")
    key_count = reader.number("Q", "the number of keys")
    metadata = _read_metadata(reader, key_count)
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
        reader.refuse(f"general.alignment is {_short(alignment)}; allowed is a power of two")
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
    start = reader.take(min(len(MAGIC), reader.size), "the first bytes")
    if start != MAGIC:
        what = "is empty" if not start else f"starts with {start!r}"
        reader.refuse(f"{what}; allowed is a GGUF file, which starts with {MAGIC!r}")
    stored = reader.take(4, "the version")
    version = int.from_bytes(stored, "little")
    if not version & 0xFFFF:  # the low half of a small number is empty in the other byte order
        reader.order, version = ">", int.from_bytes(stored, "big")
    if version not in VERSIONS:
        reader.refuse(f"has GGUF version {version:,} at byte 4; allowed are 2 and 3")
    return version


def _read_metadata(reader: BoundedReader, count: int) -> dict[str, Value]:
    if count > _MOST_KEYS:
        reader.refuse(f"the header counts {count:,} keys; allowed are {_MOST_KEYS:,}")
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
            reader.refuse(f"the key {_short(raw)} at byte {place:,} is no UTF-8")
        if not key or "\0" in key:
            reader.refuse(f"the key {_short(key)} at byte {place:,} is empty or holds a NUL")
        if key in metadata:
            reader.refuse(f"the key {_short(key)} at byte {place:,} is there for the second time")
        metadata[key] = read_value(reader, f"the value of {_short(key)}")
    return metadata


def _short(value: object) -> str:
    """A value for people to read, in one short line."""
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:60]}...{shown[-10:]}"
