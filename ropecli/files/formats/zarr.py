"""The format .zarr, version 3: a folder of chunks, one array or a group of arrays by name."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import re
import shutil
import time
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Reader, Sink, Source
from ropecli.files.formats.library import (
    import_library,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.stored import (
    Box,
    Stored,
    check_name,
    grow,
    in_c_order,
    short,
    unreadable,
)
from ropecli.regular import open_regular, read_bytes, regular_file

if TYPE_CHECKING:
    import zarr

#: Bytes of a chunk: as many as are rotated at a time, few enough for several in memory, and enough
#: to keep the number of files of a terabyte within what a folder can list.
CHUNK_BYTES = 1 << 24

_METADATA = "zarr.json"  #: The file in each folder that says what the folder is.
_LONGEST_METADATA = 1 << 24  #: Bytes.
_CHUNK_NAME = re.compile(r"(c|\d+)([./]\d+)*")  #: The path of a chunk in the folder of an array.
_TORN = "*.partial"  #: Half a chunk, left by a process that was killed.

#: The attribute of an array of 16-bit integers that are bfloat16, for which zarr has no dtype.
_MARK = {"dtype": BFLOAT16.name}


class _Source(Source):
    """An open store; no file of it is held open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with translate_read_errors(str(path)):
            path.stat()
            import_library("zarr", path, "reading")
            old = any((path / name).exists() for name in (".zarray", ".zgroup"))
            if old and not (path / _METADATA).exists():
                raise FileError(f"{path} is a store of zarr's version 2; expected one of version 3")
            arrays = list(_find_arrays(path))
            self.arrays = {stored.name: stored for stored, _ in arrays}
            self._fields = {stored.name: fields for stored, fields in arrays}

    def reader(self, stored: Stored) -> _Reader:
        # A store that is one array has no names in it.
        name = stored.name if stored.name in self.arrays else ""
        with translate_read_errors(stored.label):
            return _Reader(stored, _open_array(self.path, name, self._fields[name]))


class _Reader(Reader):
    def __init__(self, stored: Stored, array: zarr.Array[Any]) -> None:
        super().__init__(stored)
        self._array = array

    def read(self, box: Box, out: NDArray[Any]) -> None:
        from zarr.buffer import default_buffer_prototype

        with translate_read_errors(self.stored.label):
            elements = out.view(self._array.dtype.newbyteorder("="))
            into = default_buffer_prototype().nd_buffer.from_numpy_array(elements)
            self._array.get_basic_selection(box, out=into)


class _Sink(Sink):
    """Arrays at their paths in an existing folder."""

    def __init__(self, part: Path, places: dict[str, Stored]) -> None:
        self._part = part
        self.places = places
        self._opened: dict[str, zarr.Array[Any]] = {}

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        if name not in self._opened:
            place = next(place for place, array in self.places.items() if array.name == name)
            fields = _read_metadata(self._part / place)
            self._opened[name] = _open_array(self._part, place, fields, read_only=False)
        array = self._opened[name]
        array[box] = block.view(array.dtype.newbyteorder("="))

    def finish(self) -> None:
        """Remove what killed processes have left."""
        for place in self.places:
            for torn in (self._part / place).rglob(_TORN):
                torn.unlink(missing_ok=True)

    def close(self) -> None:
        """Stop the chunks that zarr goes on writing after an error or an interrupt."""
        stores: list[Any] = [array.store for array in self._opened.values()]
        for store in stores:
            store.stop()


def foreign_files(folder: Path) -> Iterator[str]:
    """Yield the path of each file and link in a folder that is not part of a store."""
    arrays: set[Path] = set()
    for below, folders, files in os.walk(folder):
        place = Path(below)
        array = next((above for above in place.parents if above in arrays), None)
        kind = "" if array else _node_type(place)
        if kind == "array":
            arrays.add(array := place)
        links = [name for name in folders if (place / name).is_symlink()]
        for path in [place / name for name in [*files, *links]]:
            is_chunk = array and _CHUNK_NAME.fullmatch(str(path.relative_to(array)))
            is_metadata = kind and path.name == _METADATA
            if path.is_symlink() or not path.is_file() or not (is_chunk or is_metadata):
                yield str(path.relative_to(folder))


def _node_type(folder: Path) -> str:
    """Return "array", "group", or "" of a folder that is neither."""
    try:
        return str(_read_metadata(folder)["node_type"])
    except FileError:
        return ""


def _find_arrays(root: Path, name: str = "") -> Iterator[tuple[Stored, dict[str, Any]]]:
    """Yield all arrays at a path of a store and below, each with its metadata."""
    fields = _read_metadata(root / name)
    if fields["node_type"] == "array":
        yield _describe(root, name, fields), fields
        return
    for path in sorted((root / name).iterdir()):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # of what is not a node
            (path / _METADATA).stat()
            yield from _find_arrays(root, str(path.relative_to(root)))


def _read_metadata(folder: Path) -> dict[str, Any]:
    """Return the fields of the zarr.json of a folder."""
    path = folder / _METADATA
    with (
        translate_read_errors(str(path)),
        regular_file(path, f"the {_METADATA} of a zarr store") as fd,
    ):
        size = os.fstat(fd).st_size
        if size > _LONGEST_METADATA:
            raise FileError(f"{path} has {size:,} bytes; expected at most {_LONGEST_METADATA:,}")
        fields: dict[str, Any] = json.loads(read_bytes(path, fd, 0, size))
        if fields["zarr_format"] != 3 or fields["node_type"] not in {"array", "group"}:
            raise FileError(f"{path} is not an array or group of zarr's version 3")
        return fields


def _describe(root: Path, name: str, fields: dict[str, Any]) -> Stored:
    """Return the description of an array.

    One array that can't be read does not keep the others of its group from being read.
    """
    try:
        with translate_read_errors(str(root / name)):
            array = _open_array(root, name, fields)
            chunks = array.shards or array.chunks
            if not (is_shape(array.shape) and is_shape(chunks) and min(chunks, default=1) > 0):
                raise FileError(
                    f"cannot read {root / name}: shape {array.shape} in chunks of {chunks}"
                )
            dtype = array.dtype.newbyteorder("=")
    except FileError as error:
        if not name:
            raise
        return unreadable(root, name, f"what can't be read: {error}")
    is_integers = dtype == np.dtype(np.uint16)
    is_marked = is_integers and array.attrs.get("dtype") == BFLOAT16.name
    return Stored(
        path=root,
        name=name,
        shape=array.shape,
        dtype=BFLOAT16 if is_marked else dtype,
        chunks=chunks,
        chunk_files=True,
        may_be_bfloat16=is_integers,
    )


@functools.cache
def _stoppable_store() -> Any:
    """Return the class of a folder that takes no more chunks once it is told so."""
    from zarr.storage import LocalStore

    class StoppableStore(LocalStore):
        stopped, writing = False, 0

        async def set(self, key: str, value: Any) -> None:
            self.writing += 1
            try:
                if self.stopped:
                    raise OSError("the store was closed")
                await super().set(key, value)
            finally:
                self.writing -= 1

        def stop(self) -> None:
            self.stopped = True
            while self.writing:  # in zarr's own thread
                time.sleep(0.001)

    return StoppableStore


def _open_array(
    root: Path, name: str, fields: dict[str, Any], *, read_only: bool = True
) -> zarr.Array[Any]:
    """Open an array of a store by its metadata."""
    import zarr
    from zarr.storage import StorePath

    fields = dict(fields)
    if fields["data_type"] == BFLOAT16.name:  # as other writers have it
        fields["data_type"], fields["fill_value"] = "uint16", _bfloat16_bits(fields["fill_value"])
        fields["attributes"] = {**fields.get("attributes", {}), **_MARK}
    # Chunks of fill values need no file. But NaNs, which are text here, count as equal whatever
    # their bits.
    empty_chunks = {"array.write_empty_chunks": isinstance(fields["fill_value"], str)}
    with warnings.catch_warnings(), zarr.config.set(empty_chunks):
        warnings.simplefilter("ignore")  # that a dtype is not in the specification
        store = StorePath(_stoppable_store()(root, read_only=read_only), name)
        return zarr.Array.from_dict(store, fields)


def _bfloat16_bits(fill: Any) -> int:
    """Return the integer that has the bits of a fill value of bfloat16."""
    if isinstance(fill, str) and fill.startswith("0x"):
        return int(fill, 16)
    return int(np.array(float(fill), BFLOAT16).view(np.uint16))


def _create_store(part: Path, places: Mapping[str, Stored]) -> None:
    """Create the groups and arrays of a new store."""
    import zarr

    groups = {str(group) for place in places for group in PurePosixPath(place).parents}
    for place, array in places.items():
        if place in groups:
            raise FileError(
                f"cannot write {array.path}: {short(repr(place))} is an array, not a group"
            )
    with translate_write_errors(part):
        if groups:
            zarr.create_group(part)
        for place, array in places.items():
            is_bfloat16 = array.dtype == BFLOAT16
            zarr.create_array(
                part,
                name=place or None,
                shape=array.shape,
                dtype="uint16" if is_bfloat16 else array.dtype.name,
                chunks=array.chunks or "auto",
                compressors=None,  # of floats that nearly fill their range, a tenth would be won
                filters=None,
                fill_value=0,
                attributes=_MARK if is_bfloat16 else {},
            )


def _copy_store(root: Path, part: Path, without: Collection[str]) -> None:
    """Copy a store into a folder, except the chunks of some arrays."""
    arrays = {root / name for name in without}
    for below, folders, files in os.walk(root, onerror=_raise_read_error):
        folder = Path(below)
        inside = part / folder.relative_to(root)
        inside.mkdir(parents=True, exist_ok=True)
        for path in [folder / name for name in [*folders, *files]]:
            if path.is_symlink():
                raise FileError(
                    f"{path} is a link; expected only files and folders in a store to be copied"
                )
        if folder in arrays:
            folders.clear()
        for name in [_METADATA] if folder in arrays else files:
            with (
                os.fdopen(open_regular(folder / name), "rb") as read,
                (inside / name).open("wb") as written,
            ):
                shutil.copyfileobj(read, written)


def _raise_read_error(error: OSError) -> None:
    raise FileError(f"cannot read {error.filename}: {error.strerror}") from None


def _is_valid_name(name: str) -> bool:
    """Return whether an array can have a name: a path within its store."""
    encoded = os.fsencode(name)
    return not (b"\0" in encoded or b"\\" in encoded) and not any(  # which zarr takes for a slash
        part in {"", ".", "..", _METADATA} or part.startswith("__") for part in name.split("/")
    )


def _choose_chunks(array: Stored) -> tuple[int, ...]:
    """Return the chunks of a new array: whole vectors, then as much of the axes before as fits.

    That is one piece of a file in C order, and one block. Chunks that are files are joined whole:
    two processes must not write to one at once.
    """
    shape = [max(1, length) for length in array.shape]
    whole_files = array.chunks is not None and array.chunk_files
    lengths = list(map(min, array.chunks or (), shape)) if whole_files else [1] * len(shape)
    lengths[-1] = shape[-1]
    size = math.prod(lengths) * array.dtype.itemsize
    before = reversed(range(len(shape) - 1))
    return grow(lengths, shape, before, size=size, limit=CHUNK_BYTES)


def _as_stored(array: Stored) -> Stored:
    """Return the array in C order, in chunks."""
    import_library("zarr", array.path, "writing")
    if array.name:
        check_name(array.path, array.name, _is_valid_name)
    return replace(in_c_order(array, "="), chunks=_choose_chunks(array))


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> _Sink:
    """Begin a store, as a copy of another one but for the chunks of these arrays."""
    # An array without a name in its file is the store itself.
    alone = list(source.arrays) == [""]
    sink = _Sink(part, {"" if alone else array.name: array for array in arrays})
    if isinstance(source, _Source):
        _copy_store(source.path, part, sink.places)
    else:
        _create_store(part, sink.places)
    return sink


ZARR = Format(suffixes=(".zarr",), named=True, open=_Source, create=_create, as_stored=_as_stored)
