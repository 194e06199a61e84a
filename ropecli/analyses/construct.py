"""Vectors whose score is largest at a chosen distance (Barbero et al. 2024, arXiv:2410.06205)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.decay import head_vector
from ropecli.analyses.encoding_result import EncodingResult
from ropecli.errors import ArgumentError
from ropecli.numbers import between, positive
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope, check_rotation
from ropecli.units import DOUBLE

LONGEST = 2**24  #: Positions; a column of as many takes 134 MB for each head.
BLOCK = 1024  #: Distances that share one start.
NEGLIGIBLE = 50.0  #: e^-50 of a weight, times every position, is below half an ulp of it.


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstructedHead:
    """A query and a key of an attention head that looks back by one distance."""

    distance: int  #: Of the key that the query attends to, in positions; 0 is the query's own.
    q: NDArray[np.float64]  #: Query before rotation, of every token, (head_dim,).
    k: NDArray[np.float64]  #: Key before rotation, of every token, (head_dim,).
    squared_norm: float | None  #: |q|^2 = |k|^2 that it takes; None if none does, and both are 1.
    attention: float  #: Least softmax weight of the key; its limit for long q and k if none does.
    score: NDArray[np.float64]  #: (R_m q).(R_n k) at distances 0, 1, ..., (context_length,).
    margin: float | None  #: Largest score minus the next one, over the largest; None without one.
    runner_up: int | None  #: Distance of the next largest score.
    float32_ties: int  #: Other distances whose score is the largest one too, in float32.


@dataclass(frozen=True, kw_only=True, eq=False)
class Construct(EncodingResult):
    """Heads that RoPE makes from positions only, and what each pair keeps of a match."""

    context_length: int  #: In positions.
    epsilon: float  #: A head's attention is at least 1 - epsilon at every position.
    heads: tuple[ConstructedHead, ...]  #: One for each distance.
    quarter_turn: NDArray[np.float64]  #: Distance at which a pair's match is 0, (pairs,).
    worst_match: NDArray[np.float64]  #: Least cosine of a pair within the context, (pairs,).

    @property
    def semantic_pairs(self) -> int:
        """Number of pairs that keep the sign of a match at every distance of the context."""
        return int((self.worst_match > 0).sum())


def construct(
    rope: Rotary,
    *,
    distances: Iterable[int] | None = None,
    context_length: int = 4096,
    epsilon: float = 0.01,
    psi: Any = None,
    pairs: Sequence[int] | None = None,
    name: str | None = None,
) -> Construct:
    """Make the query and the key of a head that attends to the token at each distance.

    All tokens have the query q = psi and the key k = R_r psi, whose score
    sum |psi_i|^2 cos((m - n - r) theta_i) is largest at the distance r and nowhere else, however
    far that is (Proposition 3.1); r = 0 is a diagonal head, r = 1 one of the previous token. The
    length of psi is the least that gives that token a softmax weight of 1 - epsilon at every
    position (Definition 5.1, Theorem 5.3). Scores are not divided by sqrt(head_dim).

    A match in pair i between a query and a key at distance r counts cos(r theta_i) of what it
    counts at 0. Theorem 6.1: unless theta_i is 0, some distance brings it as near to its
    opposite as one likes.

    Args:
        rope: The encoding.
        distances: Whole numbers from 0, below the context length; 0, 1 and half of the context
            by default.
        context_length: Positions N that the attention must hold for.
        epsilon: What all other tokens may have together, above 0 and below 1.
        psi: Direction of the query, (head_dim,); the same length in every pair that rotates by
            default.
        pairs: Indices of the pairs that hold all of psi, instead.
        name: Name in front of the encoding's.

    Raises:
        ArgumentError: A value out of range, both of psi and pairs, or an encoding that is not a
            rotation.
        ArgumentTypeError: A value of the wrong type.
    """
    check_rope(rope)
    length = between("context_length", context_length, 1, LONGEST)
    if positive("epsilon", epsilon) >= 1:
        raise ArgumentError(f"epsilon must be below 1, got {epsilon:g}")
    check_rotation(rope, "the construction is")
    if distances is None:
        distances = sorted({0, min(1, length - 1), length // 2})
    chosen = dict.fromkeys(between("distance", distance, 0, length - 1) for distance in distances)
    if not chosen or (pairs is not None and not len(pairs)):
        raise ArgumentError(f"{'pairs' if chosen else 'distances'} must not be empty")
    direction = _direction(rope, psi, pairs)
    losses = _losses(rope, direction, length)
    theta = np.abs(rope.diagonal_inv_freq)
    with np.errstate(divide="ignore"):
        quarter_turn = math.pi / 2 / theta
    return Construct(
        rope=rope,
        context_length=length,
        epsilon=float(epsilon),
        heads=tuple(_head(rope, direction, losses, pair, epsilon) for pair in chosen),
        quarter_turn=quarter_turn,
        worst_match=np.cos(np.minimum(theta * (length - 1), math.pi)),
        name=name,
    )


def _direction(rope: Rotary, psi: Any, pairs: Sequence[int] | None) -> NDArray[np.float64]:
    """Return psi with a length of 1, (head_dim,)."""
    if psi is not None and pairs is not None:
        raise ArgumentError("psi and pairs both say where the vectors lie: give one of them")
    if psi is None:
        count = rope.rotary_dim // 2
        if pairs is None:
            turning = rope.diagonal_inv_freq != 0
            chosen = np.flatnonzero(turning if turning.any() else ~turning)
        else:
            chosen = np.array([between("pair", pair, 0, count - 1) for pair in pairs], np.int64)
        vector = np.zeros(rope.head_dim)
        vector[rope.pairs_in[chosen, 0]] = 1.0
    else:
        vector = head_vector("psi", psi, rope.head_dim)
    largest = np.abs(vector).max()
    if not largest:
        raise ArgumentError("psi must not be 0")
    vector = vector / largest  # its square is neither 0 nor infinite
    unit: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return unit


def _losses(rope: Rotary, psi: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Score of psi with itself minus that at the distances 0 ... length - 1.

    1 - cos x is 2 sin^2 (x/2), which keeps all its digits where the cosine is next to 1. Sines
    are those of a block's start and of an offset, by angle addition. A loss that their rounding
    alone can explain is 0.
    """
    first, second = psi[rope.pairs_in].T
    weights = 2 * rope.attention_factor**2 * (first**2 + second**2)
    used = np.flatnonzero(weights * (rope.diagonal_inv_freq != 0))
    weights, halves = weights[used], np.abs(rope.diagonal_inv_freq[used]) / 2
    losses = np.zeros(length)
    offsets = np.outer(halves, np.arange(min(BLOCK, length)))
    sines, cosines = np.sin(offsets), np.cos(offsets)
    for start in range(0, length, BLOCK):
        block = losses[start : start + BLOCK]
        angle = start * halves[:, None]
        sine = np.cos(angle) * sines[:, : len(block)]
        sine += np.sin(angle) * cosines[:, : len(block)]
        block[:] = weights @ np.square(sine, out=sine)
        # Half an ulp of each angle, of which there are two, and of each sine, product and sum.
        errors = 2 * DOUBLE * (start + BLOCK) * halves + (5 * DOUBLE if start else 0)
        block[block <= weights @ np.minimum(errors, 1) ** 2] = 0
    return losses


def _head(
    rope: Rotary,
    psi: NDArray[np.float64],
    losses: NDArray[np.float64],
    distance: int,
    epsilon: float,
) -> ConstructedHead:
    """Return the head that attends to one distance."""
    lost = losses[np.abs(np.arange(len(losses)) - distance)]
    others = np.delete(lost, distance)
    squared_norm = _squared_norm(others, epsilon)
    size = 1.0 if squared_norm is None else squared_norm
    if squared_norm is None:
        attention = 1 / (1 + int((others == 0).sum()))
    else:
        attention = 1 / (1 + float(np.exp(-size * others).sum()))
    first, second = psi[rope.pairs_in].T
    remainder = 1.0 - float((first**2 + second**2).sum())
    largest = rope.attention_factor**2 * (1 - remainder) + remainder
    score = size * (largest - lost)
    nearest = int(others.argmin()) if len(others) else None
    single = score.astype(np.float32)
    q = math.sqrt(size) * psi
    return ConstructedHead(
        distance=distance,
        q=q,
        k=_rotate_ahead(rope, q, distance),
        squared_norm=squared_norm,
        attention=attention,
        score=score,
        margin=None if nearest is None else float(others[nearest] / largest),
        runner_up=None if nearest is None else nearest + (nearest >= distance),
        float32_ties=int((single == single[distance]).sum()) - 1,
    )


def _squared_norm(losses: NDArray[np.float64], epsilon: float) -> float | None:
    """Return the least c with sum e^{-c losses} <= epsilon / (1 - epsilon), by bisection.

    None if there is none, since a loss of 0 counts 1 for every c. Where every c will do, it is 1.
    """
    odds = epsilon / (1 - epsilon)
    if len(losses) <= odds:
        return 1.0
    odds -= float((losses == 0).sum())
    if odds <= 0:
        return None
    losses = losses[losses > 0]
    least = float(losses.min())
    # The largest term alone must be that small, and all are at most as large as it.
    low, high = (max(0.0, math.log(n / odds)) / least for n in (1, len(losses)))
    if low:
        losses = losses[losses <= (math.log(len(losses) / odds) + NEGLIGIBLE) / low]
    while (middle := (low + high) / 2) not in (low, high):
        if float(np.exp(-middle * losses).sum()) > odds:
            low = middle
        else:
            high = middle
    return high


def _rotate_ahead(rope: Rotary, psi: NDArray[np.float64], distance: int) -> NDArray[np.float64]:
    """Rotate each pair by the angle of the distance, where it is: R_r psi without a factor."""
    first, second = rope.pairs_in.T
    sign = 1 if rope.direction == "forward" else -1
    turned = (psi[first] + 1j * psi[second]) * np.exp(sign * 1j * distance * rope.diagonal_inv_freq)
    key = psi.copy()
    key[first], key[second] = turned.real, turned.imag
    return key
