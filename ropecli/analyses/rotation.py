"""One vector at several positions: how its pairs turn (RoFormer Eq. 13, 34, Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.results import Drawable
from ropecli.rotary.apply import rotate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

    from ropecli.rotary import Rotary

PAIRS = 4  #: Number of pairs by default: fast ones to slow ones.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rotation(Drawable):
    """A vector, rotated to several positions."""

    rope: Rotary  #: The encoding.
    positions: tuple[int, ...]  #: Positions in the order given.
    rotated: NDArray[np.float64]  #: The vector at each position, (positions, head_dim).
    pairs: tuple[int, ...]  #: Indices of the pairs to show.


def rotation(
    x: ArrayLike,
    rope: Rotary,
    *,
    positions: Sequence[int] = (0, 1, 2, 3, 4),
    pairs: Sequence[int] | None = None,
) -> Rotation:
    """Rotate one vector to several positions: pair i turns by m theta_i (Eq. 13, 34).

    Args:
        x: The vector, (head_dim,).
        rope: The encoding, with positions of one axis.
        positions: Positions of the vector.
        pairs: Indices of the pairs to show; four from the fastest to the slowest by default.

    Raises:
        ArgumentError: An unusable shape, pair or position.
    """
    vector = np.asarray(x, dtype=np.float64)
    if vector.shape != (rope.head_dim,):
        msg = f"x must have shape ({rope.head_dim},), got {vector.shape}"
        raise ArgumentError(msg)
    count = rope.rotary_dim // 2
    if pairs is None:
        pairs = sorted({round(i) for i in np.linspace(0, count - 1, min(PAIRS, count))})
    if not pairs or min(pairs) < 0 or max(pairs) >= count:
        msg = f"pairs must be from 0 to {count - 1}, got {list(pairs)}"
        raise ArgumentError(msg)
    rotated = rotate(np.tile(vector, (len(positions), 1)), rope, positions)
    return Rotation(rope=rope, positions=tuple(positions), rotated=rotated, pairs=tuple(pairs))
