"""The format .safetensors: named arrays, one after another."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from ropecli.files.formats.flat import FlatReader, FlatWriter
from ropecli.files.formats.names import check_name, short
from ropecli.files.formats.output import OutputFile
from ropecli.files.formats.safetensors_header import (
    DTYPES,
    METADATA,
    Tensor,
    header_of,
    read_header,
)
from ropecli.files.formats.source import FileSource, closed_on_error
from ropecli.files.formats.stored import Stored
from ropecli.regular import open_regular, read_bytes

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ropecli.files.formats.protocol import Source

_BLOCK = 1 << 22  #: Bytes copied at once.
_FLOAT8 = {"F8_E4M3", "F8_E5M2", "F8_E8M0"}


class Safetensors:
    """As `Format`."""

    suffixes = (".safetensors",)
    named = True
    random = True
    folder = False

    def open(self, path: Path) -> SafetensorsSource:
        """As `Format.open`."""
        return SafetensorsSource(path)

    def kept(self, array: Stored) -> Stored:
        """As `Format.kept`: little-endian, in C order."""
        check_name(array.path, array.name, lambda name: name.encode() != METADATA.encode())
        dtype = array.dtype.newbyteorder("<")
        return replace(array, dtype=dtype, fortran_order=False, chunks=None)

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> SafetensorsSink:
        """As `Format.create`: with the header of another .safetensors file byte for byte."""
        sink = self.resume(part, arrays, source)
        with closed_on_error(sink):
            sink.begin()
        return sink

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> SafetensorsSink:
        """As `Format.resume`."""
        if isinstance(source, SafetensorsSource):
            header, tensors = source.header.content, source.header.tensors
            places = {tensor.name: tensor.begin for tensor in tensors}
            end = tensors[-1].end if tensors else len(header)
            return SafetensorsSink(part, arrays, header, places, end)
        header = header_of(arrays)
        ends = list(accumulate((array.nbytes for array in arrays), initial=len(header)))
        places = {array.name: end for array, end in zip(arrays, ends, strict=False)}
        return SafetensorsSink(part, arrays, header, places, ends[-1])


class SafetensorsSource(FileSource):
    """As `Source`."""

    def __init__(self, path: Path) -> None:
        """Open a file."""
        super().__init__(path, open_regular(path, "a .safetensors file"))
        with closed_on_error(self):
            self.header = read_header(path, self.fd)
        self._tensors = {tensor.name: tensor for tensor in self.header.tensors}
        self.arrays = {name: _stored(path, t) for name, t in self._tensors.items()}

    def reader(self, stored: Stored) -> FlatReader:
        """As `Source.reader`."""
        return FlatReader(self.fd, stored, self._tensors[stored.name].begin)

    def tensor(self, name: str) -> Tensor:
        """Where a tensor is."""
        return self._tensors[name]


class SafetensorsSink:
    """As `Sink`."""

    def __init__(
        self,
        part: Path,
        arrays: Sequence[Stored],
        header: bytes,
        places: dict[str, int],
        end: int,
    ) -> None:
        """Open an existing file, which will have `end` bytes."""
        self._file = OutputFile.opened(part, end)
        self._arrays = {array.name: array for array in arrays}
        self._header = header
        self._places = places
        self._end = end

    def begin(self) -> None:
        """Write the header, and give the file its length."""
        self._file.write(0, self._header)
        self._file.set_length(self._end)

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return FlatWriter(self._file, self._arrays[name], self._places[name])

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`."""
        if not isinstance(source, SafetensorsSource):
            return
        for name in rest:
            tensor = source.tensor(name)
            for place in range(tensor.begin, tensor.end, _BLOCK):
                length = min(_BLOCK, tensor.end - place)
                self._file.write(place, read_bytes(source.path, source.fd, place, length))

    def close(self) -> None:
        """As `Sink.close`."""
        self._file.close()


def _stored(path: Path, tensor: Tensor) -> Stored:
    known = DTYPES.get(tensor.dtype)
    if known is not None:
        return Stored(path=path, name=tensor.name, shape=tensor.shape, dtype=known)
    why = ": one rounding to 8 bits after turning would lose what the scale beside it keeps"
    return Stored(
        path=path,
        name=tensor.name,
        shape=(tensor.end - tensor.begin,),
        dtype=np.dtype(np.uint8),
        unreadable=short(tensor.dtype) + (why if tensor.dtype in _FLOAT8 else ""),
    )
