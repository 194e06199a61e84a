"""The format .pt of PyTorch: a tensor, or tensors in dictionaries.

The user's own PyTorch says whether it takes a file, with `weights_only=True` and without its
elements: those it would map, and mapped pages count as memory. Where they stand is read from the
pickle as a record, of which nothing is run.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import replace
from importlib import metadata
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from ropecli.errors import FileError
from ropecli.files.formats.base import (
    FileSource,
    closed_on_error,
    translate_read_errors,
    translate_write_errors,
)
from ropecli.files.formats.density import believed
from ropecli.files.formats.flat import FlatReader, FlatWriter
from ropecli.files.formats.spool import Spool
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.strided import StridedReader
from ropecli.files.formats.torch_archive import VERSION, TorchArchive, write_archive
from ropecli.files.formats.torch_pickle import Dictionary, Storage, unpickled
from ropecli.files.formats.torch_pickled import pickled
from ropecli.files.formats.torch_tensors import (
    Tensor,
    storage_of,
    tensor_of,
    tensors_in,
    with_others,
)
from ropecli.regular import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from ropecli.files.formats.protocol import Reader, Source

#: Before it, a crafted file can run code although `torch.load` is told not to (CVE-2025-32434).
_OLDEST = (2, 6)


class Torch:
    """As `Format`."""

    suffixes = (".pt", ".pth")
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> TorchSource:
        """As `Format.open`."""
        _check_library(path, "reading")
        return TorchSource(path)

    def as_stored(self, array: Stored) -> Stored:
        """As `Format.as_stored`: in this machine's byte order, in C order."""
        _check_library(array.path, "writing")
        dtype = array.dtype.newbyteorder("=")
        return replace(array, dtype=dtype, fortran_order=False, chunks=None)

    def create(self, part: Path, arrays: Sequence[Stored], source: Source) -> TorchSink:
        """As `Format.create`."""
        return TorchSink(part, arrays, alone=list(source.arrays) == [""])

    def resume(self, part: Path, arrays: Sequence[Stored], source: Source) -> TorchSink:
        """As `Format.resume`, which this format does not allow."""
        raise AssertionError


class TorchSource(FileSource):
    """As `Source`."""

    def __init__(self, path: Path) -> None:
        """Open a file, and read all but the elements."""
        super().__init__(path, open_regular(path, "a .pt file"))
        with closed_on_error(self), translate_read_errors(str(path)):
            self.archive = TorchArchive(path, self.fd)
            self.version = self.archive.version()
            self.root = unpickled(self.archive.pickle())
            _judge(path)
            self._tensors: dict[str, Tensor] = {}
            for name, tensor in tensors_in(self.root):
                if name in self._tensors:
                    msg = f"it holds {name!r} twice"
                    raise ValueError(msg)
                self._tensors[name] = tensor
            packed = os.fstat(self.fd).st_size
            self.arrays = {
                name: believed(_stored(path, name, tensor), packed)
                for name, tensor in self._tensors.items()
            }

    def reader(self, stored: Stored) -> Reader:
        """As `Source.reader`."""
        tensor, size = self._tensors[stored.name], stored.dtype.itemsize
        assert tensor.storage is not None, "it has elements, or is unreadable"
        with translate_read_errors(stored.label):
            begin = self.archive.begin(tensor.storage.key, tensor.end * size)
        begin += tensor.begin * size
        if tensor.is_contiguous:
            return FlatReader(self.fd, stored, begin)
        return StridedReader(self.fd, stored, begin, tuple(n * size for n in tensor.strides))


class TorchSink:
    """As `Sink`. Tensors wait in a temporary file, since a zip archive is written in one go."""

    def __init__(self, part: Path, arrays: Sequence[Stored], *, alone: bool) -> None:
        """Begin a file without a name, on the disk of the output."""
        self._part = part
        self._alone = alone
        self._arrays = {array.name: array for array in arrays}
        self._waiting = Spool(part.parent, ((array, b"") for array in arrays))

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return self._waiting.writer(name)

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: what was read, with other tensors in it."""
        like = source if isinstance(source, TorchSource) else None
        with translate_read_errors(str(source.path)):
            taken = () if like is None else like.archive.keys()
            free = (str(number) for number in itertools.count() if str(number) not in taken)
            ours = dict(zip(free, self._arrays, strict=False))
            root = self._root(like, {name: self._storage(key, name) for key, name in ours.items()})
            pickle, keys = pickled(root)
            members = [
                (key, self._arrays[ours[key]].nbytes, self._waiting.blocks(ours[key]))
                if key in ours or like is None
                else (key, like.archive.length(key), like.archive.blocks(key))
                for key in keys
            ]
        with translate_write_errors(self._part):
            write_archive(self._part, pickle, members, VERSION if like is None else like.version)

    def _storage(self, key: str, name: str) -> Storage:
        array = self._arrays[name]
        return storage_of(array.dtype, key, array.nbytes // array.dtype.itemsize)

    def _root(self, like: TorchSource | None, storages: dict[str, Storage]) -> Any:
        if like is not None:
            found = {"": next(iter(storages.values()))} if self._alone else storages
            return with_others(like.root, found)
        tensors = [(n, tensor_of(storages[n], array.shape)) for n, array in self._arrays.items()]
        return tensors[0][1] if self._alone else Dictionary(items=list(tensors))

    def close(self) -> None:
        """As `Sink.close`."""
        self._waiting.close()


def _check_library(path: Path, action: str) -> None:
    """Refuse to go on without PyTorch.

    Raises:
        FileError: It is not installed, or too old.
    """
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        installed = ""
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < _OLDEST:
        found = f", got {installed}" if installed else ""
        msg = f"{action} {path} needs torch 2.6 or later{found}: pip install 'ropecli[torch]'"
        raise FileError(msg)


def _judge(path: Path) -> None:
    """Leave it to PyTorch whether what a file holds is safe to read; there is no other way in.

    Raises:
        FileError: It is not.
    """
    import torch

    try:
        torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except UnpicklingError:  # whose text is many lines on how to take it nevertheless
        msg = f"cannot read {path}: PyTorch refuses its pickle; allowed are tensors, "
        msg += "dictionaries and plain values"
        raise FileError(msg) from None


def _stored(path: Path, name: str, tensor: Tensor) -> Stored:
    return Stored(
        path=path,
        name=name,
        shape=tensor.shape,
        dtype=tensor.dtype,
        unreadable=tensor.unreadable,
    )
