"""The rows that an implementation must return, in float64, and their tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation import tolerance
from ropecli.reference import float64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """Expected rows."""

    rows: Array  #: (count, head_dim).
    tolerance: Array  #: (count, head_dim).


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The rotation that rows of an implementation are compared with."""

    rotary_at: Callable[[int], Rotary]  #: The encoding for a length of the sequence.
    scale: float = 1.0  #: Factor of every position,
    offset: float = 0.0  #: and what is then added to it.
    uncertainty: Array | float = 0.0  #: Error of a measured inv_freq, radians per position.
    outside: float = 0.0  #: Rotation of unpaired coordinates too slow to see, radians per position.

    def truth(self, x: Array, positions: Array, dtype: str) -> Truth:
        """Return R_m x, row by row, with the tolerance of each coordinate.

        Args:
            x: (count, head_dim).
            positions: (count,), or (count, axes) of several axes.
            dtype: Dtype of the data, whose rounding the tolerance includes.
        """
        rope = self.rotary_at(sequence_length(positions))
        angles = self.angles(rope, positions)
        rows = float64.rotate(
            x,
            angles,
            pairs_in=rope.pairs_in,
            pairs_out=rope.pairs_out,
            factor=rope.attention_factor,
        )
        (first, second), (to_first, to_second) = rope.pairs_in.T, rope.pairs_out.T
        # Coordinates in no pair are copied, or multiplied by a one that may be rounded.
        unit = tolerance.rounding(dtype)
        allowed = unit * np.abs(rows) + tolerance.floor(dtype)
        if self.outside:
            furthest = np.abs(positions if positions.ndim == 1 else positions.max(axis=1))
            allowed += (self.outside * furthest * np.abs(x).max(axis=1))[:, None]
        lost = tolerance.phase(angles, rope.inv_freq) + self._uncertain_phase(rope, positions)
        size = rope.attention_factor * np.hypot(x[:, first], x[:, second])
        per_pair = (unit + lost) * size + tolerance.floor(dtype)
        allowed[:, to_first] = allowed[:, to_second] = per_pair
        return Truth(rows=rows, tolerance=allowed)

    def angles(self, rope: Rotary, positions: Array) -> Array:
        """Return the angle of each pair, (count, pairs), radians."""
        moved = positions * self.scale + self.offset
        axis = rope.axis if moved.ndim == 2 else None
        return float64.angles(moved, rope.inv_freq, axis=axis, direction=rope.direction)

    def scaled_positions(self, rope: Rotary, positions: Array) -> Array:
        """Return the position that each pair follows, (count, pairs), or (count, 1) of one axis."""
        moved = positions * self.scale + self.offset
        return moved[:, list(rope.axis)] if moved.ndim == 2 else moved[:, None]

    def _uncertain_phase(self, rope: Rotary, positions: Array) -> Array:
        return np.asarray(self.uncertainty * np.abs(self.scaled_positions(rope, positions)))


def sequence_length(positions: Array) -> int:
    """Return the length of a sequence that ends at the largest of the positions."""
    return max(1, int(positions.max(initial=0)) + 1)


def by_length(rope: Rotary) -> Callable[[int], Rotary]:
    """Return a function of the sequence length that gives the encoding for it.

    An encoding that was made for one length stays the same.
    """
    if rope.sequence_length is not None or not rope.depends_on_length:
        return lambda _length: rope
    return rope.at_length
