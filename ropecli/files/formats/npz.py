"""The format .npz: a zip archive of .npy files.

An archive may claim anything of its members. Nothing is unpacked but in small steps, and not more
than its size makes plausible.
"""

from __future__ import annotations

import contextlib
import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from numpy.lib.format import MAGIC_PREFIX

from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, Format, Reader, Source, closed_on_error
from ropecli.files.formats.library import check_density, translate_read_errors
from ropecli.files.formats.npy import new_header, read_stream_header
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stored import Stored, check_name, label_of, short
from ropecli.files.formats.stream import PieceStream, StreamReader, read_up_to

_MEMBER = ".npy"  #: What NumPy appends to the name of an array.
_LONGEST_NAME = (1 << 16) - 1 - len(_MEMBER)  #: Bytes.
_LONGEST_INDEX = 1 << 22  #: Bytes: 50,000 members or so.
_ENCRYPTED = 1  #: Among the flags of a member.
_STEP = 1 << 20  #: Bytes, packed and unpacked, that are taken at once.
_HEADER_STEP = 1 << 14  #: The same while a header is read.
#: Packed bytes taken at once where the library does not bound what they unpack to: of bzip2, 45
#: bytes may hold 46 MB.
_SHORT_STEP = 32
_STEPS = {zipfile.ZIP_STORED: _STEP, zipfile.ZIP_DEFLATED: _STEP}


class NpzSource(FileSource):
    """`Source` of an archive; headers of arrays are read when they are needed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "a .npz file")
        with closed_on_error(self), translate_read_errors(str(path)):
            self.archive = zipfile.ZipFile(_BoundedFile(self.fd, closefd=False))
            self.members = self._check_members(self.archive.infolist())
            self.array_members = {
                member.filename.removesuffix(_MEMBER): member
                for member in self.members
                if self._is_array(member)
            }
        self.arrays = _Arrays(self)

    def _check_members(self, members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
        if twice := _ambiguous_key([member.filename for member in members]):
            raise FileError(f"{self.path} holds {short(repr(twice))} twice")
        if any(member.filename == _MEMBER for member in members):
            raise FileError(f"{self.path} holds an array without a name")
        unpacked = sum(member.file_size for member in members)
        check_density(str(self.path), os.fstat(self.fd).st_size, unpacked)
        return members

    def _is_array(self, member: zipfile.ZipInfo) -> bool:
        """Return whether NumPy takes a member for an array, as it also does without a suffix."""
        if member.filename.endswith(_MEMBER):
            return True
        if member.file_size < len(MAGIC_PREFIX):
            return False
        with contextlib.suppress(FileError):
            start = read_up_to(self.unpack(member, _HEADER_STEP), len(MAGIC_PREFIX))
            return start == MAGIC_PREFIX
        return False

    def reader(self, stored: Stored) -> Reader:
        """Return the reader of an array."""
        return StreamReader(self.elements(stored.name)[1], stored)

    def elements(self, name: str, step: int = _STEP) -> tuple[Stored, PieceStream]:
        """Return the description of an array, and the stream of its elements."""
        member = self.array_members[name]
        stream = self.unpack(member, step)
        header = read_stream_header(self.path, stream, member.file_size, name=name)
        return header.stored, stream

    def unpack(self, member: zipfile.ZipInfo, step: int = _STEP) -> PieceStream:
        """Return the content of a member, unpacked at most `step` bytes at a time."""
        if member.flag_bits & _ENCRYPTED:
            raise FileError(f"{self.path}: {short(member.filename)} is encrypted")
        label = label_of(self.path, member.filename.removesuffix(_MEMBER))
        with translate_read_errors(label):
            stream = self.archive.open(member)
        assert isinstance(stream, zipfile.ZipExtFile)
        step = min(step, _STEPS.get(member.compress_type, _SHORT_STEP))
        stream.MIN_READ_SIZE = stream.MAX_N = step
        return PieceStream(_unpack(stream, label))


def _unpack(stream: zipfile.ZipExtFile, label: str) -> Iterator[bytes]:
    with translate_read_errors(label), stream:
        while piece := stream.read1(-1):
            yield piece


class _BoundedFile(io.FileIO):
    """A file that refuses the read with which `zipfile` would load an endless index."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_INDEX:
            raise ValueError(f"an index of {size:,} bytes, expected at most {_LONGEST_INDEX:,}")
        return super().read(-1 if size is None else size)


class _Arrays(Mapping[str, Stored]):
    """Arrays by name, the header of each read when it is asked for: there may be thousands."""

    def __init__(self, source: NpzSource) -> None:
        self._source = source
        self._found: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        if name not in self._found:
            self._found[name], _ = self._source.elements(name, _HEADER_STEP)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.array_members)

    def __len__(self) -> int:
        return len(self._source.array_members)


class _Sink(Spool):
    """An archive; members of another one stay packed as they are there."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        twice = _ambiguous_key([array.name + _MEMBER for array in arrays])
        if twice and not isinstance(source, NpzSource):
            raise FileError(
                f"cannot write {arrays[0].path}: NumPy would find two arrays under the name "
                f"{short(repr(twice))}"
            )
        super().__init__(part, arrays, source)

    def finish(self) -> None:
        """Write all members, in the order of the archive that was read and packed as there."""
        with zipfile.ZipFile(self.part, "w") as archive:
            source = self.source
            if not isinstance(source, NpzSource):
                for name in self.stored:
                    self._pack(archive, zipfile.ZipInfo(name + _MEMBER), name)
                return
            archive.comment = source.archive.comment
            ours = {source.array_members[name].filename: name for name in self.stored}
            for member in source.members:
                if member.filename in ours:
                    self._pack(archive, _like(member), ours[member.filename])
                else:
                    _copy(archive, source, member)

    def _pack(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> None:
        with archive.open(info, "w", force_zip64=True) as packed:
            packed.write(new_header(self.stored[name]))
            for block in self.blocks(name):
                packed.write(block)


def _copy(archive: zipfile.ZipFile, source: NpzSource, member: zipfile.ZipInfo) -> None:
    stream = source.unpack(member)
    with archive.open(_like(member), "w", force_zip64=True) as packed:
        while part := read_up_to(stream, _STEP):
            packed.write(part)


def _like(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return a member of the same name and packing."""
    info = zipfile.ZipInfo(member.filename, member.date_time)
    for name in ("compress_type", "comment", "create_system", "external_attr"):
        setattr(info, name, getattr(member, name))
    return info


def _ambiguous_key(filenames: Iterable[str]) -> str:
    """Return a name under which NumPy could find two members: it takes them with and without .npy.

    Empty if there is none.
    """
    owners: dict[str, int] = {}
    for number, filename in enumerate(filenames):
        for key in (filename, filename.removesuffix(_MEMBER)):
            if owners.setdefault(key, number) != number:
                return key
    return ""


def _is_name(name: str) -> bool:
    return "\0" not in name and len(name.encode()) <= _LONGEST_NAME


def _as_stored(array: Stored) -> Stored:
    """Return the array: every dtype, byte order and memory order can be stored."""
    check_name(array.path, array.name, _is_name)
    return array


NPZ = Format(suffixes=(".npz",), named=True, open=NpzSource, create=_Sink, as_stored=_as_stored)
