"""Named arrays from a .npz or .safetensors file."""

from __future__ import annotations

import stat
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError

if TYPE_CHECKING:
    import os
    from pathlib import Path

    from numpy.typing import NDArray

SUFFIXES = (".npz", ".safetensors")
LARGEST = 2**32  #: Bytes that a file may unpack to: more is no encoding's weights.
#: What damaged files were seen to raise in the parsers has no common base below Exception.
_Damage = Exception


def load_weights(path: Path) -> dict[str, NDArray[np.float64]]:
    """All arrays of a file by name, as float64.

    Args:
        path: A .npz file, or .safetensors where the package safetensors is installed.

    Raises:
        FileError: Another suffix, a file that can't be read, or arrays that are no floats.
    """
    if path.suffix.lower() not in SUFFIXES:
        msg = f"weights must be in a file that ends in {', '.join(SUFFIXES)}, got {path.name!r}"
        raise FileError(msg)
    read = _npz if path.suffix.lower() == ".npz" else _safetensors
    try:
        _check_size(path, path.stat())  # asked before opening: a pipe would wait for its other end
        arrays = read(path)
    except FileError:
        raise
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise FileError(msg) from None
    except _Damage as error:
        msg = f"cannot read {path}: {str(error).partition(chr(10))[0] or type(error).__name__}"
        raise FileError(msg) from None
    return {name: _floats(path, name, array) for name, array in arrays.items()}


def _check_size(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        msg = f"{path} is no regular file"
        raise FileError(msg)
    if found.st_size > LARGEST:
        msg = f"{path} has {found.st_size:,} bytes; allowed are {LARGEST:,}"
        raise FileError(msg)


def _npz(path: Path) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > LARGEST:
        msg = f"{path} unpacks to {size:,} bytes; allowed are {LARGEST:,}"
        raise FileError(msg)
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _safetensors(path: Path) -> dict[str, NDArray[Any]]:
    try:
        from safetensors.numpy import load_file
    except ImportError:
        msg = f"reading {path} needs safetensors: pip install 'ropecli[safetensors]'"
        raise FileError(msg) from None
    arrays: dict[str, NDArray[Any]] = load_file(path)
    return arrays


def _floats(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if dtype_name(array.dtype) is None:
        msg = f"{path}: {name} must be floats, got {array.dtype}"
        raise FileError(msg)
    return array.astype(np.float64)
