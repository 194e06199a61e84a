"""Named arrays from a .npz or .safetensors file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import FileError
from ropecli.files.arrays import read_whole
from ropecli.files.formats.registry import open_source
from ropecli.files.formats.stored import is_readable

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from ropecli.files.formats.protocol import Source
    from ropecli.files.formats.stored import Stored

SUFFIXES = (".npz", ".safetensors")


def load_weights(path: Path) -> dict[str, NDArray[np.float64]]:
    """All arrays of a file by name, as float64.

    Args:
        path: A .npz file, or .safetensors.

    Raises:
        FileError: Another suffix, a file that can't be read, or arrays that are no floats.
    """
    if path.suffix.lower() not in SUFFIXES:
        msg = f"weights must be in a file that ends in {', '.join(SUFFIXES)}, got {path.name!r}"
        raise FileError(msg)
    with open_source(path) as source:
        return {name: _floats(source, stored) for name, stored in source.arrays.items()}


def _floats(source: Source, stored: Stored) -> NDArray[np.float64]:
    if not is_readable(stored):
        msg = f"{stored.label} must be floats, got {stored.described}"
        raise FileError(msg)
    return read_whole(source.reader(stored)).astype(np.float64)
