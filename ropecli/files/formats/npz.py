"""The format .npz: a zip archive of .npy files."""

from __future__ import annotations

import os
import tempfile
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ropecli.files.formats.flat import FlatWriter
from ropecli.files.formats.npy_header import written_header
from ropecli.files.formats.npz_archive import MEMBER, NpzSource, is_array
from ropecli.files.formats.output import OutputFile

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored

_BLOCK = 1 << 20  #: Bytes that are copied at once.


class Npz:
    """As `Format`."""

    suffixes = (".npz",)
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> NpzSource:
        """As `Format.open`."""
        return NpzSource(path)

    def kept(self, array: Stored) -> Stored:
        """As `Format.kept`: in every dtype, byte order and memory order."""
        return array

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpzSink:
        """As `Format.create`: members of another archive stay packed as they were."""
        return NpzSink(part, arrays, source)

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpzSink:
        """As `Format.resume`, which this format does not allow."""
        raise AssertionError


@dataclass(frozen=True)
class _Place:
    """Where the .npy file of an array waits to be packed."""

    array: Stored
    header: bytes
    begin: int

    @property
    def data(self) -> int:
        return self.begin + len(self.header)

    @property
    def end(self) -> int:
        return self.data + self.array.nbytes


class NpzSink:
    """As `Sink`. Arrays wait in a temporary file, since a zip archive is written in one go."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        """Begin a file without a name, on the disk of the archive."""
        self._part = part
        self._places: dict[str, _Place] = {}
        end = 0
        for array in arrays:
            header = (
                source.headers[array.name].content
                if isinstance(source, NpzSource)
                else written_header(array)
            )
            self._places[array.name + MEMBER] = place = _Place(array, header, end)
            end = place.end
        self._file = tempfile.TemporaryFile(dir=part.parent)  # noqa: SIM115 - until `close`
        try:
            self._written = OutputFile(self._file.fileno())
            self._written.set_length(end)
            for place in self._places.values():
                self._written.write(place.begin, place.header)
        except BaseException:
            self.close()
            raise

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        place = self._places[name + MEMBER]
        return FlatWriter(self._written, place.array, place.data)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`; members stand, and are packed, as in the archive that was read."""
        with zipfile.ZipFile(self._part, "w") as archive:
            if not isinstance(source, NpzSource):
                for name, place in self._places.items():
                    self._pack(archive, zipfile.ZipInfo(name), place)
                return
            archive.comment = source.archive.comment
            for name, member in source.members.items():
                if name in self._places:
                    self._pack(archive, _like(member), self._places[name])
                elif not is_array(member) or name.removesuffix(MEMBER) in rest:
                    _copy(archive, source, member)

    def _pack(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, place: _Place) -> None:
        with archive.open(info, "w", force_zip64=True) as packed:
            for begin in range(place.begin, place.end, _BLOCK):
                packed.write(os.pread(self._file.fileno(), min(_BLOCK, place.end - begin), begin))

    def close(self) -> None:
        """As `Sink.close`."""
        self._file.close()


def _copy(archive: zipfile.ZipFile, source: NpzSource, member: zipfile.ZipInfo) -> None:
    stream = source.unpacked(member)
    with archive.open(_like(member), "w", force_zip64=True) as packed:
        while part := stream.read(_BLOCK):
            packed.write(part)


def _like(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A member of the same name, packed alike; a new one has no date but the first there is."""
    info = zipfile.ZipInfo(member.filename, member.date_time)
    for name in ("compress_type", "comment", "create_system", "external_attr"):
        setattr(info, name, getattr(member, name))
    return info
