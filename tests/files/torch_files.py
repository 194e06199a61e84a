"""Files of PyTorch that are written without PyTorch, so that they may say anything."""

from __future__ import annotations

import sys
import zipfile
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.torch_pickle import Dictionary, Made, Name, Storage
from ropecli.files.formats.torch_pickled import pickled

KINDS = {"f8": "DoubleStorage", "f4": "FloatStorage", "f2": "HalfStorage", "i8": "LongStorage"}


def arrays_of(path: Path) -> dict[str, Any]:
    """All arrays of a file, by name."""
    with open_source(path) as source:
        return {name: read_whole(source.reader(stored)) for name, stored in source.arrays.items()}


def assume_torch(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """As if PyTorch were installed, and took every file; the files that it was asked about."""
    installed = metadata.version
    monkeypatch.setattr(metadata, "version", lambda n: "2.6.0" if n == "torch" else installed(n))
    asked: list[Path] = []

    def load(path: Path, *, weights_only: bool, **_: object) -> None:
        assert weights_only
        asked.append(path)

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=load))
    return asked


def tensor(
    key: str,
    shape: tuple[int, ...],
    *,
    strides: tuple[int, ...] | None = None,
    begin: int = 0,
    length: int | None = None,
    kind: str = "FloatStorage",
) -> Made:
    """The record of a tensor in a storage of so many elements."""
    if strides is None:
        strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
    length = int(np.prod(shape)) if length is None else length
    storage = Storage(Name(f"torch.{kind}"), key, "cpu", length)
    hooks = Made(name=Name("collections.OrderedDict"))
    arguments = (storage, begin, shape, strides, False, hooks)
    return Made(name=Name("torch._utils._rebuild_tensor_v2"), arguments=arguments)


def dictionary(**items: Any) -> Dictionary:
    """The record of a dictionary."""
    return Dictionary(items=list(items.items()))


def write_torch(path: Path, root: Any, *elements: NDArray[Any], **members: bytes) -> Path:
    """A file of a record, or of a pickle of any bytes, and of storages that are called 0, 1, ...

    Args:
        path: The file.
        root: The record.
        elements: Of the storages.
        members: Others, by name.
    """
    pickle = root if isinstance(root, bytes) else pickled(root)[0]
    storages = {f"data/{n}": array.tobytes() for n, array in enumerate(elements)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in {"data.pkl": pickle, "version": b"3\n", **storages, **members}.items():
            archive.writestr(f"x/{name}", content)
    return path
