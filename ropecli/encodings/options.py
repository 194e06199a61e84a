"""Options and positions of encodings, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.names import quote
from ropecli.numbers import LARGEST_DIM, between


def flag(name: str, value: object) -> bool:
    """The value as a bool."""
    if not isinstance(value, bool):
        raise ArgumentTypeError(f"{name} must be true or false, got {quote(value)}")
    return value


def rows(name: str, value: object) -> int:
    """The value as a number of rows of a table."""
    return between(name, value, 1, LARGEST_DIM)


def relative(m: NDArray[np.float64], n: NDArray[np.float64]) -> NDArray[np.int64]:
    """n - m, key minus query, (queries, keys)."""
    return _whole("key_positions", n) - _whole("query_positions", m)[:, None]


def table_rows(name: str, positions: NDArray[np.float64], length: int) -> NDArray[np.int64]:
    """Positions as rows of a table."""
    whole = _whole(name, positions)
    beyond = (whole < 0) | (whole >= length)
    if beyond.any():
        raise ArgumentError(
            f"{name} must be from 0 to {length - 1}, the table's last, got {whole[beyond][0]}"
        )
    return whole


def _whole(name: str, positions: NDArray[np.float64]) -> NDArray[np.int64]:
    broken = positions != np.floor(positions)
    if broken.any():
        raise ArgumentError(f"{name} must be whole for this encoding, got {positions[broken][0]:g}")
    return positions.astype(np.int64)
