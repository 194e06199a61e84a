"""One vector at its position, step by step (RoFormer Eq. 12, 15, 34, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ropecli.analyses.decay import head_vector
from ropecli.arrays import Array, as_positions, on_all_axes
from ropecli.errors import ArgumentError
from ropecli.numbers import integer
from ropecli.results import Drawable
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate
from ropecli.rotary.rotary import check_rope

PAIRS = 4  #: Number of pairs by default: fast ones to slow ones.
LARGEST_MATRIX = 1024  #: Head dim; R has its square of numbers.


@dataclass(frozen=True, kw_only=True, eq=False)
class Rotation(Drawable):
    """A vector, rotated to several positions, and each step of Eq. 34 at the last of them."""

    rope: Rotary  #: The encoding.
    vector: Array  #: x before rotation, (head_dim,).
    positions: tuple[float, ...]  #: Positions in the order given.
    rotated: Array  #: The vector at each position, (positions, head_dim).
    pairs: tuple[int, ...]  #: Indices of the pairs to show.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.

    @property
    def position(self) -> float:
        """m: the last position, in positions."""
        return self.positions[-1]

    @property
    def angles(self) -> Array:
        """m theta_i of each pair at `position`, in radians, (rotary_dim // 2,)."""
        sense = 1.0 if self.rope.direction == "forward" else -1.0
        return sense * self.position * self.rope.diagonal_inv_freq

    @property
    def cos(self) -> Array:
        """Cosine of each angle times the attention factor, (rotary_dim // 2,)."""
        return self._scale * np.cos(self.angles)

    @property
    def sin(self) -> Array:
        """Sine of each angle times the attention factor, (rotary_dim // 2,)."""
        return self._scale * np.sin(self.angles)

    @property
    def _scale(self) -> Array:
        """Attention factor, and with xPos the growth of a query up to `position`."""
        with np.errstate(over="ignore"):
            return self.rope.attention_factor * np.exp(np.array(self.rope.growth) * self.position)

    @property
    def columns(self) -> dict[str, Array]:
        """The columns of Eq. 34, each (head_dim,): x * cos + swapped * sin = rotated.

        A coordinate in no pair has cos 1 and sin 0.
        """
        x, (a, b) = self.vector.copy(), self.rope.pairs_in.T
        swapped, cos, sin = np.zeros_like(x), np.ones_like(x), np.zeros_like(x)
        for out, terms, other in zip(self.rope.pairs_out.T, (a, b), (-x[b], x[a]), strict=True):
            x[out], swapped[out], cos[out], sin[out] = self.vector[terms], other, self.cos, self.sin
        return {"x": x, "cos": cos, "swapped": swapped, "sin": sin, "rotated": self.rotated[-1]}

    @property
    def matrix(self) -> Array:
        """R of Eq. 15 at `position`, (head_dim, head_dim): R x = rotated.

        Raises:
            ArgumentError: A head dim above 1,024.
        """
        dim = self.rope.head_dim
        if dim > LARGEST_MATRIX:
            raise ArgumentError(
                f"head dim must be at most {LARGEST_MATRIX:,} for the matrix, got {dim:,}"
            )
        matrix = np.eye(dim)
        (a, b), (c, d) = self.rope.pairs_in.T, self.rope.pairs_out.T
        matrix[c, c] = matrix[d, d] = 0.0
        matrix[c, a], matrix[c, b] = self.cos, -self.sin
        matrix[d, a], matrix[d, b] = self.sin, self.cos
        return matrix


def rotation(
    x: ArrayLike,
    rope: Rotary,
    *,
    positions: Sequence[float] = (0, 1, 2, 3, 4),
    pairs: Sequence[int] | None = None,
    name: str | None = None,
) -> Rotation:
    """Rotate one vector to several positions: pair i turns by m theta_i (Eq. 13, 34).

    Args:
        x: The vector, (head_dim,), real and finite.
        rope: The encoding; where positions have several axes, all of them have the same value.
        positions: Positions of the vector, at least one; the steps are those of the last.
        pairs: Indices of the pairs to show; four from the fastest to the slowest by default.
        name: Name in front of the encoding's, such as a model's.

    Raises:
        ArgumentError: An unusable shape, value, pair or position.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    vector = head_vector("x", x, rope.head_dim)
    count = rope.rotary_dim // 2
    if pairs is None:
        pairs = sorted({round(i) for i in np.linspace(0, count - 1, min(PAIRS, count))})
    pairs = [integer("pairs", pair) for pair in pairs]
    if not pairs or min(pairs) < 0 or max(pairs) >= count:
        raise ArgumentError(f"pairs must be from 0 to {count - 1}, got {list(pairs)}")
    places = as_positions(positions)
    if places.ndim != 1 or not len(places):
        raise ArgumentError(f"positions must be a list of at least one, got shape {places.shape}")
    return Rotation(
        rope=rope,
        vector=vector,
        positions=tuple(int(m) if m.is_integer() else m for m in places.tolist()),
        rotated=rotate(np.tile(vector, (len(places), 1)), rope, on_all_axes(places, rope.axes)),
        pairs=tuple(dict.fromkeys(pairs)),
        name=name,
    )
