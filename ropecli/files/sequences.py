"""Vectors of a sequence, read whole from a file and laid out as arrays of them are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.files.axes import understand_axes
from ropecli.files.formats.stored import Stored
from ropecli.files.tensors import read_tensor

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray

    from ropecli.files.axes import Axes


def read_sequences(
    path: str | os.PathLike[str],
    name: str | None = None,
    *,
    head_dim: int | None = None,
    sequence_axis: int | None = None,
    dtype: str | None = None,
) -> tuple[NDArray[Any], Axes]:
    """A tensor as (..., sequence, head_dim), and what its axes were in the file.

    Args:
        path: As in `read_tensor`.
        name: As in `read_tensor`.
        head_dim: The last axis holds heads of that many coordinates side by side; one by default.
        sequence_axis: Where the positions run; the axis before the last by default.
        dtype: As in `read_tensor`.

    Raises:
        ArgumentError: An axis that the tensor does not have, or a head dim that does not fit.
        FileError: A file that can't be read, or has fewer than two axes.
    """
    array = read_tensor(path, name, dtype=dtype)
    stored = Stored(path=Path(path), shape=array.shape, dtype=array.dtype)
    axes = understand_axes(stored, head_dim=head_dim, sequence_axis=sequence_axis)
    rows = np.moveaxis(array, axes.sequence_axis, -2)
    if axes.heads > 1:
        heads = rows.reshape(*rows.shape[:-1], axes.heads, axes.head_dim)
        rows = heads.swapaxes(-2, -3)
    return rows, axes
