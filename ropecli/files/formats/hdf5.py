"""The format HDF5: datasets by their paths.

It is read and written by a library of C. A damaged file may end the process, so only open .h5
files from sources you trust.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, is_shape
from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Source, closed_on_error
from ropecli.files.formats.library import import_library, translate_read_errors
from ropecli.files.formats.packed import Arrays, PackedSink, PackedSource
from ropecli.files.formats.stored import Stored, check_name
from ropecli.regular import open_regular

_OPAQUE = np.dtype("V2")  #: The dtype of bfloat16 in h5py.


class _Source(PackedSource):
    """An open file. Links to other files are not followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.close(open_regular(path, "an HDF5 file"))
        self.arrays: dict[str, Stored] = {}
        with translate_read_errors(str(path)):
            h5py: Any = import_library("h5py", path, "reading")
            # Not locked, because it may lie where nothing can be.
            self.file = h5py.File(path, "r", locking=False)
            with closed_on_error(self):
                # Neither soft nor external links are visited.
                self.file.visititems(lambda name, item: self._add(h5py, name, item))

    def _add(self, h5py: Any, name: str | bytes, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.shape is not None:
            text = name if isinstance(name, str) else name.decode(errors="surrogateescape")
            self.arrays[text] = _describe(self.path, text, item)

    def load(self, name: str) -> NDArray[Any]:
        """Return a dataset."""
        dataset = self.file[_encode_name(name)]
        _check_chunks(f"{self.path}: {name}", dataset)
        array: NDArray[Any] = dataset[()]
        return array

    def close(self) -> None:
        """Close the file."""
        # Nothing is lost where a file that was only read can't be closed.
        with contextlib.suppress(Exception):
            self.file.close()


def _write(part: Path, arrays: Arrays, source: Source) -> None:
    """Write datasets, those of another HDF5 file into a copy of it.

    The library writes into memory: it may end the process when a disk is full.
    """
    h5py: Any = import_library("h5py", part, "writing")
    elements = {
        _encode_name(name): array.view(_OPAQUE) if array.dtype == BFLOAT16 else array
        for name, array in arrays.items()
    }
    if not isinstance(source, _Source):
        image = io.BytesIO()
        with h5py.File(image, "w") as file:
            for name, array in elements.items():
                file.create_dataset(name, data=array)
    else:
        image = io.BytesIO(source.path.read_bytes())
        with h5py.File(image, "r+") as file:
            for name, array in elements.items():
                file[name][()] = array
        with h5py.File(image, "r") as file:
            for name, array in elements.items():
                _check_stored(source.path, name.decode(errors="replace"), file[name][()], array)
    part.write_bytes(image.getbuffer())


def _check_stored(path: Path, name: str, stored: NDArray[Any], array: NDArray[Any]) -> None:
    """Refuse a dataset that did not keep the bits that were written into it."""
    if stored.tobytes() != array.tobytes():
        raise FileError(
            f"{path}: {name} cannot hold its rotated elements: they are floats of a type that "
            "NumPy lacks, lossily packed, or share their bytes with others",
            "write a file of another format, such as .npy",
        )


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


def _encode_name(name: str) -> bytes:
    """Return a name as the file has it: any bytes may be one."""
    return name.encode(errors="surrogateescape")


def _is_valid_name(name: str) -> bool:
    return b"\0" not in name.encode() and not {"", "."} & set(name.split("/"))


def _as_stored(array: Stored) -> Stored:
    """Return the array in its dtype and byte order, in C order."""
    import_library("h5py", array.path, "writing")
    check_name(array.path, array.name, _is_valid_name)
    return replace(array, fortran_order=False, chunks=None)


def _create(part: Path, arrays: Sequence[Stored], source: Source) -> PackedSink:
    copied = source.path.stat().st_size if isinstance(source, _Source) else 0
    return PackedSink(part, arrays, source, write=_write, more=copied)


HDF5 = Format(
    suffixes=(".h5", ".hdf5"),
    named=True,
    packed=True,
    open=_Source,
    create=_create,
    as_stored=_as_stored,
)
