"""One vector from a file, or one row of a sequence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError, FileError
from ropecli.files.arrays import open_array, read_part
from ropecli.files.formats.stored import check_numeric

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Vector:
    """A vector, and where it stood."""

    values: NDArray[np.float64]  #: (dim,).
    path: Path  #: The file.
    rows: int | None  #: Rows that the file holds; None for a plain vector.
    row: int | None  #: The row that was taken; None for a plain vector.


def load_vector(path: Path, row: int | None = None) -> Vector:
    """Read a vector (dim,), or one row of an array (..., dim), the first by default.

    Args:
        path: A file of integers or floats.
        row: Row to take, from 0, or from -1 backwards; leading axes count as rows.

    Raises:
        ArgumentError: No such row.
        FileError: A file that can't be read, or holds no vector.
    """
    with open_array(path, accept=check_numeric) as reader:
        shape = reader.stored.shape
        if not shape or not math.prod(shape):
            msg = f"{path} has shape {shape}; a vector, or a sequence of them, is needed"
            raise FileError(msg)
        rows = math.prod(shape[:-1])
        if len(shape) == 1 and row is not None:
            msg = f"{path} holds one vector and no rows, got row {row}"
            raise ArgumentError(msg)
        index = 0 if row is None else row
        if not -rows <= index < rows:
            msg = f"{path} has rows 0 to {rows - 1}, or -{rows} to -1, got row {index}"
            raise ArgumentError(msg)
        index %= rows
        place = np.unravel_index(index, shape[:-1])
        box = (*(slice(int(i), int(i) + 1) for i in place), slice(0, shape[-1]))
        values = read_part(reader, box).reshape(-1)
    plain = len(shape) == 1
    return Vector(
        values=values.astype(np.float64),
        path=path,
        rows=None if plain else rows,
        row=None if plain else index,
    )
