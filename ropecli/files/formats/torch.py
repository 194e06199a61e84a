"""The format .pt of PyTorch: a tensor, or tensors in dictionaries, read by the user's own PyTorch.

Whatever needs more of a pickle than tensors, dictionaries and plain values is refused.
"""

from __future__ import annotations

import mmap
import os
import re
import threading
import zipfile
from dataclasses import replace
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, DTYPES
from ropecli.errors import FileError
from ropecli.files.formats.density import believed
from ropecli.files.formats.flat import FlatWriter, open_regular, read_bytes
from ropecli.files.formats.library import writing
from ropecli.files.formats.source import FileSource, closed_on_error
from ropecli.files.formats.stored import Stored
from ropecli.files.formats.stream import damage
from ropecli.files.formats.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Box

#: Before it, a crafted file can run code although it is told not to (CVE-2025-32434).
_OLDEST = (2, 6)
_MAGIC = b"PK\x03\x04"  #: How a zip archive begins; what PyTorch wrote before 1.6 is none.
#: Bytes read through one mapping of the file. What was read through it counts as resident until
#: it is given up.
_MAPPED = 1 << 26


class Torch:
    """As `Format`."""

    suffixes = (".pt", ".pth")
    named = True
    random = False
    folder = False

    def open(self, path: Path) -> TorchSource:
        """As `Format.open`."""
        return TorchSource(path, _torch(path, "reading"))

    def kept(self, array: Stored) -> Stored:
        """As `Format.kept`: in this machine's byte order, in C order."""
        _torch(array.path, "writing")
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

    def __init__(self, path: Path, torch: Any) -> None:
        """Open a file, and read all but the elements."""
        super().__init__(path, open_regular(path, "a .pt file"))
        self.torch = torch
        self._lock = threading.Lock()
        self._read = 0  # bytes, through this mapping
        with closed_on_error(self), damage(str(path)):
            _check_archive(path, self.fd)
            self._tensors = dict(_tensors(path, self.load()))
            packed = os.fstat(self.fd).st_size
            self.arrays = {
                name: believed(_stored(torch, path, name, tensor), packed)
                for name, tensor in self._tensors.items()
            }

    def load(self) -> Any:
        """What was saved, its tensors in a new mapping of the file.

        Raises:
            FileError: It is something else, or damaged.
        """
        with damage(str(self.path)):
            try:
                return self.torch.load(self.path, map_location="cpu", mmap=True, weights_only=True)
            except UnpicklingError as error:
                found = re.search(r"GLOBAL ([\w.]+)", str(error))
                what = f"needs {found[1]}" if found else "can't be understood"
                msg = f"cannot read {self.path}: its pickle {what}; allowed are tensors, "
                msg += "dictionaries and plain values"
                raise FileError(msg) from None

    def tensor(self, name: str, nbytes: int) -> Any:
        """A tensor, of which so much will be read."""
        with self._lock:
            self._read += nbytes
            if self._read > _MAPPED:
                self._tensors = {}
                self._tensors, self._read = dict(_tensors(self.path, self.load())), 0
            return self._tensors[name]

    def reader(self, stored: Stored) -> TorchReader:
        """As `Source.reader`."""
        return TorchReader(self, stored)


class TorchReader:
    """As `Reader`."""

    in_order = False

    def __init__(self, source: TorchSource, stored: Stored) -> None:
        """Read from a file."""
        self.stored = stored
        self._source = source

    def read(self, box: Box, out: NDArray[Any]) -> None:
        """As `Reader.read`."""
        with damage(self.stored.label):
            part = self._source.tensor(self.stored.name, out.nbytes).detach()[box]
            if self.stored.dtype == BFLOAT16:  # which NumPy does not have
                out.view(np.uint16)[...] = part.view(self._source.torch.uint16).numpy()
            else:
                out[...] = part.numpy()


class TorchSink:
    """As `Sink`. Tensors wait in temporary files, since a file is written in one go."""

    def __init__(self, part: Path, arrays: Sequence[Stored], *, alone: bool) -> None:
        """Begin files without a name, on the disk of the output."""
        self._part = part
        self._alone = alone
        self._waiting = {array.name: _Tensor(part.parent, array) for array in arrays}

    def writer(self, name: str) -> FlatWriter:
        """As `Sink.writer`."""
        return self._waiting[name].writer

    def finish(self, source: Source, rest: Collection[str]) -> None:
        """As `Sink.finish`: the structure that was read, with other tensors in it."""
        torch = _torch(self._part, "writing")
        tensors = {name: waiting.tensor(torch) for name, waiting in self._waiting.items()}
        if self._alone:
            (saved,) = tensors.values()
        elif isinstance(source, TorchSource):
            saved = source.load()
            for name, tensor in tensors.items():
                _replace(torch, saved, name, tensor)
        else:
            saved = tensors
        with writing(self._part), self._part.open("wb") as stream:
            torch.save(saved, stream)

    def close(self) -> None:
        """As `Sink.close`."""
        for waiting in self._waiting.values():
            waiting.close()


class _Tensor(Waiting):
    """A tensor that is yet to be saved."""

    def tensor(self, torch: Any) -> Any:
        """The tensor, whose elements stay in the file."""
        name = next(name for name, dtype in DTYPES.items() if dtype == self.array.dtype)
        dtype = getattr(torch, name)
        if not self.array.nbytes:
            return torch.empty(self.array.shape, dtype=dtype)
        elements = mmap.mmap(self.file.fileno(), self.array.nbytes)
        return torch.frombuffer(elements, dtype=dtype).reshape(self.array.shape)


def _torch(path: Path, action: str) -> Any:
    """The user's PyTorch.

    Raises:
        FileError: It is not installed, or too old.
    """
    try:
        import torch

        version = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2]))
        found = f", got {torch.__version__}" if version < _OLDEST else ""
    except ImportError:
        version, found = (), ""
    if version < _OLDEST:
        msg = f"{action} {path} needs torch 2.6 or later{found}: pip install 'ropecli[torch]'"
        raise FileError(msg)
    return torch


def _check_archive(path: Path, fd: int) -> None:
    """Refuse what is no archive of PyTorch's, or unpacks to more than it has.

    Raises:
        FileError: It is that.
    """
    if read_bytes(path, fd, 0, min(4, os.fstat(fd).st_size)) != _MAGIC:
        msg = f"{path} is no file of PyTorch 1.6 or later; allowed is what torch.save writes"
        raise FileError(msg)
    with open(fd, "rb", closefd=False) as stream, zipfile.ZipFile(stream) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                msg = f"{path} holds {member.filename!r} compressed, as torch.save never does"
                raise FileError(msg)


def _tensors(path: Path, saved: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """All tensors by their names.

    Raises:
        FileError: One name for several.
    """
    seen: set[str] = set()
    for found, holder, key in _leaves(saved, name):
        if found in seen:
            msg = f"{path} holds {found!r} twice"
            raise FileError(msg)
        seen.add(found)
        yield found, holder if key is None else holder[key]


def _leaves(saved: Any, name: str) -> Iterator[tuple[str, Any, Any]]:
    """The name of each tensor, and where it is: in which dictionary, under which key."""
    if _is_tensor(saved):
        yield name, saved, None
    elif isinstance(saved, dict):
        for key, value in saved.items():
            below = f"{name}.{key}" if name else str(key)
            if _is_tensor(value):
                yield below, saved, key
            elif isinstance(value, dict):
                yield from _leaves(value, below)


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def _replace(torch: Any, saved: Any, name: str, tensor: Any) -> None:
    """Put a tensor in the place of another."""
    holder, key = next((h, k) for found, h, k in _leaves(saved, "") if found == name)
    before = holder[key]
    if isinstance(before, torch.nn.Parameter):
        tensor = torch.nn.Parameter(tensor, requires_grad=before.requires_grad)
    else:
        tensor.requires_grad_(before.requires_grad)
    holder[key] = tensor


def _stored(torch: Any, path: Path, name: str, tensor: Any) -> Stored:
    what = ""
    try:
        if tensor.dtype == torch.bfloat16:
            dtype = BFLOAT16
        else:
            dtype = torch.empty(0, dtype=tensor.dtype).numpy().dtype
    except TypeError:
        dtype, what = np.dtype(np.uint8), str(tensor.dtype).removeprefix("torch.")
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        what = f"a tensor that is not dense on the CPU: {tensor.layout} on {tensor.device}"
    return Stored(path=path, name=name, shape=tuple(tensor.shape), dtype=dtype, unreadable=what)
