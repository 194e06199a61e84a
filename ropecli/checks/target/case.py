"""A failure in words: a position, a vector, what came out and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SHOWN = 4  #: Coordinates of a vector that are written out.


def described(place: str, x: Array, got: Array, expected: Array, tolerance: Array) -> str:
    """One row: "position 1, x = e_0: got (0.5403 at 0), expected (0.5403 at 0, 0.8415 at 1)"."""
    differ = ~(np.abs(got - expected) <= tolerance)
    first = np.flatnonzero(differ)[:SHOWN]
    other = [j for j in np.flatnonzero((x != 0) & ~differ) if len(first) < SHOWN][:1]
    named = sorted({*first.tolist(), *(int(j) for j in other)})
    digits = _digits(got[named], expected[named])
    more = ", ..." if differ.sum() > SHOWN else ""
    ours = ", ".join(f"{got[j]:.{digits}g} at {j}" for j in named)
    theirs = ", ".join(f"{expected[j]:.{digits}g} at {j}" for j in named)
    return f"{place}, x = {vector(x)}: got ({ours}{more}), expected ({theirs}{more})"


def vector(x: Array) -> str:
    """e_0, ones, or the first coordinates."""
    filled = np.flatnonzero(x)
    if len(filled) == 1 and x[filled[0]] == 1:
        return f"e_{filled[0]}"
    if (x == 1).all():
        return "ones"
    listed = ", ".join(f"{value:.9g}" for value in x[:SHOWN])
    return f"({listed}{', ...' if len(x) > SHOWN else ''})"


def place(position: Array | np.float64) -> str:
    """A position, or a point of several axes, in words."""
    numbers = np.atleast_1d(position)
    text = ", ".join(f"{value:,.0f}" for value in numbers)
    return f"position {text}" if len(numbers) == 1 else f"position ({text})"


def _digits(got: Array, expected: Array) -> int:
    """As many as it takes to tell the two apart, and at least 4."""
    scale = float(np.abs(got).max(initial=0)) or 1.0
    gap = float(np.abs(got - expected).max(initial=0))
    if not np.isfinite(gap) or gap == 0 or not np.isfinite(scale):
        return 4
    return int(min(17, max(4, np.ceil(np.log10(scale / gap)) + 2)))
