"""The zip archive of a .pt file: members by name, and where they begin."""

from __future__ import annotations

import os
import struct
import sys
import zipfile
from typing import TYPE_CHECKING

from ropecli.files.formats.zip_index import BoundedFile
from ropecli.regular import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAGIC = b"PK\x03\x04"  #: How a zip archive begins; what PyTorch wrote before 1.6 is none.
PICKLE = "data.pkl"
ELEMENTS = "data/"  #: How members begin that are storages; their keys follow.
_ORDER = "byteorder"
_VERSIONED = "version"
VERSION = b"3\n"  #: Of the format, which all of PyTorch since 1.6 reads.
_LONGEST_PICKLE = 1 << 23  #: Bytes.
_LONGEST_WORD = 64  #: Bytes of the other members that are read.
_BLOCK = 1 << 20  #: Bytes that are copied at once.
_ALIGNED = 64  #: Where PyTorch lets elements begin, for what maps them.
_PADDING = 0x4246  #: What PyTorch calls the field that is there for this.
_LARGE = 1 << 30  #: Bytes of a member whose length has a field of its own.
_ZIP64 = 20  #: Bytes of that field.
_LOCAL = struct.Struct("<4s22xHH")  #: What stands before a member: the lengths of what follows.


class TorchArchive:
    """An archive that is read."""

    def __init__(self, path: Path, fd: int) -> None:
        """Read the index.

        Raises:
            ValueError: It is none that torch.save writes.
            FileError: It can't be read.
        """
        self._path = path
        self._fd = fd
        if read_bytes(path, fd, 0, min(4, os.fstat(fd).st_size)) != MAGIC:
            msg = "it is no file of PyTorch 1.6 or later; allowed is what torch.save writes"
            raise ValueError(msg)
        with BoundedFile(fd, closefd=False) as stream, zipfile.ZipFile(stream) as archive:
            members = archive.infolist()
        folder = members[0].filename.partition("/")[0] + "/"
        self._members = {member.filename.removeprefix(folder): member for member in members}
        self._check(members)

    def _check(self, members: list[zipfile.ZipInfo]) -> None:
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED:
                msg = f"it holds {member.filename!r} compressed, as torch.save never does"
                raise ValueError(msg)
        if len(self._members) != len(members):
            msg = "it holds members of the same name"
            raise ValueError(msg)
        if PICKLE not in self._members or "constants.pkl" in self._members:
            msg = "it is no archive that torch.save writes"
            raise ValueError(msg)
        if self._word(_ORDER, b"little") != sys.byteorder.encode():
            msg = f"it is not {sys.byteorder}-endian, as this machine is"
            raise ValueError(msg)

    def pickle(self) -> bytes:
        """What describes the tensors.

        Raises:
            ValueError: It is too long.
            FileError: It can't be read.
        """
        return self._all(PICKLE, _LONGEST_PICKLE)

    def version(self) -> bytes:
        """The version of the format."""
        return self._word(_VERSIONED, VERSION)

    def keys(self) -> set[str]:
        """Of all storages."""
        return {n.removeprefix(ELEMENTS) for n in self._members if n.startswith(ELEMENTS)}

    def length(self, key: str) -> int:
        """Bytes of a storage.

        Raises:
            ValueError: There is none.
        """
        name = f"{ELEMENTS}{key}"
        if name not in self._members:
            msg = f"it holds no {name!r}"
            raise ValueError(msg)
        return self._members[name].file_size

    def begin(self, key: str, needed: int) -> int:
        """Where a storage begins.

        Raises:
            ValueError: It has fewer bytes than are needed.
            FileError: It can't be read.
        """
        length = self.length(key)
        if length < needed:
            msg = f"{ELEMENTS}{key} has {length:,} bytes; its tensors need {needed:,}"
            raise ValueError(msg)
        return self._begin(f"{ELEMENTS}{key}")

    def blocks(self, key: str) -> Iterator[bytes]:
        """All of a storage, in blocks."""
        begin, length = self.begin(key, 0), self.length(key)
        for place in range(begin, begin + length, _BLOCK):
            yield read_bytes(self._path, self._fd, place, min(_BLOCK, begin + length - place))

    def _begin(self, name: str) -> int:
        place = self._members[name].header_offset
        found = read_bytes(self._path, self._fd, place, _LOCAL.size)
        magic, name_length, extra_length = _LOCAL.unpack(found)
        if magic != MAGIC:
            msg = f"its index points to no member {name!r}"
            raise ValueError(msg)
        return int(place + _LOCAL.size + name_length + extra_length)

    def _word(self, name: str, default: bytes) -> bytes:
        return self._all(name, _LONGEST_WORD) if name in self._members else default

    def _all(self, name: str, longest: int) -> bytes:
        length = self._members[name].file_size
        if length > longest:
            msg = f"it has {length:,} bytes under {name!r}; allowed are {longest:,}"
            raise ValueError(msg)
        return read_bytes(self._path, self._fd, self._begin(name), length)


def write_archive(
    path: Path,
    pickle: bytes,
    storages: Iterable[tuple[str, int, Iterable[bytes]]],
    version: bytes,
) -> None:
    """Write an archive that PyTorch reads.

    Args:
        path: The file.
        pickle: What describes the tensors.
        storages: Of each the key, the length, and the elements in blocks.
        version: Of the format.

    Raises:
        OSError: It can't be written.
    """
    words: tuple[tuple[str, int, Iterable[bytes]], ...] = (
        (PICKLE, len(pickle), [pickle]),
        (_ORDER, len(sys.byteorder), [sys.byteorder.encode()]),
        (_VERSIONED, len(version), [version]),
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, length, blocks in words:
            _write(archive, name, length, blocks)
        for key, length, blocks in storages:
            _write(archive, f"{ELEMENTS}{key}", length, blocks)


def _write(archive: zipfile.ZipFile, name: str, length: int, blocks: Iterable[bytes]) -> None:
    info = zipfile.ZipInfo(f"archive/{name}")
    is_large = length >= _LARGE
    assert archive.fp is not None, "it is open"
    begin = archive.fp.tell() + _LOCAL.size + len(info.filename) + 4 + _ZIP64 * is_large
    padding = -begin % _ALIGNED
    info.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=is_large) as member:
        for block in blocks:
            member.write(block)
