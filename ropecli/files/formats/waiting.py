"""Arrays that wait in a file without a name, for a format that is written in one go."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropecli.files.formats.flat import FlatWriter
from ropecli.files.formats.output import OutputFile
from ropecli.files.formats.source import closed_on_error
from ropecli.regular import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ropecli.files.formats.stored import Stored

_BLOCK = 1 << 20  #: Bytes that are taken out at once.


@dataclass(frozen=True)
class _Place:
    """Where an array waits, and what stands before its elements."""

    array: Stored
    header: bytes
    begin: int

    @property
    def data(self) -> int:
        return self.begin + len(self.header)

    @property
    def end(self) -> int:
        return self.data + self.array.nbytes


class Waiting:
    """Arrays, one after another in one file, whose blocks come in any order."""

    def __init__(self, folder: Path, arrays: Iterable[tuple[Stored, bytes]]) -> None:
        """Begin a file in a folder, on the disk of the output.

        Args:
            folder: The folder.
            arrays: Each with what is to stand before its elements.

        Raises:
            OSError: There is no room for it.
        """
        self._folder = folder
        self._places: dict[str, _Place] = {}
        end = 0
        for array, header in arrays:
            self._places[array.name] = place = _Place(array, header, end)
            end = place.end
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - until `close`
        with closed_on_error(self):
            self._output = OutputFile(self._file.fileno())
            self._output.set_length(end)
            for place in self._places.values():
                self._output.write(place.begin, place.header)

    def writer(self, name: str) -> FlatWriter:
        """What writes the elements of an array."""
        place = self._places[name]
        return FlatWriter(self._output, place.array, place.data)

    def elements(self, name: str, begin: int, length: int) -> bytes:
        """So many bytes of the elements of an array.

        Raises:
            FileError: They can't be read.
        """
        place = self._places[name].data + begin
        return read_bytes(self._folder, self._file.fileno(), place, length)

    def blocks(self, name: str) -> Iterator[bytes]:
        """What stands before an array, and its elements, in blocks.

        Raises:
            FileError: They can't be read.
        """
        place = self._places[name]
        for begin in range(place.begin, place.end, _BLOCK):
            length = min(_BLOCK, place.end - begin)
            yield read_bytes(self._folder, self._file.fileno(), begin, length)

    def close(self) -> None:
        """Close the file, which is gone then."""
        self._file.close()
