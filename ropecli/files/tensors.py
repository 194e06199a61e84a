"""Tensors from .npy, .npz and .safetensors files, in the dtype in which they are stored."""

from __future__ import annotations

import contextlib
import math
import stat
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import BFLOAT16, DTYPES, dtype_name, native
from ropecli.errors import ArgumentError, FileError, RopecliError
from ropecli.files.npy import NpyReader
from ropecli.files.npy_header import NpyFile, of_numbers, to_rotate

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    #: The names in a file, and what reads the tensor of a name.
    Tensors = tuple[list[str], Callable[[str], NDArray[Any]]]

SUFFIXES = (".npy", ".npz", ".safetensors")
LARGEST = 2**32  #: Bytes that a file may unpack to: more is not what a command reads whole.
SHOWN = 8  #: Names of tensors that a message has.
#: What .safetensors files call the dtypes that are read from them.
_READABLE = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8")
#: What damaged files were seen to raise in the parsers has no common base below Exception.
_Damage = Exception


def read_tensor(
    path: str | os.PathLike[str], name: str | None = None, *, dtype: str | None = None
) -> NDArray[Any]:
    """One tensor of a file: integers, float64, float32, float16 or bfloat16, in native byte order.

    Args:
        path: A .npy or .npz file, or .safetensors where the package safetensors is installed.
        name: Which tensor, where the file holds several.
        dtype: "bfloat16" where 2-byte void elements (NumPy's way to store it) are that; else only
            held against the file.

    Raises:
        ArgumentError: Not the name of a dtype that can be rotated.
        FileError: Another suffix, a file that can't be read, no such tensor, several and no name,
            or elements of another kind.
    """
    file = Path(path)
    if dtype is not None and dtype not in DTYPES:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ArgumentError(msg)
    if file.suffix.lower() == ".npy":
        return _read_npy(file, name, dtype)
    with open_tensors(file) as (names, get):
        chosen = _chosen(file, names, name)
        return native(_numbers(file, chosen, get(chosen), dtype))


@contextlib.contextmanager
def open_tensors(path: Path) -> Iterator[Tensors]:
    """The names in a .npz or .safetensors file, and what reads one tensor; whatever they hold.

    Raises:
        FileError: Another suffix, or a file that can't be read.
    """
    kinds = {".npz": _npz, ".safetensors": _safetensors}
    if path.suffix.lower() not in kinds:
        msg = f"tensors must be in a file that ends in {', '.join(SUFFIXES)}, got {path.name!r}"
        raise FileError(msg)
    try:
        _check_size(path, path.stat())  # asked before opening: a pipe would wait for its other end
        with kinds[path.suffix.lower()](path) as tensors:
            yield tensors
    except RopecliError:
        raise
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise FileError(msg) from None
    except _Damage as error:
        msg = f"cannot read {path}: {str(error).partition(chr(10))[0] or type(error).__name__}"
        raise FileError(msg) from None


def _check_size(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        msg = f"{path} is no regular file"
        raise FileError(msg)
    if found.st_size > LARGEST:
        msg = f"{path} has {found.st_size:,} bytes; allowed are {LARGEST:,}"
        raise FileError(msg)


@contextlib.contextmanager
def _npz(path: Path) -> Iterator[Tensors]:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > LARGEST:
        msg = f"{path} unpacks to {size:,} bytes; allowed are {LARGEST:,}"
        raise FileError(msg)
    with np.load(path, allow_pickle=False) as arrays:
        yield arrays.files, arrays.__getitem__


@contextlib.contextmanager
def _safetensors(path: Path) -> Iterator[Tensors]:
    try:
        from safetensors import safe_open
    except ImportError:
        msg = f"reading {path} needs safetensors: pip install 'ropecli[safetensors]'"
        raise FileError(msg) from None
    with safe_open(path, framework="np") as tensors:

        def get(name: str) -> NDArray[Any]:
            kind = tensors.get_slice(name).get_dtype()
            if kind not in _READABLE:
                msg = f"{path}: {name} holds {kind}; allowed are {', '.join(_READABLE)}"
                raise FileError(msg)
            array: NDArray[Any] = tensors.get_tensor(name)
            return array

        yield list(tensors.keys()), get


def _read_npy(path: Path, name: str | None, dtype: str | None) -> NDArray[Any]:
    if name is not None:
        msg = f"{path} holds one array without a name, got name {name!r}"
        raise FileError(msg)

    def accepted(file: NpyFile) -> NpyFile:
        void = file.dtype == np.dtype("V2")
        return to_rotate(file, dtype) if void or dtype is not None else of_numbers(file)

    with NpyReader(path, accepted) as reader:
        file = reader.file
        if file.nbytes > LARGEST:
            msg = f"{path} has {file.nbytes:,} bytes; allowed are {LARGEST:,}"
            raise FileError(msg)
        stored = np.empty(math.prod(file.shape), file.dtype)
        reader.read_run(0, stored)
    return native(stored.reshape(file.shape, order="F" if file.fortran_order else "C"))


def _chosen(path: Path, names: list[str], name: str | None) -> str:
    if name in names:
        return name
    if name is None and len(names) == 1:
        return names[0]
    listed = ", ".join(sorted(names)[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    if not names:
        msg = f"{path} holds no tensor"
    elif name is None:
        msg = f"{path} holds {len(names)} tensors, name one of {listed}"
    else:
        msg = f"{path} holds no tensor {name!r}; allowed: {listed}"
    raise FileError(msg)


def _numbers(path: Path, name: str, array: NDArray[Any], dtype: str | None) -> NDArray[Any]:
    if array.dtype == np.dtype("V2"):
        if dtype == "bfloat16":
            return array.view(BFLOAT16)
        msg = f"{path}: {name} holds 2-byte void elements; if they are bfloat16, say so by dtype"
        raise FileError(msg)
    known = dtype_name(array.dtype)
    if known is None and array.dtype.kind not in "iu":
        msg = f"{path}: {name} must be floats or integers, got {array.dtype}"
        raise FileError(msg)
    if dtype not in (None, known):
        msg = f"{path}: {name} holds {known or array.dtype}, not {dtype}"
        raise FileError(msg)
    return array
