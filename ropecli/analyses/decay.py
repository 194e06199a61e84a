"""RoPE's upper bound against distance (RoFormer section 3.4.3, Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.analyses.encoding_result import EncodingResult
from ropecli.arrays import as_real
from ropecli.errors import ArgumentError
from ropecli.numbers import not_negative, number, positive
from ropecli.results import Axes, Figure, ResultGroup
from ropecli.rotary.rotary import Rotary, check_rope, check_rotation
from ropecli.units import DOUBLE

REDUCTIONS = ("mean", "sum")
MOST_VALUES = 10**8 + 1  #: From 0 to 10^8; more are a slip: a column of them takes 0.8 GB.
SLICE = 2**22  #: Values of one call of a kernel, a tenth of a second or so; a multiple of BLOCK.
MOST_CONTRIBUTIONS = 10**7  #: Of all pairs at all distances, 80 MB.
FURTHEST_SUMMARY = 10**6  #: Positions up to which the summary is of every whole distance.
ROUNDING = 1e-9  #: A rise by a smaller part of the bound is rounding.
LARGEST_DISTANCE = 2.0**53  #: As for positions: beyond it a float64 skips whole numbers.


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """Bounds on the score of two vectors that hold at every distance, and its parts at one."""

    envelope: float  #: Sum over pairs of |h_i| = |q_i||k_i|, the score of aligned phases.
    norms: float  #: |R_m q||R_n k|, by Cauchy-Schwarz over the whole head.
    rms: float  #: Root mean square of the score over all phases of the pairs that rotate.
    products: NDArray[np.complex128]  #: h_i = q_i conj(k_i), with the attention factor, (pairs,).
    at: float  #: The distance of the next two.
    contributions: NDArray[np.float64]  #: Re h_i e^{i r theta_i}, part of each pair, (pairs,).
    partial_sums: NDArray[np.complex128]  #: S_1 ... S_{d/2}, Eq. 36, (pairs,).
    interpolation_error: NDArray[np.float64]  #: Halfway between distances, (distances - 1,).
    interpolation_bound: float  #: Max |h_i| times the sum of theta_i^2, times step^2 / 8.
    printed_bound: float | None  #: Theorem 2.1 of Position Interpolation: plain types, step 1.


@dataclass(frozen=True, kw_only=True, eq=False)
class Decay(EncodingResult):
    """RoPE's upper bound against relative distance, and with vectors their score and its bounds."""

    reduce: str  #: "mean" over j of |S_j|, as in Figure 2, or "sum".
    relative_distance: NDArray[np.float64]  #: m - n in positions, shape (distances,).
    relative_upper_bound: NDArray[np.float64]  #: Mean or sum over j of |S_j|, (distances,).
    score: NDArray[np.float64] | None = None  #: (R_m q).(R_n k), Eq. 35, (distances,).
    abel_bound: NDArray[np.float64] | None = None  #: First bound of Eq. 37, (distances,).
    max_bound: NDArray[np.float64] | None = None  #: Second bound of Eq. 37, (distances,).
    bound: Bound | None = None  #: What holds of the vectors at every distance.
    contributions: NDArray[np.float64] | None = None  #: Term of each pair, (pairs, distances).
    finer: Decay | None = None  #: In steps of 1 where its own are longer, up to 10^6 positions.

    @property
    def summarised(self) -> Decay:
        """The curve that all properties below are of: the finer one, if there is one."""
        return self.finer or self

    def figure(self, *others: Decay, figure2: bool = False, ax: Axes | None = None) -> Figure:
        """Return the curve of RoFormer's Figure 2, as a Matplotlib figure.

        Args:
            *others: Further curves for the same axes.
            figure2: Use the paper's own frame, 0 to 256, clipped as in print.
            ax: As of every result.
        """
        return ResultGroup(results=(self, *others))._draw(ax, figure2=figure2)

    @property
    def bounds(self) -> dict[str, NDArray[np.float64]]:
        """Bounds on the size of the score by name, (distances,); none without vectors.

        The max bound is at least the Abel bound, and the norms at least the envelope. Which of the
        Abel bound and the envelope is smaller depends on the vectors.
        """
        if self.bound is None or self.max_bound is None or self.abel_bound is None:
            return {}
        constant = np.ones(len(self.relative_distance))
        return {
            "max_bound": self.max_bound,
            "abel_bound": self.abel_bound,
            "norms": self.bound.norms * constant,
            "envelope": self.bound.envelope * constant,
        }

    @property
    def tightness(self) -> dict[str, NDArray[np.float64]]:
        """Share |score| / bound of each bound by name, (distances,); 1 where both are 0."""
        size = np.abs(0.0 if self.score is None else self.score)
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                name: np.where(bound > 0, size / bound, 1.0) for name, bound in self.bounds.items()
            }

    @property
    def start(self) -> float:
        """Bound at the first distance."""
        return float(self.relative_upper_bound[0])

    @property
    def lowest(self) -> tuple[float, float]:
        """Smallest bound, and its distance."""
        summary = self.summarised
        index = int(summary.relative_upper_bound.argmin())
        return float(summary.relative_upper_bound[index]), float(summary.relative_distance[index])

    @property
    def halved_at(self) -> float | None:
        """First distance where the bound is at most half of the first; None if never."""
        summary = self.summarised
        below = summary.relative_upper_bound <= self.start / 2
        return float(summary.relative_distance[int(below.argmax())]) if below.any() else None

    @property
    def first_rise(self) -> float | None:
        """First distance with a bound above that of the distance before; None if never."""
        summary, bound = self.summarised, self.summarised.relative_upper_bound
        rises = np.diff(bound) > ROUNDING * bound[:-1]
        return float(summary.relative_distance[1:][int(rises.argmax())]) if rises.any() else None

    @property
    def quarters(self) -> tuple[float, float]:
        """Mean bound over the first and over the last quarter of the distances: the trend."""
        bound = self.summarised.relative_upper_bound
        quarter = max(1, len(bound) // 4)
        return float(bound[:quarter].mean()), float(bound[-quarter:].mean())


def decay(
    rope: Rotary,
    *,
    max_distance: float = 512,
    start: float = 0,
    step: float = 1,
    reduce: str = "mean",
    q: Any = None,
    k: Any = None,
    at: float = 0,
    contributions: bool = False,
    name: str | None = None,
) -> Decay:
    """Compute the bound of RoFormer Eq. 37 at the distances start, start + step ... max_distance.

    The relative upper bound is the mean over j of |S_j(r)|, S_j(r) = sum_{i<j} e^{i r theta_i}
    (Figure 2). With vectors q and k it is joined by their score A^2 Re sum h_i e^{i r theta_i}
    (Eq. 35), with h_i = q_i conj(k_i) on pairs as complex numbers, and by bounds on its size. By
    Abel summation it is at most sum |S_{i+1}||h_{i+1} - h_i|, with h_{d/2} = 0, and at most the
    largest |h_{i+1} - h_i| times sum |S_{i+1}| (Eq. 36, 37). Pair by pair, Cauchy-Schwarz gives
    sum |q_i||k_i| = sum |h_i|. Coordinates in no pair add their constant product to the score and
    its size to the bounds.

    Between two neighbouring distances the score differs from the straight line by at most
    max |h_i| sum theta_i^2 step^2 / 8. Chen et al. 2023 (arXiv:2306.15595, Theorem 2.1) print
    d max |h_i| / (32 ln base) for a step of 1, which is too small.

    Args:
        rope: The encoding; a distance turns forwards or back as its direction says.
        max_distance: Last distance, in positions, up to 2^53; included where a step ends on it.
        start: First distance, at least 0.
        step: Distance between values, above 0; the paper's curve is continuous.
        reduce: "mean" or "sum".
        q: Query before rotation, (head_dim,).
        k: Key before rotation, (head_dim,).
        at: Distance at which the parts of `Bound` are taken, any real number.
        contributions: Compute the term of each pair in the score, A^2 Re h_i e^{i r theta_i}, as
            well; h_i is 1 where no vectors are given.
        name: Name of the curve, such as a model's.

    Raises:
        ArgumentError: An unusable value or shape, or only one of q and k.
        ArgumentTypeError: A number is not a number, or q or k not an array of real ones.
    """
    check_rope(rope)
    distances = _distances(start, max_distance, step)
    if reduce not in REDUCTIONS:
        raise ArgumentError(f"reduce must be mean or sum, got {reduce!r}")
    if (q is None) != (k is None):
        raise ArgumentError(f"q and k belong together, got only {'q' if k is None else 'k'}")
    place = number("at", at)
    check_rotation(rope, "the bound of Eq. 37 is")
    if contributions and len(distances) * (rope.rotary_dim // 2) > MOST_CONTRIBUTIONS:
        raise ArgumentError(
            f"at most {MOST_CONTRIBUTIONS:,} contributions, got {len(distances):,} distances of "
            f"{rope.rotary_dim // 2:,} pairs; take a larger step"
        )
    finer = None
    if step > 1 and max_distance - start <= FURTHEST_SUMMARY:
        finer = decay(rope, max_distance=max_distance, start=start, reduce=reduce, q=q, k=k)
    pairs = rope.rotary_dim // 2
    sums = PairSums(rope.diagonal_inv_freq, start, step, len(distances))
    total = sums.weighted_sums(np.ones(pairs))
    h: NDArray[Any] = np.ones(pairs)
    scored: dict[str, Any] = {}
    if q is not None:
        q, k = head_vector("q", q, rope.head_dim), head_vector("k", k, rope.head_dim)
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, in words
            h, unrotated_share = pair_products(rope, q, k)
            steps = np.abs(np.diff(h, append=0))
            square = rope.attention_factor**2
            max_bound = square * steps.max() * total + abs(unrotated_share)
        if not np.isfinite(max_bound).all():
            raise ArgumentError(
                "q and k are too large: the bound of their products passes float64's 1.8e308"
            )
        score = square * sums.score(h) + unrotated_share
        between = PairSums(rope.diagonal_inv_freq, start + step / 2, step, len(distances) - 1)
        halfway = square * between.score(h) + unrotated_share
        error = np.abs(halfway - (score[:-1] + score[1:]) / 2)
        scored = {
            "score": score,
            "abel_bound": square * sums.weighted_sums(steps) + abs(unrotated_share),
            "max_bound": max_bound,
            "bound": _bound(rope, q, k, at=place, step=step, error=error),
        }
    return Decay(
        rope=rope,
        name=name,
        reduce=reduce,
        relative_distance=distances,
        relative_upper_bound=total / pairs if reduce == "mean" else total,
        contributions=_terms(rope, h, distances) if contributions else None,
        finer=finer,
        **scored,
    )


def _bound(
    rope: Rotary,
    q: NDArray[np.float64],
    k: NDArray[np.float64],
    *,
    at: float,
    step: float,
    error: NDArray[np.float64],
) -> Bound:
    """Return the bounds that hold at every distance, and the parts of the score at one."""
    h, unrotated_share = pair_products(rope, q, k)
    h = rope.attention_factor**2 * h
    turn = np.exp(1j * at * rope.diagonal_inv_freq)
    largest, fastest = float(np.abs(h).max()), _length(rope.diagonal_inv_freq)
    in_pairs = np.zeros(rope.head_dim, dtype=bool)
    in_pairs[rope.pairs_in] = True
    lengths = np.where(in_pairs, rope.attention_factor, 1.0)
    turning = np.where(rope.diagonal_inv_freq != 0, h, 0)
    still = float(np.where(rope.diagonal_inv_freq == 0, h, 0).real.sum()) + unrotated_share
    return Bound(
        envelope=float(np.abs(h).sum()) + abs(unrotated_share),
        norms=_length(lengths * q) * _length(lengths * k),
        rms=_length([*(np.abs(turning) / math.sqrt(2)), still]),
        products=h,
        at=at,
        contributions=(h * turn).real,
        partial_sums=np.cumsum(turn),
        interpolation_error=error,
        interpolation_bound=largest * (fastest * fastest) * (step * step) / 8,
        printed_bound=_printed_bound(rope, largest) if step == 1 else None,
    )


def _length(values: ArrayLike) -> float:
    """Return the 2-norm, without squares that overflow."""
    return float(np.hypot.reduce(np.asarray(values, dtype=np.float64)))


def _printed_bound(rope: Rotary, largest: float) -> float | None:
    """Return the bound of Theorem 2.1 halfway between two positions, of base^(-2i/d) alone."""
    if rope.formula is None or not rope.formula.is_plain or rope.base is None or rope.base <= 1:
        return None
    return rope.rotary_dim * largest / (32 * math.log(rope.base))


def _terms(rope: Rotary, h: NDArray[Any], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return A^2 Re h_i e^{i r theta_i}, (pairs, distances)."""
    angles = np.multiply.outer(rope.diagonal_inv_freq, distances)
    square = rope.attention_factor**2
    terms: NDArray[np.float64] = h.real[:, None] * np.cos(angles) - h.imag[:, None] * np.sin(angles)
    return square * terms


class PairSums:
    """Sums over pairs at evenly spaced distances, by the kernels."""

    def __init__(
        self, inv_freq: NDArray[np.float64], start: float, step: float, count: int
    ) -> None:
        from ropecli.kernels import abel

        self.kernels = abel
        self.inv_freq = inv_freq
        self.run = float(start), float(step)
        self.count = count
        shape = (len(inv_freq), min(abel.BLOCK, count))
        self.table = np.empty(shape), np.empty(shape)
        self.small = count <= 4 * abel.BLOCK  # one thread is done before others have woken
        abel.fill_steps(inv_freq, float(step), *self.table, small=self.small)

    def weighted_sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """sum_i weights_i |S_{i+1}| at each distance."""
        return self._in_slices(self.kernels.weighted_partial_sums, weights)

    def score(self, h: NDArray[Any]) -> NDArray[np.float64]:
        """Re sum_i h_i e^{i r theta_i} at each distance."""
        return self._in_slices(self.kernels.scores, h.real.copy(), h.imag.copy())

    def _in_slices(
        self, kernel: Callable[..., None], *arguments: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what a kernel writes; between its calls, Ctrl-C is answered."""
        out = np.empty(self.count)
        for first in range(0, self.count, SLICE):
            part = out[first : first + SLICE]
            kernel(self.inv_freq, *arguments, *self.run, first, *self.table, part, small=self.small)
        return out


def _distances(start: float, stop: float, step: float) -> NDArray[np.float64]:
    start, stop = not_negative("start", start), not_negative("max distance", stop)
    step = positive("step", step)
    if not start <= stop <= LARGEST_DISTANCE:
        raise ArgumentError(f"max distance must be from start, {start:g}, to 2^53, got {stop:g}")
    with np.errstate(over="ignore"):
        # A quotient a rounding below a whole number ends on the last distance all the same.
        steps = np.float64(stop - start) / step * (1 + 8 * DOUBLE)
    if steps >= MOST_VALUES:
        raise ArgumentError(
            f"at most {MOST_VALUES:,} distances, got {steps + 1:.10g}; take a larger step"
        )
    return start + step * np.arange(math.floor(steps) + 1, dtype=np.float64)


def head_vector(name: str, value: Any, head_dim: int) -> NDArray[np.float64]:
    """Check one vector of a head, and return it as float64."""
    array = as_real(name, value)
    if array.shape != (head_dim,):
        raise ArgumentError(f"{name} must have shape ({head_dim},), got {array.shape}")
    vector: NDArray[np.float64] = array.astype(np.float64)
    if not np.isfinite(vector).all():
        raise ArgumentError(f"{name} must be finite, got {vector[~np.isfinite(vector)][0]}")
    return vector


def pair_products(
    rope: Rotary, q: NDArray[np.float64], k: NDArray[np.float64]
) -> tuple[NDArray[np.complex128], float]:
    """h_i = q_i conj(k_i) on complex pairs, and q.k over the coordinates in no pair."""
    first, second = rope.pairs_in.T
    h = (q[first] + 1j * q[second]) * (k[first] - 1j * k[second])
    if rope.direction == "reversed":  # e^{-i r theta} gives the score that conj(h) gives forwards
        h = h.conj()
    unrotated = np.ones(rope.head_dim, dtype=bool)
    unrotated[rope.pairs_in] = False
    return h, float(q[unrotated] @ k[unrotated])
