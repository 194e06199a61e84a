"""The format HDF5: datasets by their paths.

It is read and written by a library of C. A damaged file may end the process, so only open .h5
files from sources you trust.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import FileSource, Format, Reader, Sink, Source, closed_on_error
from ropecli.files.formats.library import (
    check_expansion,
    import_library,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.stored import Box, Stored, check_name

_OPAQUE = np.dtype("V2")  #: The dtype of bfloat16 in h5py.
_COPY = ".ropecli-copy"  #: A group that holds the root of another file while it is copied.
#: Attributes of dimension scales: references in sequences and records, which the library copies
#: as they are.
_SCALES = ("DIMENSION_LIST", "REFERENCE_LIST")


class _Source(FileSource):
    """An open file. Links to other files are not followed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "an HDF5 file")
        self.arrays: dict[str, Stored] = {}
        with closed_on_error(self), translate_read_errors(str(path)):
            h5py: Any = import_library("h5py", path, "reading")
            # Not locked, because it may lie where nothing can be.
            self.file = h5py.File(path, "r", locking=False)
            # Neither soft nor external links are visited.
            self.file.visititems(lambda name, item: self._add(h5py, name, item))
            if self.file.userblock_size:
                self.not_copied = "the user block"

    def _add(self, h5py: Any, name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            text = name if isinstance(name, str) else name.decode(errors="surrogateescape")
            stored = _describe(self.path, text, item)
            packed = min(item.id.get_storage_size(), os.fstat(self.fd).st_size)
            self.arrays[text] = check_expansion(stored, packed)

    def reader(self, stored: Stored) -> _Reader:
        with translate_read_errors(stored.label):
            dataset = self.file[_encode_name(stored.name)]
            _check_chunks(stored.label, dataset)
            return _Reader(stored, dataset)

    def close(self) -> None:
        super().close()
        # Nothing is lost where a file that was only read can't be closed.
        with contextlib.suppress(Exception):
            self.file.close()


class _Reader(Reader):
    def __init__(self, stored: Stored, dataset: Any) -> None:
        super().__init__(stored)
        self._dataset = dataset

    def read(self, box: Box, out: NDArray[Any]) -> None:
        if out.size:
            with translate_read_errors(self.stored.label):
                self._dataset.read_direct(_as_opaque(out), box)


class _Sink(Sink):
    """A file that is being written, as a copy of another one of this format or from the start."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        h5py: Any = import_library("h5py", part, "writing")
        self._part = part
        self._stream = _QuietFile(part)
        with closed_on_error(self), self._writing():
            alike = _settings(h5py, source) if isinstance(source, _Source) else {}
            self._file = h5py.File(self._stream, "w", **alike)
            if isinstance(source, _Source):
                _copy(h5py, source, arrays, self._file)
                return
            for array in arrays:
                dtype = _OPAQUE if array.dtype == BFLOAT16 else array.dtype
                self._file.create_dataset(array.name, array.shape, dtype, chunks=array.chunks)

    def write(self, name: str, box: Box, block: NDArray[Any]) -> None:
        if block.size:
            with self._writing():
                dataset = self._file[_encode_name(name)]
                dataset.write_direct(_as_opaque(block), dest_sel=box)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise the disk's error where there was one, whatever the library makes of it."""
        try:
            with translate_write_errors(self._part):
                yield
        finally:
            self._stream.check()

    def finish(self) -> None:
        with self._writing():
            self._file.close()

    def close(self) -> None:
        # What goes wrong in a file that is not finished does not matter any more.
        with contextlib.suppress(Exception):
            self._file.close()
        self._stream.close()


class _QuietFile(io.FileIO):
    """A file that keeps an error of the disk to itself until it is asked.

    HDF5 writes whenever an object is closed, where h5py can't raise, and may end the process once
    it could not. After an error of reading h5py calls again before it raises.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "r+")
        # An error itself would keep the objects of h5py that it passed through open to the end of
        # the process.
        self._errno: int | None = None

    def check(self) -> None:
        """Raise the first error."""
        if self._errno is not None:
            raise OSError(self._errno, os.strerror(self._errno))

    def write(self, data: Any) -> int:
        """Write all of it."""
        rest, end = memoryview(data), self.tell() + len(data)
        with self._keep_error():
            while rest:
                rest = rest[super().write(rest) :]
        self.seek(end)
        return len(data)

    def readinto(self, into: Any) -> int:
        """Read as much as there is; the rest is zeros."""
        rest = memoryview(into)
        with self._keep_error():
            while rest and (count := super().readinto(rest)):
                rest = rest[count:]
        rest[:] = bytes(len(rest))
        return len(into) - len(rest)

    def truncate(self, size: int | None = None) -> int:
        """Give the file a length."""
        size = self.tell() if size is None else size
        with self._keep_error():
            super().truncate(size)
        return size

    @contextlib.contextmanager
    def _keep_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._errno = self._errno or error.errno


def _describe(path: Path, name: str, dataset: Any) -> Stored:
    what = ""
    if dataset.is_virtual or dataset.external:
        what = "elements that other files hold, which are never read"
    if not is_shape(dataset.shape):
        what = "more elements than an array has"
    try:
        dtype = np.dtype(dataset.dtype)
    except TypeError as error:
        dtype, what = np.dtype(np.uint8), f"elements without a dtype in NumPy ({error})"
    return Stored(
        path=path,
        name=name,
        shape=tuple(dataset.shape),
        dtype=dtype,
        chunks=dataset.chunks,
        unreadable=what,
    )


def _check_chunks(label: str, dataset: Any) -> None:
    """Refuse chunks that end too soon: HDF5 gives what is in memory for the rest of them."""
    if not dataset.chunks:
        return
    size = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    unfiltered = (1 << dataset.id.get_create_plist().get_nfilters()) - 1
    chunks: list[Any] = []
    dataset.id.chunk_iter(chunks.append)
    for chunk in chunks:
        if chunk.filter_mask == unfiltered and chunk.size != size:
            raise FileError(
                f"{label} is damaged: a chunk has {chunk.size:,} bytes, expected {size:,}"
            )


def _copy(h5py: Any, source: _Source, arrays: Sequence[Stored], file: Any) -> None:
    """Copy all datasets, groups, links and attributes into a new file."""
    with translate_read_errors(str(source.path)):
        for array in arrays:
            dataset = source.file[_encode_name(array.name)]
            plain = dataset.id.get_type() == h5py.h5t.py_create(dataset.dtype)
            if dataset.dtype.kind == "f" and not plain:
                raise FileError(
                    f"{source.path}: {array.name} holds floats of a type that NumPy lacks",
                    "write a file of another format, such as .npy",
                )
        for name, stored in source.arrays.items():
            _check_chunks(stored.label, source.file[_encode_name(name)])
        # At once, so that two links to one object stay that, and references lead to the copies.
        source.file.copy(source.file["/"], file, _COPY, expand_refs=True)
        root = file[_COPY]
        for encoded in _names(root):
            file.move(_COPY.encode() + b"/" + encoded, encoded)
        _copy_attributes(h5py, source.file, file)
        del file[_COPY]
        for added in {*_names(file)}.difference(_names(source.file)):
            if (
                h5py.h5o.get_info(file[added].id).rc > 1
            ):  # the library's own link to what was copied
                del file[added]
        _copy_scales(source, file)


def _settings(h5py: Any, source: _Source) -> dict[str, Any]:
    """Return the settings of a file in which the root can have the same attributes and order."""
    order = source.file["/"].id.get_create_plist().get_link_creation_order()
    ordered = bool(order & h5py.h5p.CRT_ORDER_TRACKED)
    # Of the superblock; with the latest, attributes may be large.
    newer = source.file.id.get_create_plist().get_version()[0] >= 2
    return {"track_order": ordered, "libver": "latest" if newer else "earliest"}


def _names(items: Any) -> list[bytes]:
    return [name if isinstance(name, bytes) else _encode_name(name) for name in items]


def _copy_attributes(h5py: Any, source: Any, file: Any) -> None:
    """Copy the attributes of the root as they are stored, with references to the copies."""
    for name in _names(source.attrs):
        attribute = h5py.h5a.open(source.id, name)
        kind, space = attribute.get_type(), attribute.get_space()
        copied = h5py.h5a.create(file.id, name, kind, space)
        if space.get_simple_extent_type() == h5py.h5s.NULL:
            continue
        values = np.empty(space.shape, attribute.dtype)
        attribute.read(values)
        if h5py.check_ref_dtype(attribute.dtype) is h5py.Reference:
            for place, reference in np.ndenumerate(values):
                target = source[reference].name if reference else None
                values[place] = file[target].ref if target is not None else h5py.Reference()
        copied.write(values)


def _copy_scales(source: _Source, file: Any) -> None:
    """Attach dimension scales in a copy, whose own references to them lead nowhere."""
    names = [_encode_name(name) for name in source.arrays]
    for name in names:
        attributes = file[name].attrs
        for scales in _SCALES:
            if scales in attributes:
                del attributes[scales]
    for name in names:
        for axis, dimension in enumerate(source.file[name].dims):
            for scale in dimension.values():
                file[name].dims[axis].attach_scale(file[scale.name])


def _encode_name(name: str) -> bytes:
    """Return a name as the file has it: any bytes may be one."""
    return name.encode(errors="surrogateescape")


def _is_valid_name(name: str) -> bool:
    return b"\0" not in name.encode() and not {"", "."} & set(name.split("/"))


def _as_opaque(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(_OPAQUE) if array.dtype == BFLOAT16 else array


def _as_stored(array: Stored) -> Stored:
    """Return the array in its dtype and byte order, in C order."""
    import_library("h5py", array.path, "writing")
    check_name(array.path, array.name, _is_valid_name)
    # No chunk may be larger than the array.
    chunks = tuple(map(min, array.chunks, array.shape)) if array.chunks else None
    return replace(array, fortran_order=False, chunks=chunks if all(array.shape) else None)


HDF5 = Format(
    suffixes=(".h5", ".hdf5"), named=True, open=_Source, create=_Sink, as_stored=_as_stored
)
