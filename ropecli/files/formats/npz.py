"""The format .npz: a zip archive of .npy files."""

from __future__ import annotations

import io
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16
from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Source, closed_on_error
from ropecli.files.formats.library import translate_read_errors
from ropecli.files.formats.npy import read_stream_header
from ropecli.files.formats.packed import Arrays, PackedSink, PackedSource
from ropecli.files.formats.stored import Stored, check_name, label_of, short, unreadable
from ropecli.regular import open_regular

_MEMBER = ".npy"  #: What NumPy appends to the name of an array.
_LONGEST_NAME = (1 << 16) - 1 - len(_MEMBER)  #: Bytes.
_LONGEST_INDEX = 1 << 22  #: Bytes: 50,000 members or so.
_ENCRYPTED = 1  #: Among the flags of a member.
#: Packings that NumPy writes. A few bytes of another one may expand to gigabytes at once.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


class _Source(PackedSource):
    """An archive; its arrays are those that NumPy finds, with and without a suffix."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _BoundedFile(open_regular(path, "a .npz file"))
        with closed_on_error(self), translate_read_errors(str(path)):
            self.archive = zipfile.ZipFile(self._file)
            self.members = self.archive.infolist()
            if twice := _ambiguous_key([member.filename for member in self.members]):
                raise FileError(f"{path} holds {short(repr(twice))} twice")
            if any(member.filename == _MEMBER for member in self.members):
                raise FileError(f"{path} holds an array without a name")
            self.array_members = {
                member.filename.removesuffix(_MEMBER): member
                for member in self.members
                if member.filename.endswith(_MEMBER) or self._starts_as_array(member)
            }
            self.arrays = _Arrays(self)

    def open_member(self, member: zipfile.ZipInfo) -> zipfile.ZipExtFile:
        """Open a member that is packed as NumPy packs."""
        if member.flag_bits & _ENCRYPTED or member.compress_type not in _PACKINGS:
            raise FileError(
                f"{self.path}: {short(member.filename)} is packed or encrypted as NumPy does not "
                "do it; expected a file of numpy.savez"
            )
        stream = self.archive.open(member)
        assert isinstance(stream, zipfile.ZipExtFile)  # as it is open for reading
        return stream

    def copy(self, member: zipfile.ZipInfo, archive: zipfile.ZipFile) -> None:
        """Copy a member into another archive."""
        label = label_of(self.path, member.filename.removesuffix(_MEMBER))
        with (
            translate_read_errors(label),
            self.open_member(member) as old,
            _begin(archive, _like(member)) as new,
        ):
            shutil.copyfileobj(old, new)

    def load(self, name: str) -> NDArray[Any]:
        """Return an array."""
        with self.open_member(self.array_members[name]) as stream:
            array: NDArray[Any] = npy_format.read_array(stream, allow_pickle=False)
        return array

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _starts_as_array(self, member: zipfile.ZipInfo) -> bool:
        try:
            with self.open_member(member) as stream:
                return stream.read(len(npy_format.MAGIC_PREFIX)) == npy_format.MAGIC_PREFIX
        except Exception:  # whatever zipfile raises for a member that is none of the arrays
            return False

    def describe(self, name: str) -> Stored:
        """Return an array as its header describes it."""
        member = self.array_members[name]
        try:
            with translate_read_errors(short(name)), self.open_member(member) as stream:
                return read_stream_header(self.path, stream, member.file_size, name=name).stored
        except FileError as error:
            return unreadable(self.path, name, f"what can't be read: {error}")


class _BoundedFile(io.FileIO):
    """A file that refuses the read with which `zipfile` would load an endless index."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _LONGEST_INDEX:
            raise ValueError(f"an index of {size:,} bytes, expected at most {_LONGEST_INDEX:,}")
        return super().read(-1 if size is None else size)


class _Arrays(Mapping[str, Stored]):
    """Arrays by name, the header of each read when it is asked for: there may be thousands."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._described: dict[str, Stored] = {}

    def __getitem__(self, name: str) -> Stored:
        if name not in self._described:
            self._described[name] = self._source.describe(name)
        return self._described[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._source.array_members)

    def __len__(self) -> int:
        return len(self._source.array_members)


def _write(part: Path, arrays: Arrays, source: Source) -> None:
    """Write arrays, among the members of the archive that they come from."""
    with zipfile.ZipFile(part, "w") as archive:
        if not isinstance(source, _Source):
            for name, array in arrays.items():
                _write_array(archive, zipfile.ZipInfo(name + _MEMBER), array)
            return
        archive.comment = source.archive.comment
        names = {member.filename: name for name, member in source.array_members.items()}
        for member in source.members:
            name = names.get(member.filename, "")
            if name in arrays:
                _write_array(archive, _like(member), arrays[name])
                continue
            source.copy(member, archive)


def _write_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, array: NDArray[Any]) -> None:
    with _begin(archive, member) as stream:
        elements = array.view("V2") if array.dtype == BFLOAT16 else array
        npy_format.write_array(stream, elements, allow_pickle=False)


def _begin(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    return archive.open(member, "w", force_zip64=True)


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


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> PackedSink:
    twice = _ambiguous_key([array.name + _MEMBER for array in arrays])
    if twice and not isinstance(source, _Source):
        raise FileError(
            f"cannot write {arrays[0].path}: NumPy would find two arrays under the name "
            f"{short(repr(twice))}"
        )
    return PackedSink(part, arrays, source, write=_write)


NPZ = Format(
    suffixes=(".npz",), named=True, packed=True, open=_Source, create=_create, as_stored=_as_stored
)
