"""Mean lengths of the pairs of queries and keys, which show what frequencies carry a head."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, as_real
from ropecli.errors import ArgumentError
from ropecli.numbers import integer, length
from ropecli.results import Drawable
from ropecli.rotary import Rotary
from ropecli.rotary.rotary import check_rope

BLOCK = 1024  #: Tokens that are converted to float64 at a time.
AXES = ("layers", "heads", "tokens", "head_dim")
MASSIVE = 5  #: Times the mean of a head, above which a coordinate is massive (Jin et al. 2025).
ANGLES = 64  #: Directions of `expected_lengths`.
_erf = np.frompyfunc(math.erf, 1, 1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Usage(Drawable):
    """Mean length of each pair of the queries and keys of every head."""

    rope: Rotary  #: The encoding, which knows the pairs and their frequencies.
    q_norms: NDArray[np.float64]  #: Mean over tokens of |q_i|, (layers, query heads, pairs).
    k_norms: NDArray[np.float64]  #: Mean over tokens of |k_i|, (layers, key heads, pairs).
    tokens: tuple[int, int] | None  #: Number of queries and of keys in each head; None of weights.
    layers: tuple[int, ...]  #: Index of each layer in its model.
    q_massive: NDArray[np.int64] | None = None  #: Massive coordinates of each pair, as `q_norms`.
    k_massive: NDArray[np.int64] | None = None  #: The same of k; both are None of weights.
    context_length: int | None = None  #: Positions of training; None if unknown.
    name: str | None = None  #: Name in front of the encoding's, such as a model's.

    @property
    def group(self) -> int:
        """Query heads of each key head, those of grouped-query attention."""
        return int(self.q_norms.shape[1] // self.k_norms.shape[1])

    @property
    def share(self) -> NDArray[np.float64]:
        """Share of each pair in the sum of |q_i||k_i|, (layers, query heads, pairs).

        Each key head counts for its `group` of query heads.
        """
        products = self.q_norms * np.repeat(self.k_norms, self.group, axis=1)
        total = products.sum(axis=-1, keepdims=True)
        share = np.divide(products, total, out=np.zeros_like(products), where=total > 0)
        return np.asarray(share)

    @property
    def third_pairs(self) -> list[NDArray[np.int64]]:
        """Indices of the fast, the middle and the slow third of the pairs, by frequency.

        Where 3 does not divide the pairs, the fast third is the largest.
        """
        return np.array_split(np.argsort(-self.rope.inv_freq_norm, kind="stable"), 3)

    @property
    def thirds(self) -> NDArray[np.float64]:
        """Shares of the fast, the middle and the slow third, (layers, query heads, 3)."""
        share = self.share
        return np.stack([share[..., pair].sum(axis=-1) for pair in self.third_pairs], axis=-1)

    @property
    def peak(self) -> NDArray[np.int64]:
        """Index of the pair with the largest share, (layers, query heads)."""
        return np.asarray(self.share.argmax(axis=-1))

    @property
    def peak_turns(self) -> NDArray[np.float64] | None:
        """Turns that the pair with the largest share makes in training, (layers, query heads).

        None without a context length.
        """
        if self.context_length is None:
            return None
        return np.asarray(self.context_length / self.rope.wavelength[self.peak])

    @property
    def half_pairs(self) -> NDArray[np.int64]:
        """Fewest pairs that hold half of the sum, (layers, query heads)."""
        largest_first = -np.sort(-self.share, axis=-1)
        # A sum of many shares may be an ulp below a half that it is.
        below = np.cumsum(largest_first, axis=-1) < 0.5 * (1 - 1e-12)
        return np.asarray(np.minimum(below.sum(axis=-1) + 1, below.shape[-1]))


def usage(
    rope: Rotary,
    q: Any,
    k: Any,
    *,
    average: Sequence[int] = (),
    context_length: int | None = None,
    name: str | None = None,
) -> Usage:
    """Average the length of each pair over the tokens, for every layer and head.

    A rotation leaves the lengths of pairs as they are, so vectors from before and after it give
    the same; an attention factor multiplies all of them. Barbero et al. 2024 (arXiv:2410.06205,
    Figures 3 and 4) show these means: a frequency that a head relies on has long pairs.

    Massive values are those of Jin et al. 2025 (arXiv:2502.01563): coordinates of a head whose norm
    over the tokens is above 5 times the mean of these norms over all coordinates of the head. They
    are of the vectors as given: a rotation mixes the two coordinates of a pair.

    Args:
        rope: The encoding. Its layout must be that of the vectors: with another, pairs are mixed.
        q: Queries (tokens, head_dim), (heads, tokens, head_dim) or
            (layers, heads, tokens, head_dim), of any float dtype.
        k: Keys in the same form; fewer heads than those of q are grouped-query attention.
        average: Further axes of q and k to average over, such as the batch.
        context_length: Positions of training, in which turns are counted.
        name: Name in front of the encoding's.

    Raises:
        ArgumentError: A shape that does not fit, or a value that is not finite.
        ArgumentTypeError: Not arrays of real numbers.
    """
    check_rope(rope)
    axes = tuple(integer("average", bound) for bound in average)
    context = None if context_length is None else length("context_length", context_length)
    (q_norms, q_massive, queries), (k_norms, k_massive, keys) = (
        _norms(rope, key, value, axes) for key, value in (("q", q), ("k", k))
    )
    if len(q_norms) != len(k_norms):
        raise ArgumentError(
            f"q and k must have as many layers, got {len(q_norms)} and {len(k_norms)}"
        )
    if q_norms.shape[1] % k_norms.shape[1]:
        raise ArgumentError(
            f"heads of q must be a multiple of those of k, got {q_norms.shape[1]} "
            f"and {k_norms.shape[1]}"
        )
    return Usage(
        rope=rope,
        q_norms=q_norms,
        k_norms=k_norms,
        tokens=(queries, keys),
        layers=tuple(range(len(q_norms))),
        q_massive=q_massive,
        k_massive=k_massive,
        context_length=context,
        name=name,
    )


def _norms(
    rope: Rotary, name: str, value: Any, average: tuple[int, ...]
) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Return mean lengths and massive coordinates, (layers, heads, pairs), and the tokens."""
    array = as_real(name, value)
    if array.ndim < 2 or array.shape[-1] != rope.head_dim or not array.size:
        raise ArgumentError(
            f"{name} must have shape (..., tokens, {rope.head_dim}), got {array.shape}"
        )
    outer, tokens = array.shape[:-2], array.shape[-2]
    means, squares = np.empty((*outer, rope.rotary_dim // 2)), np.empty((*outer, rope.head_dim))
    for index in np.ndindex(outer):
        means[index], squares[index] = _mean_lengths(rope, array[index])
    if not np.isfinite(means).all():
        where = tuple(map(int, np.argwhere(~np.isfinite(means))[0][:-1]))
        place = f" in {where}" if where else ""
        raise ArgumentError(f"{name} must be finite, and is not{place}")
    for axis in average:
        if not -array.ndim <= axis < array.ndim or axis % array.ndim >= len(outer):
            raise ArgumentError(
                f"average must name axes before the last two of shape {array.shape}, got {axis}"
            )
    axes = tuple({axis % array.ndim for axis in average})
    means, norms = means.mean(axis=axes), np.sqrt(squares.mean(axis=axes))
    massive = norms > MASSIVE * norms.mean(axis=-1, keepdims=True)
    if means.ndim > len(AXES) - 1:
        raise ArgumentError(
            f"{name} must have the axes ({', '.join(AXES)}) at most, got shape {array.shape}; "
            "average over the others"
        )
    shape = (1, 1, *means.shape)[-3:]
    counts = massive[..., rope.pairs_in].sum(axis=-1)
    return means.reshape(shape), counts.reshape(shape), tokens


def _mean_lengths(rope: Rotary, vectors: NDArray[Any]) -> tuple[Array, Array]:
    """Return means over tokens: of the length of each pair, and of the squared coordinates."""
    first, second = rope.pairs_in.T
    total, power = np.zeros(len(first)), np.zeros(rope.head_dim)
    with np.errstate(over="ignore"):
        for start in range(0, len(vectors), BLOCK):
            squares = np.square(vectors[start : start + BLOCK].T, dtype=np.float64)
            total += np.sqrt(squares[first] + squares[second]).sum(axis=1)
            power += squares.sum(axis=1)
    return total / len(vectors), power / len(vectors)


def expected_lengths(
    variance: tuple[Array, Array], covariance: Array, mean: tuple[Array, Array]
) -> Array:
    """Return E |x| of normal vectors x with two coordinates, each argument of the same shape.

    |x| is a quarter of the integral of |x . u| over the directions u of the circle (Cauchy), and
    x . u is normal with a standard deviation s and a mean m, so that E |x . u| is
    s sqrt(2 / pi) exp(-m^2 / 2 s^2) + m erf(m / (s sqrt 2)). The sum over n = 64 directions of
    half the circle is off by (pi / n)^2 / 12, 2e-4, at most: where x is always in one direction.
    """
    total = np.zeros_like(covariance)
    centered = not np.any(mean)
    for angle in np.pi / ANGLES * np.arange(ANGLES):
        u, v = math.cos(angle), math.sin(angle)
        squared = variance[0] * u**2 + variance[1] * v**2 + 2 * u * v * covariance
        spread = np.sqrt(np.maximum(squared, 0))
        if not centered:
            m = np.abs(mean[0] * u + mean[1] * v)
            z = np.divide(m, spread, out=np.full_like(m, np.inf), where=spread > 0)
            total += m * np.asarray(_erf(z / math.sqrt(2)), np.float64)
            spread *= np.exp(-(z**2) / 2)
        total += math.sqrt(2 / math.pi) * spread
    return total * np.pi / (2 * ANGLES)
