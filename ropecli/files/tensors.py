"""Arrays that are read whole, in the dtype in which they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.errors import ArgumentError
from ropecli.files.arrays import open_array, read_whole
from ropecli.files.formats.stored import Stored, check_numeric, check_rotatable

if TYPE_CHECKING:
    import os

    from numpy.typing import NDArray


def read_tensor(
    path: str | os.PathLike[str], name: str | None = None, *, dtype: str | None = None
) -> NDArray[Any]:
    """One array of a file: integers, float64, float32, float16 or bfloat16, native byte order.

    Args:
        path: A file in any format that is read.
        name: Which array, where the file holds several.
        dtype: "bfloat16" where 2-byte void elements (NumPy's way to store it) are that; else only
            held against the file.

    Raises:
        ArgumentError: Not the name of a dtype that can be rotated.
        FileError: Another suffix, a file that can't be read, no such array, several and no name,
            or elements of another kind.
    """
    if dtype is not None and dtype not in DTYPES:
        msg = f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}"
        raise ArgumentError(msg)

    def accepted(stored: Stored) -> Stored:
        if dtype is not None or stored.dtype == np.dtype("V2"):
            return check_rotatable(stored, dtype)
        return check_numeric(stored)

    with open_array(path, name, accept=accepted) as reader:
        return read_whole(reader)
