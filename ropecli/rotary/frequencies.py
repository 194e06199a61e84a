"""Frequencies that rope types start from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def geometric(base: float, count: int, *, denominator: int) -> NDArray[np.float64]:
    """base^(-2i/denominator) for i = 0 ... count-1, in radians per position (RoFormer Eq. 15).

    The paper's i runs from 1 in Eq. 15 and from 0 in section 3.3; it is the same table.

    Args:
        base: The base wavelength divided by 2 pi; 10,000 in the paper.
        count: Number of pairs.
        denominator: What the exponents are divided by: the rotary dim, or the head dim where a
            model's slow pairs do not turn.
    """
    exponents = -2.0 * np.arange(count, dtype=np.float64) / denominator
    return np.power(np.float64(base), exponents)
