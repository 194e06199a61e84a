"""Upper bounds on the score of two vectors, and how tight they are (RoFormer section 3.4.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.analyses.decay import decay, head_vector, pair_products
from ropecli.analyses.several import Comparable
from ropecli.numbers import at_least, number
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound(Comparable):
    """Score of two vectors against relative distance, and the bounds on its size.

    The max bound is at least the Abel bound, and the norms at least the envelope. The first two
    depend on distance; which of the Abel bound and the envelope is smaller depends on the vectors.
    """

    rope: Rotary  #: The encoding.
    relative_distance: NDArray[np.float64]  #: m - n in positions, 0, 1, ..., (distances,).
    score: NDArray[np.float64]  #: (R_m q).(R_n k), RoFormer Eq. 35, (distances,).
    abel_bound: NDArray[np.float64]  #: First bound of Eq. 37, (distances,).
    max_bound: NDArray[np.float64]  #: Second bound of Eq. 37, (distances,).
    envelope: float  #: Sum over pairs of |h_i| = |q_i||k_i|, the score of aligned phases.
    norms: float  #: |R_m q||R_n k|, by Cauchy-Schwarz over the whole head.
    rms: float  #: Root mean square of the score over all phases of the pairs that rotate.
    products: NDArray[np.complex128]  #: h_i = q_i conj(k_i), with the attention factor, (pairs,).
    at: float  #: The distance of the next two.
    contributions: NDArray[np.float64]  #: Re h_i e^{i r theta_i}, part of each pair, (pairs,).
    partial_sums: NDArray[np.complex128]  #: S_1 ... S_{d/2}, Eq. 36, (pairs,).
    interpolation_error: NDArray[np.float64]  #: At distances 1/2, 3/2, ..., (distances - 1,).
    interpolation_bound: float  #: Max |h_i| times the sum of theta_i^2, over 8.
    printed_bound: float | None  #: Theorem 2.1 of Position Interpolation; None for scaled types.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.

    @property
    def bounds(self) -> dict[str, NDArray[np.float64]]:
        """Bounds on the size of the score by name, (distances,)."""
        constant = np.ones(len(self.score))
        return {
            "max_bound": self.max_bound,
            "abel_bound": self.abel_bound,
            "norms": self.norms * constant,
            "envelope": self.envelope * constant,
        }

    @property
    def tightness(self) -> dict[str, NDArray[np.float64]]:
        """Share |score| / bound of each bound by name, (distances,); 1 where both are 0."""
        size = np.abs(self.score)
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                name: np.where(bound > 0, size / bound, 1.0) for name, bound in self.bounds.items()
            }


def bound(
    rope: Rotary,
    q: Any,
    k: Any,
    *,
    max_distance: int = 512,
    at: float = 0,
    name: str | None = None,
) -> Bound:
    """Compute the score of a query and a key at the distances 0, 1, ..., and bounds on its size.

    With h_i = q_i conj(k_i) on pairs as complex numbers, the score is Re sum h_i e^{i r theta_i}
    (RoFormer Eq. 35). By Abel summation it is at most sum |S_{i+1}||h_{i+1} - h_i|, with
    h_{d/2} = 0, and at most the largest |h_{i+1} - h_i| times sum |S_{i+1}| (Eq. 36, 37). Pair by
    pair, Cauchy-Schwarz gives sum |q_i||k_i| = sum |h_i|. Coordinates in no pair add their product
    to the score and its size to the bounds.

    Between two neighbouring distances the score differs from the straight line by at most
    max |h_i| sum theta_i^2 / 8. Chen et al. 2023 (arXiv:2306.15595, Theorem 2.1) print
    d max |h_i| / (32 ln base), which is too small.

    Args:
        rope: The encoding.
        q: Query before rotation, (head_dim,).
        k: Key before rotation, (head_dim,).
        max_distance: Last distance, in positions, at least 1.
        at: Distance at which contributions and partial sums are taken, any real number.
        name: Name in front of the encoding's.

    Raises:
        ArgumentError: An unusable value or shape, or an encoding that is not a rotation.
        ArgumentTypeError: A number is not a number, or q or k not an array of real ones.
    """
    check_rope(rope)
    q, k = head_vector("q", q, rope.head_dim), head_vector("k", k, rope.head_dim)
    curve = decay(rope, max_distance=at_least("max distance", max_distance, 1), q=q, k=k)
    distance = number("at", at)
    between = decay(rope, start=0.5, max_distance=max_distance - 0.5, q=q, k=k)
    h, rest = pair_products(rope, q, k)
    square = rope.attention_factor**2
    h = square * h
    turn = np.exp(1j * distance * rope.inv_freq)
    largest, fastest = float(np.abs(h).max()), _length(rope.inv_freq)
    in_pairs = np.zeros(rope.head_dim, dtype=bool)
    in_pairs[rope.pairs_in] = True
    lengths = np.where(in_pairs, rope.attention_factor, 1.0)
    turning = np.where(rope.inv_freq != 0, h, 0)
    still = float(np.where(rope.inv_freq == 0, h, 0).real.sum()) + rest
    score, halfway, by_abel, by_max = (
        cast("NDArray[np.float64]", each)
        for each in (curve.score, between.score, curve.abel_bound, curve.max_bound)
    )
    return Bound(
        rope=rope,
        relative_distance=curve.relative_distance,
        score=score,
        abel_bound=by_abel,
        max_bound=by_max,
        envelope=float(np.abs(h).sum()) + abs(rest),
        norms=_length(lengths * q) * _length(lengths * k),
        rms=_length([*(np.abs(turning) / math.sqrt(2)), still]),
        products=h,
        at=distance,
        contributions=(h * turn).real,
        partial_sums=np.cumsum(turn),
        interpolation_error=np.abs(halfway - (score[:-1] + score[1:]) / 2),
        interpolation_bound=largest * (fastest * fastest) / 8,
        printed_bound=_printed_bound(rope, largest),
        name=name,
    )


def _length(values: ArrayLike) -> float:
    """Return the 2-norm, without squares that overflow."""
    return float(np.hypot.reduce(np.asarray(values, dtype=np.float64)))


def _printed_bound(rope: Rotary, largest: float) -> float | None:
    """Return the bound of Theorem 2.1 halfway between two positions, of base^(-2i/d) alone."""
    if rope.formula is None or not rope.formula.is_plain or rope.base is None or rope.base <= 1:
        return None
    return rope.rotary_dim * largest / (32 * math.log(rope.base))
