"""The format .npy: a header, and one array in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ropecli.files.formats.flat import FlatReader, FlatWriter
from ropecli.files.formats.npy_header import read_header, written_header
from ropecli.files.formats.output import OutputFile
from ropecli.files.formats.source import FileSource, closed_on_error
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ropecli.files.formats.protocol import Reader, Source
    from ropecli.files.formats.stored import Stored


class Npy:
    """As `Format`."""

    suffixes = (".npy",)
    named = False
    random = True
    folder = False

    def open(self, path: Path) -> NpySource:
        """As `Format.open`."""
        return NpySource(path)

    def kept(self, array: Stored) -> Stored:
        """As `Format.kept`: in every dtype, byte order and memory order."""
        return array

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpySink:
        """As `Format.create`: with the header of another .npy file byte for byte."""
        sink = self.resume(part, arrays, source)
        with closed_on_error(sink):
            sink.begin()
        return sink

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpySink:
        """As `Format.resume`."""
        (array,) = arrays
        like = source.header.content if isinstance(source, NpySource) else written_header(array)
        return NpySink(part, array, like)


class NpySource(FileSource):
    """As `Source`."""

    def __init__(self, path: Path) -> None:
        """Open a file."""
        super().__init__(path, open_regular(path, "a .npy file"))
        with closed_on_error(self):
            self.header = read_header(path, self.fd)
        self.arrays = {"": self.header.stored}

    def reader(self, stored: Stored) -> Reader:
        """As `Source.reader`."""
        return FlatReader(self.fd, stored, len(self.header.content))


class NpySink:
    """As `Sink`."""

    def __init__(self, part: Path, array: Stored, header: bytes) -> None:
        """Open an existing file."""
        self._array = array
        self._header = header
        self._size = len(header) + array.nbytes
        self._file = OutputFile.opened(part, self._size)

    def begin(self) -> None:
        """Write the header, and give the file its length."""
        self._file.write(0, self._header)
        self._file.set_length(self._size)

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return FlatWriter(self._file, self._array, len(self._header))

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: nothing is left."""

    def close(self) -> None:
        """As `Sink.close`."""
        self._file.close()
