"""The format .npz: a zip archive of .npy files."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from ropecli.files.formats.npy import header_for
from ropecli.files.formats.npz_archive import MEMBER, NpzSource, is_array
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stored import check_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ropecli.files.formats.flat import FlatWriter
    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored

_BLOCK = 1 << 20  #: Bytes that are copied at once.
_LONGEST_NAME = (1 << 16) - 1 - len(MEMBER)  #: Bytes.


class Npz:
    """As `Format`."""

    suffixes = (".npz",)
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> NpzSource:
        """As `Format.open`."""
        return NpzSource(path)

    def as_stored(self, array: Stored) -> Stored:
        """As `Format.as_stored`: in every dtype, byte order and memory order."""
        check_name(
            array.path,
            array.name,
            lambda name: "\0" not in name and len(name.encode()) <= _LONGEST_NAME,
        )
        return array

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpzSink:
        """As `Format.create`: members of another archive stay packed as they were."""
        return NpzSink(part, arrays, source)

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> NpzSink:
        """As `Format.resume`, which this format does not allow."""
        raise AssertionError


class NpzSink:
    """As `Sink`. Arrays wait in a temporary file, since a zip archive is written in one go."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        """Begin a file without a name, on the disk of the archive."""
        self._part = part
        self._names = {array.name + MEMBER: array.name for array in arrays}
        headers = (
            source.headers[array.name].content
            if isinstance(source, NpzSource)
            else header_for(array, source)
            for array in arrays
        )
        self._waiting = Spool(part.parent, zip(arrays, headers, strict=True))

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return self._waiting.writer(name)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`; members stand, and are packed, as in the archive that was read."""
        with zipfile.ZipFile(self._part, "w") as archive:
            if not isinstance(source, NpzSource):
                for name in self._names:
                    self._pack(archive, zipfile.ZipInfo(name))
                return
            archive.comment = source.archive.comment
            for name, member in source.members.items():
                if name in self._names:
                    self._pack(archive, _like(member))
                elif not is_array(member) or name.removesuffix(MEMBER) in rest:
                    _copy(archive, source, member)

    def _pack(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        with archive.open(info, "w", force_zip64=True) as packed:
            for block in self._waiting.blocks(self._names[info.filename]):
                packed.write(block)

    def close(self) -> None:
        """As `Sink.close`."""
        self._waiting.close()


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
