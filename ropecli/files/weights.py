"""Named arrays from a .npz or .safetensors file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import dtype_name
from ropecli.errors import FileError
from ropecli.files.tensors import open_tensors

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

SUFFIXES = (".npz", ".safetensors")


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
    with open_tensors(path) as (names, get):
        return {name: _floats(path, name, get(name)) for name in names}


def _floats(path: Path, name: str, array: NDArray[Any]) -> NDArray[np.float64]:
    if dtype_name(array.dtype) is None:
        msg = f"{path}: {name} must be floats, got {array.dtype}"
        raise FileError(msg)
    return array.astype(np.float64)
