"""The format .pt of PyTorch: a tensor, or tensors in dictionaries.

PyTorch itself reads and writes it, with `weights_only=True`: no pickle runs code.
"""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from importlib import metadata
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import BFLOAT16, as_array
from ropecli.errors import FileError
from ropecli.files.formats.base import Format, Source
from ropecli.files.formats.library import translate_read_errors
from ropecli.files.formats.packed import Arrays, PackedSink, PackedSource, check_memory
from ropecli.files.formats.stored import Stored, in_c_order, unreadable
from ropecli.regular import read_bytes, regular_file

#: Before it, a crafted file can run code in spite of `weights_only` (CVE-2025-32434).
_OLDEST = (2, 6)
_MAGIC = b"PK\x03\x04"  #: Of a zip archive, as PyTorch writes since 1.6.
_NUMPY = "float64 float32 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool complex64"
_DTYPES = {"bfloat16": BFLOAT16, **{name: np.dtype(name) for name in _NUMPY.split()}}
#: Dictionaries may be shared, so that a small file describes any number of tensors. Each entry
#: costs 16 and the letters of its name.
_BUDGET = 1 << 24
_DEEPEST = 100  #: Levels of dictionaries.


class _Source(PackedSource):
    def __init__(self, path: Path) -> None:
        self.path = path
        with regular_file(path, "a .pt file") as fd, translate_read_errors(str(path)):
            _check_library(path, "reading")
            size = os.fstat(fd).st_size
            if read_bytes(path, fd, 0, min(4, size)) != _MAGIC:
                raise FileError(f"{path} is not a file of PyTorch 1.6 or later")
            check_memory(str(path), size)
            self.root = _load(path)
            self.tensors = _collect_tensors(self.root)
            self.arrays = {
                name: _describe(path, name, tensor) for name, tensor in self.tensors.items()
            }

    def load(self, name: str) -> NDArray[Any]:
        """Return a tensor."""
        return as_array(f"{self.path}: {name}", self.tensors[name])


def _write(part: Path, arrays: Arrays, source: Source) -> None:
    """Write tensors, in the structure of the .pt file that they come from."""
    import torch

    tensors = {name: _as_tensor(array) for name, array in arrays.items()}
    if isinstance(source, _Source):
        root = _with_tensors(source.root, "", tensors)
    else:
        alone = list(source.arrays) == [""]
        root = next(iter(tensors.values())) if alone else tensors
    with part.open("wb") as stream:
        torch.save(root, stream)


def _check_library(path: Path, action: str) -> None:
    try:
        installed = metadata.version("torch")
    except metadata.PackageNotFoundError:
        installed = ""
    if tuple(map(int, re.findall(r"\d+", installed)[:2])) < _OLDEST:
        got = f", got {installed}" if installed else ""
        raise FileError(f"{action} {path} needs torch 2.6 or later{got}: pip install 'torch>=2.6'")


def _load(path: Path) -> Any:
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(path, map_location="cpu", weights_only=True)
    except UnpicklingError:  # whose text explains at length how to load the file nevertheless
        raise FileError(
            f"cannot read {path}: PyTorch refuses its pickle; "
            "expected tensors, dictionaries and plain values"
        ) from None


def _collect_tensors(root: Any) -> dict[str, Any]:
    """Return all tensors in dictionaries by name: their keys, with dots between."""
    import torch

    tensors: dict[str, Any] = {}
    budget = _BUDGET
    for name, node in _walk(root, "", 0):
        budget -= 16 + len(name)
        if budget < 0:
            raise ValueError("too many tensors and dictionaries, shared ones counted at each place")
        if isinstance(node, torch.Tensor):
            if name in tensors:
                raise ValueError(f"duplicate tensor name {name!r}")
            tensors[name] = node
    return tensors


def _walk(node: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield everything in dictionaries with its name, each before what it contains."""
    if depth > _DEEPEST:
        raise ValueError(f"dictionaries are nested more than {_DEEPEST} deep")
    yield name, node
    if isinstance(node, dict):
        for key, value in node.items():
            if _is_name(key):
                yield from _walk(value, _below(name, key), depth + 1)
            else:
                yield name, None


def _with_tensors(node: Any, name: str, tensors: Mapping[str, Any]) -> Any:
    """Return the same structure with other elements in some tensors."""
    import torch

    if isinstance(node, torch.Tensor):
        return _like(node, tensors[name]) if name in tensors else node
    if not isinstance(node, dict):
        return node
    changed = copy.copy(node)
    for key, value in node.items():
        if _is_name(key):
            changed[key] = _with_tensors(value, _below(name, key), tensors)
    same = all(changed[key] is value for key, value in node.items())
    return node if same else changed  # so that a shared dictionary stays shared


def _is_name(key: Any) -> bool:
    return key is None or isinstance(key, str | int | float)


def _below(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _like(old: Any, new: Any) -> Any:
    """Return new elements as the kind of tensor that they replace."""
    import torch

    if isinstance(old, torch.nn.Parameter):
        return torch.nn.Parameter(new, requires_grad=old.requires_grad)
    return new.requires_grad_(old.requires_grad)


def _as_tensor(array: NDArray[Any]) -> Any:
    import torch

    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _describe(path: Path, name: str, tensor: Any) -> Stored:
    import torch

    kind = str(tensor.dtype).removeprefix("torch.")
    why = "" if kind in _DTYPES else kind
    if tensor.layout != torch.strided or tensor.is_nested:
        why = "a tensor that is not dense"
    elif tensor.is_quantized:
        why = "a quantized tensor"
    elif tensor.device.type != "cpu":
        why = f"a tensor on the device {tensor.device}"
    elif tensor.is_conj() or tensor.is_neg():
        why = "a conjugated or negated view"
    if why:
        return unreadable(path, name, why)
    return Stored(path=path, name=name, shape=tuple(tensor.shape), dtype=_DTYPES[kind])


def _as_stored(array: Stored) -> Stored:
    """Return the array in native byte order, in C order."""
    _check_library(array.path, "writing")
    return in_c_order(array, "=")


TORCH = Format(
    suffixes=(".pt", ".pth"),
    named=True,
    packed=True,
    open=_Source,
    create=partial(PackedSink, write=_write),
    as_stored=_as_stored,
)
