"""Vectors and numbers of a counterexample as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]


def format_vector(x: Array, *, shown: int, digits: int) -> str:
    """Return "e_0", "ones", or the first coordinates.

    Args:
        x: (head_dim,).
        shown: Coordinates to write out.
        digits: Significant digits of each.
    """
    filled = np.flatnonzero(x)
    if len(filled) == 1 and x[filled[0]] == 1:
        return f"e_{filled[0]}"
    if (x == 1).all():
        return "ones"
    listed = ", ".join(f"{value:.{digits}g}" for value in x[:shown])
    return f"({listed}{', ...' if len(x) > shown else ''})"


def distinguishing_digits(got: Array, expected: Array) -> int:
    """Return how many significant digits show that two results differ, at least 4."""
    scale = float(np.abs(got).max(initial=0)) or 1.0
    gap = float(np.abs(np.asarray(got) - np.asarray(expected)).max(initial=0))
    if not np.isfinite(gap) or gap == 0 or not np.isfinite(scale):
        return 4
    return int(min(17, max(4, np.ceil(np.log10(scale / gap)) + 2)))
