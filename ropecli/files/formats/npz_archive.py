"""A .npz file that is read: a zip archive, whose every word is a claim.

Nothing is unpacked but in small steps, and whatever the reader of archives makes of damage becomes
one line.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, closed_on_error, translate_read_errors
from ropecli.files.formats.density import check_density
from ropecli.files.formats.npy import HEADER_BYTES, NpyHeader, parse_header
from ropecli.files.formats.stream import StreamReader
from ropecli.files.formats.zip_index import BoundedFile
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ropecli.files.formats.protocol import Reader
    from ropecli.files.formats.stored import Stored

MEMBER = ".npy"  #: How the name of an array ends in the archive.
_STEP = 1 << 20  #: Bytes, packed and unpacked, that are taken at once.
_HEADER_STEP = 1 << 14  #: The same where only a header is wanted.
#: Packed bytes taken at once where the library does not bound what they unpack to: of bzip2, 45
#: bytes may hold 46 MB.
_SHORT_STEP = 32
_STEPS = {zipfile.ZIP_STORED: _STEP, zipfile.ZIP_DEFLATED: _STEP}
_ENCRYPTED = 1  #: Among the flags of a member.


class NpzSource(FileSource):
    """As `Source`."""

    def __init__(self, path: Path) -> None:
        """Open an archive, and read its index."""
        super().__init__(path, open_regular(path, "a .npz file"))
        with closed_on_error(self), translate_read_errors(str(path)):
            self.archive = zipfile.ZipFile(BoundedFile(self.fd, closefd=False))
            self.members = self._checked(self.archive.infolist())
            self.headers = _Headers(self)
        self.arrays = _Arrays(self.headers)

    def _checked(self, members: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
        """All members by their names."""
        found = {member.filename: member for member in members}
        if len(found) != len(members):
            twice = next(m.filename for m in members if found[m.filename] is not m)
            msg = f"{self.path} holds {twice!r} twice"
            raise FileError(msg)
        if MEMBER in found:
            msg = f"{self.path} holds an array without a name"
            raise FileError(msg)
        unpacked = sum(member.file_size for member in members)
        check_density(str(self.path), os.fstat(self.fd).st_size, unpacked)
        return found

    def reader(self, stored: Stored) -> Reader:
        """As `Source.reader`."""
        stream = self.unpacked(self.members[stored.name + MEMBER])
        stream.read(len(self.headers[stored.name].content))
        return StreamReader(stream, stored)

    def unpacked(self, member: zipfile.ZipInfo, step: int = _STEP) -> Unpacked:
        """What a member holds.

        Args:
            member: The member.
            step: Bytes that are unpacked at once, or fewer.

        Raises:
            FileError: It is damaged, encrypted, or packed in an unknown way.
        """
        if member.flag_bits & _ENCRYPTED:
            msg = f"{self.path}: {member.filename} is encrypted, which is not allowed"
            raise FileError(msg)
        label = f"{self.path}: {member.filename.removesuffix(MEMBER)}"
        with translate_read_errors(label):
            stream = self.archive.open(member)
        assert isinstance(stream, zipfile.ZipExtFile), "that is what is opened to be read"
        return Unpacked(stream, label, min(step, _STEPS.get(member.compress_type, _SHORT_STEP)))


class Unpacked:
    """A member that is unpacked a little at a time, as `Stream`."""

    def __init__(self, stream: zipfile.ZipExtFile, label: str, step: int) -> None:
        """Unpack so many bytes at once."""
        stream.MIN_READ_SIZE = stream.MAX_N = step
        self._stream = stream
        self._label = label
        self._ready = memoryview(b"")

    def readinto(self, into: memoryview, /) -> int:
        """As `Stream.readinto`."""
        if not self._ready:
            with translate_read_errors(self._label):
                self._ready = memoryview(self._stream.read1(-1))
        count = min(len(into), len(self._ready))
        into[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count

    def read(self, length: int) -> bytes:
        """The next bytes; fewer only at the end."""
        found = bytearray(length)
        place = 0
        while place < length and (count := self.readinto(memoryview(found)[place:])):
            place += count
        return bytes(found[:place])


class _Headers(Mapping[str, NpyHeader]):
    """The headers of arrays by name, each read when it is asked for: there may be thousands."""

    def __init__(self, source: NpzSource) -> None:
        self._source = source
        self._found: dict[str, NpyHeader] = {}
        members = source.members.values()
        self._members = {m.filename.removesuffix(MEMBER): m for m in members if is_array(m)}

    def __getitem__(self, name: str) -> NpyHeader:
        if name not in self._found:
            member, path = self._members[name], self._source.path
            start = self._source.unpacked(member, _HEADER_STEP).read(HEADER_BYTES)
            self._found[name] = parse_header(path, start, member.file_size, name=name)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


class _Arrays(Mapping[str, "Stored"]):
    """The arrays that headers describe."""

    def __init__(self, headers: _Headers) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> Stored:
        return self._headers[name].stored

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers)

    def __len__(self) -> int:
        return len(self._headers)


def is_array(member: zipfile.ZipInfo) -> bool:
    """Whether a member is a .npy file."""
    return member.filename.endswith(MEMBER)
