"""The format .zarr, version 3: a folder of chunks, one array or a group of arrays by name."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import import_library, translate_read_errors
from ropecli.files.formats.density import check_expansion, largest_expansion, unpacked_bytes
from ropecli.files.formats.stored import Stored, check_name, short
from ropecli.regular import open_regular, read_bytes, regular_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import zarr
    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Box

#: Bytes of a chunk: as many as are rotated at a time, few enough for several in memory, and enough
#: to keep the number of files of a terabyte within what a folder can list.
CHUNK_BYTES = 1 << 24
_LARGEST_CHUNK = 1 << 28  #: Bytes of a chunk that joins those of another format.

_METADATA = "zarr.json"  #: The file in each folder that says what the folder is.
_LONGEST_METADATA = 1 << 24  #: Bytes.
_CHUNK_NAME = re.compile(r"(c|\d+)([./]\d+)*")  #: The path of a chunk in the folder of an array.
_TORN = "*.partial"  #: Half a chunk, left by a process that was killed.

#: The attribute of an array of 16-bit integers that are bfloat16, for which zarr has no dtype.
_MARK = {"dtype": "bfloat16"}


class Zarr:
    """Stores of zarr, version 3."""

    suffixes = (".zarr",)
    named = True
    random = True
    folder = True

    def open(self, path: Path) -> ZarrSource:
        """Read the metadata of all arrays."""
        import_library("zarr", path, "reading")
        return ZarrSource(path)

    def as_stored(self, array: Stored) -> Stored:
        """Return the array in C order, in chunks."""
        import_library("zarr", array.path, "writing")
        if array.name:
            check_name(array.path, array.name, _is_name)
        dtype = array.dtype.newbyteorder("=")
        return replace(array, dtype=dtype, fortran_order=False, chunks=_chunks(array))

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> ZarrSink:
        """Begin a store, with all metadata of another store byte for byte."""
        sink = self.resume(part, arrays, source)
        nodes = source.nodes if isinstance(source, ZarrSource) else _new_nodes(sink.places)
        for name, content in nodes.items():
            (part / name).mkdir(parents=True, exist_ok=True)
            (part / name / _METADATA).write_bytes(content)
        return sink

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> ZarrSink:
        """Continue a store that has its metadata."""
        # An array without a name in its file is the store itself.
        alone = list(source.arrays) == [""]
        return ZarrSink(part, {"" if alone else array.name: array for array in arrays})


class ZarrSource:
    """An open store; no file of it is held open."""

    def __init__(self, path: Path) -> None:
        """Read all metadata."""
        self.path = path
        self.nodes = dict(_read_nodes(path))  #: The zarr.json of each group and array, by path.
        arrays = {name: _describe(path, name, content) for name, content in self.nodes.items()}
        self.arrays = {name: stored for name, stored in arrays.items() if stored is not None}

    def reader(self, stored: Stored) -> ZarrReader:
        """Open one of the arrays."""
        # A store that is one array has no names in it.
        name = stored.name if stored.name in self.nodes else ""
        with translate_read_errors(stored.label):
            return ZarrReader(stored, _open_array(self.path, name, self.nodes[name]))

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class ZarrReader:
    """One array of a store."""

    in_order = False

    def __init__(self, stored: Stored, array: zarr.Array[Any]) -> None:
        self.stored = stored
        self._array = array

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """Fill `out` with a part of the array."""
        from zarr.buffer import default_buffer_prototype

        with translate_read_errors(self.stored.label):
            elements = out.view(self._array.dtype.newbyteorder("="))
            into = default_buffer_prototype().nd_buffer.from_numpy_array(elements)
            self._array.get_basic_selection(box, out=into)


class ZarrSink:
    """A store that is being written."""

    def __init__(self, part: Path, places: dict[str, Stored]) -> None:
        """Write the arrays at their paths in an existing folder."""
        self._part = part
        self.places = places

    def writer(self, name: str) -> ZarrWriter:
        """Open one of the arrays."""
        place = next(place for place, array in self.places.items() if array.name == name)
        content = _read_metadata(self._part / place)
        return ZarrWriter(_open_array(self._part, place, content, read_only=False))

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """Copy what else another store holds, file by file."""
        if isinstance(source, ZarrSource):
            _copy_rest(source.path, self._part, self.places)
        for place in self.places:
            for torn in (self._part / place).rglob(_TORN):
                torn.unlink(missing_ok=True)

    def close(self) -> None:
        """Do nothing: no file is held open."""


class ZarrWriter:
    """One array of a store that is being written."""

    def __init__(self, array: zarr.Array[Any]) -> None:
        self._array = array

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """Write a part of the array."""
        self._array[box] = block.view(self._array.dtype.newbyteorder("="))


def foreign_files(folder: Path) -> Iterator[str]:
    """Yield the path of each file and link in a folder that is not part of a store."""
    arrays: set[Path] = set()
    for below, folders, files in os.walk(folder):
        place = Path(below)
        array = next((above for above in place.parents if above in arrays), None)
        kind = "chunks" if array else _node_type(place)
        if kind == "array":
            arrays.add(array := place)
        links = [name for name in folders if (place / name).is_symlink()]
        for path in [place / name for name in [*files, *links]]:
            is_chunk = array and _CHUNK_NAME.fullmatch(str(path.relative_to(array)))
            is_metadata = kind in {"array", "group"} and path.name == _METADATA
            if path.is_symlink() or not path.is_file() or not (is_chunk or is_metadata):
                yield str(path.relative_to(folder))


def _node_type(folder: Path) -> str:
    """Return "array", "group", or "" of a folder that is neither."""
    try:
        kind = json.loads(_read_metadata(folder))["node_type"]
    except (FileError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return kind if kind in {"array", "group"} else ""


def _read_nodes(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield all groups and arrays by their paths in a store, the root's being empty.

    Raises:
        FileError: Not a store of version 3, or a damaged one.
    """
    if not os.path.isdir(root):  # noqa: PTH112 - which never raises
        os.close(open_regular(root, "a folder"))
        msg = f"{root} is a file; expected the folder of a zarr store"
        raise FileError(msg)
    with translate_read_errors(str(root)):
        if not _exists(root / _METADATA):
            old = any(_exists(root / name) for name in (".zarray", ".zgroup", ".zmetadata"))
            found = "is a store of zarr's version 2" if old else f"holds no {_METADATA}"
            msg = f"{root} {found}; expected a store of version 3"
            raise FileError(msg)
        waiting = [""]
        while waiting:
            name = waiting.pop()
            content = _read_metadata(root / name)
            fields = json.loads(content)
            if fields["zarr_format"] != 3 or fields["node_type"] not in {"array", "group"}:
                msg = f"{root / name / _METADATA} is not an array or group of zarr's version 3"
                raise FileError(msg)
            yield name, content
            if fields["node_type"] == "group":
                below = sorted(each.name for each in os.scandir(root / name) if each.is_dir())
                paths = [f"{name}/{each}".lstrip("/") for each in reversed(below)]
                waiting += [path for path in paths if _exists(root / path / _METADATA)]


def _exists(path: Path) -> bool:
    """Return whether there is a file, where that can be seen."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _read_metadata(folder: Path) -> bytes:
    """Read the zarr.json of a folder.

    Raises:
        FileError: It can't be read, or is too long.
    """
    path = folder / _METADATA
    with regular_file(path, f"the {_METADATA} of a zarr store") as fd:
        size = os.fstat(fd).st_size
        if size > _LONGEST_METADATA:
            msg = f"{path} has {size:,} bytes; expected at most {_LONGEST_METADATA:,}"
            raise FileError(msg)
        return read_bytes(path, fd, 0, size)


def _describe(root: Path, name: str, content: bytes) -> Stored | None:
    """Return what a node holds, None of a group.

    One array that can't be read does not keep the others of its group from being read.
    """
    if json.loads(content)["node_type"] == "group":
        return None
    try:
        with translate_read_errors(str(root / name)):
            array = _open_array(root, name, content)
            chunks = array.shards or array.chunks
            dtype = array.dtype.newbyteorder("=")
            is_integers = dtype == np.dtype(np.uint16)
            marked = array.attrs.get("dtype") == _MARK["dtype"]
            foreign = json.loads(content)["data_type"] == BFLOAT16.name
            if not (is_shape(array.shape) and is_shape(chunks) and min(chunks, default=1) > 0):
                msg = f"cannot read {root / name}: shape {array.shape} in chunks of {chunks}"
                raise FileError(msg)
            stored = Stored(
                path=root,
                name=name,
                shape=array.shape,
                dtype=BFLOAT16 if is_integers and (marked or foreign) else dtype,
                chunks=chunks,
                chunk_files=True,
                may_be_bfloat16=is_integers,
            )
            return check_expansion(stored, _bytes_on_disk(root / name, unpacked_bytes(stored)))
    except FileError as error:
        if not name:
            raise
        dtype, what = np.dtype(np.uint8), f"what can't be read: {error}"
        return Stored(path=root, name=name, shape=(), dtype=dtype, unreadable=what)


def _bytes_on_disk(folder: Path, unpacked: int) -> int:
    """Return the bytes of the files in a folder, or as many as may expand to an array."""
    size = 0
    for below, _, files in os.walk(folder):
        for name in files:
            if largest_expansion(size) >= unpacked:
                return size
            size += os.lstat(os.path.join(below, name)).st_size  # noqa: PTH118 - millions of files
    return size


def _open_array(
    root: Path, name: str, content: bytes, *, read_only: bool = True
) -> zarr.Array[Any]:
    """Open the array that a zarr.json describes."""
    import zarr
    from zarr.storage import LocalStore, StorePath

    fields = json.loads(content)
    if fields["data_type"] == BFLOAT16.name:  # as other writers have it
        fields |= {"data_type": "uint16", "fill_value": _bits(fields["fill_value"])}
    place = StorePath(LocalStore(root, read_only=read_only), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a dtype is not in the specification
        array = zarr.Array.from_dict(place, fields)
        if read_only or not np.isnan(array.fill_value):
            return array
        # Chunks of fill values need no file. But NaNs count as equal whatever their bits.
        with zarr.config.set({"array.write_empty_chunks": True}):
            return zarr.Array.from_dict(place, fields)


def _bits(fill: Any) -> int:
    """Return the integer that has the bits of a fill value of bfloat16."""
    if isinstance(fill, str) and fill.startswith("0x"):
        return int(fill, 16)
    return int(np.array(float(fill), BFLOAT16).view(np.uint16))


def _new_nodes(places: dict[str, Stored]) -> dict[str, bytes]:
    """Return the zarr.json of each node of a new store, by path.

    Raises:
        FileError: An array whose path leads through another.
    """
    import zarr
    from zarr.storage import MemoryStore

    for place, array in places.items():
        above = next((str(each) for each in Path(place).parents if str(each) in places), None)
        if above is not None:
            msg = f"cannot write {array.label}: {short(repr(above))} is an array, not a group"
            raise FileError(msg)
    files: dict[str, Any] = {}
    if "" not in places:
        zarr.create_group(MemoryStore(files))
    for place, array in places.items():
        is_bfloat16 = array.dtype == BFLOAT16
        zarr.create_array(
            MemoryStore(files),
            name=place or None,
            shape=array.shape,
            dtype="uint16" if is_bfloat16 else array.dtype.name,
            chunks=array.chunks or "auto",
            compressors=None,  # of floats that nearly fill their range, a tenth would be won
            filters=None,
            fill_value=0,
            attributes=dict(_MARK) if is_bfloat16 else {},
        )
    return {str(Path(key).parent): content.to_bytes() for key, content in files.items()}


def _copy_rest(root: Path, target: Path, without: Collection[str]) -> None:
    """Copy all files of a store but those of some arrays.

    Args:
        root: The store.
        target: The folder to copy into.
        without: Paths of the arrays within the store.

    Raises:
        FileError: A file that can't be read, or a link.
        OSError: One that can't be written.
    """
    left_out = {root / name for name in without}
    for below, folders, files in os.walk(root, onerror=_refuse):
        folder = Path(below)
        if folder in left_out:
            folders.clear()
            continue
        inside = target / folder.relative_to(root)
        inside.mkdir(parents=True, exist_ok=True)
        for path in [folder / name for name in [*folders, *files]]:
            if path.is_symlink():
                msg = f"{path} is a link; expected only files and folders in a store to be copied"
                raise FileError(msg)
        for name in files:
            with (
                os.fdopen(open_regular(folder / name), "rb") as read,
                (inside / name).open("wb") as written,
            ):
                shutil.copyfileobj(read, written)


def _refuse(error: OSError) -> None:
    msg = f"cannot read {error.filename}: {error.strerror}"
    raise FileError(msg) from None


def _is_name(name: str) -> bool:
    """Return whether an array can have a name: a path within its store.

    Raises:
        UnicodeEncodeError: It can't.
    """
    return b"\0" not in os.fsencode(name) and not any(
        part in {"", ".", "..", _METADATA} or part.startswith("__") for part in name.split("/")
    )


def _chunks(array: Stored) -> tuple[int, ...]:
    """Return the chunks of a new array: whole vectors, then as much of the axes before as fits.

    The last axis grows first: that is one piece of a file in C order, and one block. What an array
    had for chunks is joined to whole vectors. Then only chunks that are files stay whole, however
    large they are: two processes must not write to one at once.
    """
    shape = [max(1, length) for length in array.shape]
    lengths = [1] * len(shape) if array.chunks is None else list(map(min, array.chunks, shape))
    lengths[-1] = shape[-1]
    for axis in range(0 if array.chunk_files else len(shape) - 1):
        times = math.ceil(math.prod(lengths) * array.dtype.itemsize / _LARGEST_CHUNK)
        lengths[axis] = max(1, lengths[axis] // times)
    size = math.prod(lengths) * array.dtype.itemsize
    for axis in reversed(range(len(shape))):
        whole = -(-shape[axis] // lengths[axis])
        room = max(1, min(CHUNK_BYTES // size, whole))
        lengths[axis] = min(lengths[axis] * room, shape[axis])
        size *= room
        if room < whole:
            break
    return tuple(lengths)
