"""The score of a token with its copy on a plane, for encodings of images: decay on two axes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.errors import ArgumentError
from ropecli.numbers import between
from ropecli.results import Drawable
from ropecli.rotary.rotary import Rotary, check_rope

FURTHEST = 1024  #: Positions along an axis: released images have up to 256 patches.
HALF = 0.5  #: Of the score at distance 0.


@dataclass(frozen=True, kw_only=True, eq=False)
class DecayMap(Drawable):
    """Mean over pairs of cos(dx inv_freq[0] + dy inv_freq[1]), the score of q = k over |q|^2.

    It is 1 at distance 0 where all pairs have one length, and symmetric about that point.
    """

    rope: Rotary  #: The encoding, of two axes.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.
    distance: NDArray[np.int64]  #: -max_distance ... max_distance, of both axes.
    score: NDArray[np.float64]  #: (distances along axis 0, distances along axis 1).

    @property
    def lines(self) -> dict[str, NDArray[np.float64]]:
        """The score from 0 on along each axis and both diagonals, at steps of one on each axis."""
        middle = len(self.distance) // 2
        quadrant, other = self.score[middle:, middle:], self.score[middle:, middle::-1]
        return {
            "axis 0": quadrant[:, 0],
            "axis 1": quadrant[0],
            "diagonal": quadrant.diagonal().copy(),
            "other diagonal": other.diagonal().copy(),
        }

    @property
    def halved_at(self) -> dict[str, int | None]:
        """The first distance along each line at which half of the score is gone, if any."""
        first = {name: np.flatnonzero(line <= HALF) for name, line in self.lines.items()}
        return {name: int(found[0]) if len(found) else None for name, found in first.items()}


def decay_map(rope: Rotary, *, max_distance: int = 32, name: str | None = None) -> DecayMap:
    """Map the score of a vector with its copy over the distances of two axes.

    Args:
        rope: An encoding of two axes: axial RoPE, or RoPE-Mixed (arXiv:2403.13298), whose map is
            not symmetric about either axis.
        max_distance: Last distance along each axis, 1 to 1,024.
        name: Name in front of the encoding's.

    Raises:
        ArgumentError: A distance out of range, or an encoding of another number of axes.
        ArgumentTypeError: A distance that is not an integer.
    """
    check_rope(rope)
    last = between("max_distance", max_distance, 1, FURTHEST)
    if rope.axes != 2:
        raise ArgumentError(f"a map needs an encoding of 2 axes, got {rope.axes}")
    distance = np.arange(-last, last + 1)
    along = np.exp(1j * distance[:, None] * rope.inv_freq[:, None, :])  # (axes, distances, pairs)
    # e^{i(a + b)} is the product of both, so that the sum over pairs is a product of matrices.
    score = (along[0] @ along[1].T).real / len(rope.pairs_in)
    return DecayMap(rope=rope, name=name, distance=distance, score=score)
