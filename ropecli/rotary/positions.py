"""Position ids as float64, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import as_array, native
from ropecli.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMIT = 2**53  #: Beyond it float64 cannot represent every integer.


def as_positions(value: object) -> NDArray[np.float64]:
    """Check positions, and return them as float64 in the same shape.

    Raises:
        ArgumentError: Not finite, or beyond 2^53 in magnitude.
        ArgumentTypeError: Not integers or floats.
    """
    # NumPy 2.0 and 2.1 crash when integers of the other byte order meet a limit beyond their type.
    array = native(as_array("positions", value))
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        msg = f"positions must be integers or floats, got {array.dtype}"
        raise ArgumentTypeError(msg)
    if array.dtype.kind == "f":
        array = array.astype(np.float64)  # exact, and float16 could not hold the limit
    # Integers are compared before the conversion, which would round one beyond the limit onto it.
    bad = ~((array >= -LIMIT) & (array <= LIMIT))
    if bad.any():
        msg = (
            "positions must be finite and at most 2^53 in magnitude, "
            f"got {array[bad].flat[0]} at index {int(np.flatnonzero(bad)[0])}"
        )
        raise ArgumentError(msg)
    return array.astype(np.float64)
