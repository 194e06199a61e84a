"""Arrays kept in an unnamed file until a format writes them in one pass."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.files.formats.base import Sink, Source, closed_on_error
from ropecli.files.formats.flat import write_part
from ropecli.files.formats.stored import Box, Stored
from ropecli.regular import read_bytes, read_pieces

_ALIGNMENT = 64  #: Of each array, in bytes.


class Spool(Sink):
    """Arrays, one after another in one file, whose blocks are written in any order.

    It is the base of a `Sink` whose `finish` writes the file itself.
    """

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        """Create the file in the folder of a part."""
        self.part, self.source = part, source
        self.output = arrays[0].path  # whose name messages show
        self.stored = {array.name: array for array in arrays}
        self._begins: dict[str, int] = {}
        end = 0
        for array in arrays:
            self._begins[array.name] = begin = -(-end // _ALIGNMENT) * _ALIGNMENT
            end = begin + array.nbytes
        self._file = tempfile.TemporaryFile(dir=part.parent)  # noqa: SIM115 - until `close`
        with closed_on_error(self):
            os.truncate(self._file.fileno(), end)

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        """Write a part of an array; `block` may be overwritten."""
        write_part(self._file.fileno(), self.stored[name], self._begins[name], box, block)

    def elements(self, name: str, begin: int, length: int) -> bytes:
        """Return some bytes of an array's elements."""
        place = self._begins[name] + begin
        return read_bytes(self.part.parent, self._file.fileno(), place, length)

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the elements of an array."""
        begin = self._begins[name]
        end = begin + self.stored[name].nbytes
        for _, data in read_pieces(self.part.parent, self._file.fileno(), begin, end):
            yield data

    def map_elements(self, name: str) -> NDArray[Any]:
        """Return the elements of an array, mapped into memory."""
        array, begin = self.stored[name], self._begins[name]
        if not array.nbytes:
            return np.empty(array.shape, array.dtype)
        return self._map[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)

    @cached_property
    def _map(self) -> NDArray[np.uint8]:
        """The whole file: each mapping keeps a descriptor of its own."""
        return np.memmap(self._file, np.uint8, "c")

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()
