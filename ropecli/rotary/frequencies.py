"""The geometric frequencies that rope types start from, and the table that they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.arrays import as_array
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.rotary.pairs import MOST_AXES


@dataclass(frozen=True, kw_only=True, eq=False)
class Table:
    """Frequencies of a rope type, with its factors and axes."""

    inv_freq: NDArray[np.float64]  #: Radians per position, (pairs,) or (axes, pairs).
    base: float | None = None  #: The new base, if the type changes it.
    attention_factor: float = 1.0  #: Multiplies cos and sin.
    softmax_factor: float = 1.0  #: Multiplies the score.
    axis: ArrayLike | None = None  #: The coordinate of a position that rotates each pair, (pairs,).
    growth: ArrayLike | None = None  #: Logarithm of a query's growth per position, (pairs,).


def geometric(base: float, count: int, *, denominator: int) -> NDArray[np.float64]:
    """base^(-2i/denominator) for i = 0 ... count-1, in radians per position (RoFormer Eq. 15).

    A frequency beyond float64 is infinite. The paper's i runs from 1 in Eq. 15 and from 0 in
    section 3.3; both mean this table.
    """
    exponents = -2.0 * np.arange(count, dtype=np.float64) / denominator
    with np.errstate(over="ignore"):
        return np.power(np.float64(base), exponents)


def plain(base: float, dim: int) -> NDArray[np.float64]:
    """The geometric table of a rotary dim, rounded up to a whole pair where the dim is odd."""
    return geometric(base, (dim + 1) // 2, denominator=dim)


def finite_table(name: str, values: ArrayLike, *allowed: tuple[int, ...]) -> NDArray[np.float64]:
    """Check finite numbers of a shape allowed, and return them as float64.

    Without shapes, there is one number for each pair, or a row of them for each axis.
    """
    array = as_array(name, values)
    if array.dtype.kind not in "iuf":
        raise ArgumentTypeError(f"{name} must be real numbers, got {array.dtype}")
    table: NDArray[np.float64] = array.astype(np.float64)
    shapes = " or ".join(map(str, dict.fromkeys(allowed))) or "(pairs,) or (axes, pairs)"
    right = table.shape in allowed or (not allowed and table.ndim in {1, 2})
    if not right or not table.size or (table.ndim == 2 and len(table) > MOST_AXES):
        raise ArgumentError(
            f"{name} must be finite numbers of shape {shapes}, got shape {table.shape}"
        )
    if not np.isfinite(table).all():
        bad = tuple(np.argwhere(~np.isfinite(table))[0].tolist())
        index = bad if table.ndim > 1 else bad[0]
        raise ArgumentError(
            f"{name} must be finite numbers of shape {shapes}, got {table[bad]} at index {index}"
        )
    return table
