"""The format HDF5: datasets by their paths.

It is read and written by a library of C that damaged files have brought to a stop before: only
files of people who are trusted should be opened.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.files.formats.base import (
    FileSource,
    closed_on_error,
    import_library,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.density import believed
from ropecli.files.formats.stored import Box, Stored, check_name
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Source

_OPAQUE = np.dtype("V2")  #: What h5py makes of bfloat16.
_BLOCK = 1 << 22  #: Bytes copied at once.


class Hdf5:
    """As `Format`."""

    suffixes = (".h5", ".hdf5")
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> Hdf5Source:
        """As `Format.open`."""
        return Hdf5Source(path, import_library("h5py", path, "reading", "hdf5"))

    def as_stored(self, array: Stored) -> Stored:
        """As `Format.as_stored`: in every dtype and byte order, in C order."""
        import_library("h5py", array.path, "writing", "hdf5")
        check_name(array.path, array.name, _is_held)
        # No chunk may be larger than the array.
        chunks = tuple(map(min, array.chunks, array.shape)) if array.chunks else None
        return replace(array, fortran_order=False, chunks=chunks if all(array.shape) else None)

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> Hdf5Sink:
        """As `Format.create`: as a copy of another such file."""
        return Hdf5Sink(part, arrays, source)

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> Hdf5Sink:
        """As `Format.resume`, which this format does not allow."""
        raise AssertionError


class Hdf5Source(FileSource):
    """As `Source`. Links to other files are not followed."""

    def __init__(self, path: Path, h5py: Any) -> None:
        """Open a file."""
        super().__init__(path, open_regular(path, "an HDF5 file"))
        self.arrays: dict[str, Stored] = {}
        with closed_on_error(self), translate_read_errors(str(path)):
            self.file = _opened(h5py, path, "r")
            # Neither soft nor external links are visited.
            self.file.visititems(lambda name, item: self._add(h5py, name, item))

    def _add(self, h5py: Any, name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            stored = _stored(self.path, name, item)
            packed = min(item.id.get_storage_size(), os.fstat(self.fd).st_size)
            self.arrays[name] = believed(stored, packed)

    def reader(self, stored: Stored) -> Hdf5Reader:
        """As `Source.reader`."""
        with translate_read_errors(stored.label):
            return Hdf5Reader(stored, self.file[stored.name])

    def close(self) -> None:
        """As `Source.close`."""
        super().close()
        if hasattr(self, "file"):
            self.file.close()


class Hdf5Reader:
    """As `Reader`."""

    in_order = False

    def __init__(self, stored: Stored, dataset: Any) -> None:
        """Read from a dataset of h5py's."""
        self.stored = stored
        self._dataset = dataset

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        if out.size:
            with translate_read_errors(self.stored.label):
                self._dataset.read_direct(_as_kept(out), box)


class Hdf5Sink:
    """As `Sink`."""

    def __init__(self, part: Path, arrays: Sequence[Stored], source: Source) -> None:
        """Copy a file of this format, or begin a new one."""
        h5py = import_library("h5py", part, "writing", "hdf5")
        same = isinstance(source, Hdf5Source)
        if isinstance(source, Hdf5Source):
            os.lseek(source.fd, 0, os.SEEK_SET)
            with os.fdopen(os.dup(source.fd), "rb") as read, part.open("wb") as written:
                shutil.copyfileobj(read, written, _BLOCK)
        with translate_write_errors(part):
            self._file = _opened(h5py, part, "r+" if same else "w")
        with translate_write_errors(part):
            for array in [] if same else arrays:
                dtype = _OPAQUE if array.dtype == BFLOAT16 else array.dtype
                self._file.create_dataset(array.name, array.shape, dtype, chunks=array.chunks)
        self._part = part

    def writer(self, name: str) -> Hdf5Writer:
        """As `Sink.writer`."""
        return Hdf5Writer(self._part, self._file[name])

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: all else was copied at the beginning."""
        with translate_write_errors(self._part):
            self._file.flush()

    def close(self) -> None:
        """As `Sink.close`."""
        with translate_write_errors(self._part):
            self._file.close()


class Hdf5Writer:
    """As `Writer`."""

    def __init__(self, part: Path, dataset: Any) -> None:
        """Write to a dataset of h5py's."""
        self._part = part
        self._dataset = dataset

    def write(self, box: Box, block: NDArray[Any]) -> None:
        """As `Writer.write`."""
        if block.size:
            with translate_write_errors(self._part):
                self._dataset.write_direct(_as_kept(block), dest_sel=box)


def _opened(h5py: Any, path: Path, mode: str) -> Any:
    # What is written is locked already; what is read may lie where nothing can be locked.
    return h5py.File(path, mode, locking=False)


def _stored(path: Path, name: str, dataset: Any) -> Stored:
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


def _is_held(name: str) -> bool:
    return b"\0" not in name.encode() and not {"", "."} & set(name.split("/"))


def _as_kept(array: NDArray[Any]) -> NDArray[Any]:
    return array.view(_OPAQUE) if array.dtype == BFLOAT16 else array
