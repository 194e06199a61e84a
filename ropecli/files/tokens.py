"""A sequence of tokens from a file."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import FileError
from ropecli.files.arrays import open_array, read_whole
from ropecli.files.formats.stored import check_numeric

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def load_tokens(path: Path) -> NDArray[np.float64]:
    """Read (tokens, model_dim).

    Args:
        path: A file of integers or floats.

    Raises:
        FileError: A file that can't be read, has another shape, or holds what is not finite.
    """
    with open_array(path, accept=check_numeric) as reader:
        shape = reader.stored.shape
        if len(shape) != 2 or not math.prod(shape):
            msg = f"{path} has shape {shape}; (tokens, model dim) is needed"
            raise FileError(msg)
        tokens = read_whole(reader).astype(np.float64)
    if not np.isfinite(tokens).all():
        msg = f"{path} must be finite, and is not in row {_first_bad(tokens)}"
        raise FileError(msg)
    return tokens


def _first_bad(tokens: NDArray[np.float64]) -> int:
    return int((~np.isfinite(tokens)).any(axis=1).argmax())
