"""A failure in words: a position, a vector, what came out and what was expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.counterexample import distinguishing_digits, format_vector

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
    digits = distinguishing_digits(got[named], expected[named])
    more = ", ..." if differ.sum() > SHOWN else ""
    ours = ", ".join(f"{got[j]:.{digits}g} at {j}" for j in named)
    theirs = ", ".join(f"{expected[j]:.{digits}g} at {j}" for j in named)
    given = format_vector(x, shown=SHOWN, digits=9)
    return f"{place}, x = {given}: got ({ours}{more}), expected ({theirs}{more})"


def place(position: Array | np.float64) -> str:
    """A position, or a point of several axes, in words."""
    numbers = np.atleast_1d(position)
    text = ", ".join(f"{value:,.0f}" for value in numbers)
    return f"position {text}" if len(numbers) == 1 else f"position ({text})"
