"""Arrays kept in an unnamed file until a format writes them in one pass."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.files.formats.base import Sink, closed_on_error
from ropecli.files.formats.flat import write_at, write_part
from ropecli.files.formats.stored import Box, Stored
from ropecli.regular import read_bytes

_BLOCK = 1 << 20  #: Bytes read back at once.
_ALIGNMENT = 64  #: Of each array, in bytes.


@dataclass(frozen=True)
class _Entry:
    array: Stored
    header: bytes
    begin: int

    @property
    def data(self) -> int:
        return self.begin + len(self.header)

    @property
    def end(self) -> int:
        return self.data + self.array.nbytes


class Spool(Sink):
    """Arrays, one after another in one file, whose blocks are written in any order.

    It is the base of a `Sink` whose `finish` writes the file itself.
    """

    def __init__(self, folder: Path, arrays: Iterable[tuple[Stored, bytes]]) -> None:
        """Create the file."""
        self._folder = folder
        self._entries: dict[str, _Entry] = {}
        end = 0
        for array, header in arrays:
            begin = -(-end // _ALIGNMENT) * _ALIGNMENT
            self._entries[array.name] = entry = _Entry(array, header, begin)
            end = entry.end
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - until `close`
        with closed_on_error(self):
            os.truncate(self._file.fileno(), end)
            for entry in self._entries.values():
                write_at(self._file.fileno(), entry.begin, entry.header)

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        """Write a part of an array; `block` may be overwritten."""
        entry = self._entries[name]
        write_part(self._file.fileno(), entry.array, entry.data, box, block)

    def elements(self, name: str, begin: int, length: int) -> bytes:
        """Return some bytes of an array's elements."""
        place = self._entries[name].data + begin
        return read_bytes(self._folder, self._file.fileno(), place, length)

    def mapped(self, name: str) -> NDArray[Any]:
        """Return the elements of an array, mapped into memory."""
        entry = self._entries[name]
        array = entry.array
        if not array.nbytes:
            return np.empty(array.shape, array.dtype)
        return self._map[entry.data : entry.end].view(array.dtype).reshape(array.shape)

    @cached_property
    def _map(self) -> NDArray[np.uint8]:
        return np.memmap(self._file, np.uint8, "c")

    def blocks(self, name: str) -> Iterator[bytes]:
        """Yield the bytes that precede an array, and its elements."""
        entry = self._entries[name]
        for begin in range(entry.begin, entry.end, _BLOCK):
            length = min(_BLOCK, entry.end - begin)
            yield read_bytes(self._folder, self._file.fileno(), begin, length)

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()
