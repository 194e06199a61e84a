"""What an implementation must give, in float64, and how far it may be from that."""

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
    """Rows that are expected."""

    rows: Array  #: (count, head_dim).
    tolerance: Array  #: (count, head_dim).


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The rotation that an implementation is held to."""

    rotary_at: Callable[[int], Rotary]  #: By the length of the sequence, for dynamic types.
    step: float = 1.0  #: What every position is multiplied by,
    shift: float = 0.0  #: and what is then added to it.
    uncertainty: Array | float = 0.0  #: Of inv_freq where it was measured, radians per position.
    outside: float = 0.0  #: By how much what is in no pair may turn nevertheless, as unseen.

    def truth(self, x: Array, positions: Array, dtype: str) -> Truth:
        """R_m x, row by row.

        Args:
            x: (count, head_dim).
            positions: (count,), or (count, axes) of several axes.
            dtype: Of the data; what may be lost to rounding goes by it.
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
        lost = tolerance.phase(angles, rope.inv_freq) + self._unsure(rope, positions)
        size = rope.attention_factor * np.hypot(x[:, first], x[:, second])
        per_pair = (unit + lost) * size + tolerance.floor(dtype)
        allowed[:, to_first] = allowed[:, to_second] = per_pair
        return Truth(rows=rows, tolerance=allowed)

    def angles(self, rope: Rotary, positions: Array) -> Array:
        """What each pair is turned by, (count, pairs), radians."""
        moved = positions * self.step + self.shift
        axis = rope.axis if moved.ndim == 2 else None
        return float64.angles(moved, rope.inv_freq, axis=axis, direction=rope.direction)

    def places(self, rope: Rotary, positions: Array) -> Array:
        """The position that turns each pair, (count, pairs), or (count, 1) of one axis."""
        moved = positions * self.step + self.shift
        return moved[:, list(rope.axis)] if moved.ndim == 2 else moved[:, None]

    def _unsure(self, rope: Rotary, positions: Array) -> Array:
        return np.asarray(self.uncertainty * np.abs(self.places(rope, positions)))


def sequence_length(positions: Array) -> int:
    """Tokens of a sequence that ends at the largest of the positions."""
    return max(1, int(positions.max(initial=0)) + 1)


def by_length(rope: Rotary) -> Callable[[int], Rotary]:
    """The encoding for each length of a sequence, unless it was made for one length."""
    if rope.sequence_length is not None or not rope.depends_on_length:
        return lambda _length: rope
    return rope.at_length
