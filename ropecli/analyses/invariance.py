"""Invariances of a positional encoding: measured, and what theory says."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import at_least
from ropecli.results import Result
from ropecli.units import DOUBLE, TINY

if TYPE_CHECKING:
    from ropecli.arrays import Array
    from ropecli.encodings import Encoding


TOKENS = 24  #: Random tokens, at positions 0 ... TOKENS - 1.
SHIFT = 37  #: Positions by which every token moves.
FAR_OUT = 1009  #: Start of a second range of positions, unless a table of codes is shorter.
FAR = 48  #: Distances over which a decaying score must fall.
NEAR_ZERO = 2.0**-20  #: Makes vectors so short that what does not depend on them shows.


@dataclass(frozen=True, kw_only=True)
class Property:
    """One property: holds where max_error <= tolerance."""

    max_error: float | None  #: Largest error; None where it can't be measured.
    tolerance: float | None  #: Largest error that rounding explains.
    theory: bool | None  #: What theory says; None where it depends on the weights.

    @property
    def holds(self) -> bool | None:
        """Measured answer; None where it can't be measured."""
        if self.max_error is None or self.tolerance is None:
            return None
        return self.max_error <= self.tolerance

    @property
    def agrees(self) -> bool:
        """Agreement of measurement and theory, as far as both have an answer."""
        return self.theory is None or self.holds is None or self.holds == self.theory


@dataclass(frozen=True, kw_only=True)
class Invariance(Result, view="scores.INVARIANCE"):
    """Measured properties of one encoding."""

    name: str  #: Name of the encoding.
    translation_invariance: Property  #: |S(m+s, n+s) - S(m, n)|.
    symmetry: Property  #: |S(n, m) - S(m, n)|, q and k fixed.
    boundedness: Property  #: |S| - |q||k| / sqrt(head_dim).
    decay: Property  #: S at distance r+1 less S at distance r, the tokens fixed.
    linear_shift: Property  #: |code(m+s) - M code(m)| for the best matrix M.

    @property
    def properties(self) -> dict[str, Property]:
        """All properties by name."""
        names = ("translation_invariance", "symmetry", "boundedness", "decay", "linear_shift")
        return {name: getattr(self, name) for name in names}

    @property
    def agrees(self) -> bool:
        """Agreement of measurement and theory on all properties."""
        return all(prop.agrees for prop in self.properties.values())


def invariance(encoding: Encoding, *, shift: int = SHIFT, seed: int = 0) -> Invariance:
    """Measure the invariances of an encoding on random tokens.

    Args:
        encoding: An encoding with its weights.
        shift: Positions by which every token moves, at least 1.
        seed: Seed of the tokens.

    Raises:
        ArgumentError: A shift or seed out of range, or a position without a code.
        ArgumentTypeError: Not an integer.
    """
    shift, seed = at_least("shift", shift, 1), at_least("seed", seed, 0)
    x, y = np.random.default_rng(seed).standard_normal((2, TOKENS, encoding.sizes.model_dim))
    theory = encoding.theory
    return Invariance(
        name=encoding.name,
        translation_invariance=_property(
            theory.translation_invariant, _shift_error(encoding, x, y, shift)
        ),
        symmetry=_property(theory.symmetric, _exchange_error(encoding, x, y)),
        boundedness=_property(
            theory.bounded,
            _worst(_excess(encoding, *scores) for scores in _contents(encoding, x, y)),
        ),
        decay=_property(theory.decaying, _largest_rise(encoding, x, y)),
        linear_shift=_property(theory.linear_shift, _shift_matrix_error(encoding, shift)),
    )


def _property(theory: bool | None, measured: tuple[float, float] | None) -> Property:
    error, tolerance = (None, None) if measured is None else measured
    return Property(max_error=error, tolerance=tolerance, theory=theory)


def _worst(found: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the error with the largest ratio to its tolerance, and that tolerance."""
    return max(found, key=lambda pair: pair[0] / max(pair[1], TINY))


def _near_and_far(
    encoding: Encoding, near: float, error_at: Callable[[float], tuple[float, float]]
) -> tuple[float, float]:
    """Return the worst of the errors near and, unless the encoding has no code there, far out."""
    errors = [error_at(near)]
    with contextlib.suppress(ArgumentError):
        errors.append(error_at(FAR_OUT + encoding.saturation_position))
    return _worst(errors)


def _shift_error(encoding: Encoding, x: Array, y: Array, shift: int) -> tuple[float, float]:
    m = np.arange(float(TOKENS))
    here = encoding.scores(x, y, m, m)

    def error_at(by: float) -> tuple[float, float]:
        there = encoding.scores(x, y, m + by, m + by)
        return _difference(here, there), 2 * _rounding_error(encoding, x, y, here, TOKENS + by)

    return _near_and_far(encoding, shift, error_at)


def _exchange_error(encoding: Encoding, x: Array, y: Array) -> tuple[float, float]:
    """Compare scores with those of each q at its key's position, and each k at its query's."""

    def error_at(start: float) -> tuple[float, float]:
        m = np.arange(float(TOKENS)) + start
        here = encoding.scores(x, y, m, m)
        there = np.empty_like(here)
        for a in range(TOKENS):
            # Row b: the query a at position m_b. Only the key b is of interest there, at m_a.
            row = encoding.scores(np.tile(x[a], (TOKENS, 1)), y, m, np.full(TOKENS, m[a]))
            there[:, a] = np.diagonal(row, axis1=1, axis2=2)
        return _difference(here, there), 2 * _rounding_error(encoding, x, y, here, m[-1])

    return _near_and_far(encoding, 0.0, error_at)


def _contents(
    encoding: Encoding, x: Array, y: Array
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield tokens and positions of queries and keys: random, short, and worst-case tokens."""
    m = np.arange(float(TOKENS))
    yield x, y, m, m
    yield x * NEAR_ZERO, y * NEAR_ZERO, m, m
    for here, there in ((0.0, FAR), (FAR, 0.0)):
        for q, k in _worst_case_tokens(encoding, here, there):
            yield q, k, np.array([here]), np.array([there])


def _worst_case_tokens(encoding: Encoding, m: float, n: float) -> Iterator[tuple[Array, Array]]:
    """Yield for each head a query at m and a key at n with the largest score for their norms.

    A score q^T A k is largest for the first singular vectors of A, whose entries are the scores
    of unit vectors. For a score that is not bilinear, the pair is like any other, (1, model_dim).
    """
    dim = encoding.sizes.head_dim
    for head in range(encoding.sizes.heads):
        # Tokens whose projections are the unit vectors, where the projection has full rank.
        x, y = (np.linalg.pinv(encoding.weights[name][head]) for name in ("query", "key"))
        table = encoding.scores(x, y, np.full(dim, m), np.full(dim, n))[head]
        q, _, k = np.linalg.svd(np.where(np.isfinite(table), table, 0.0))
        yield (q[:, 0] @ x)[None], (k[0] @ y)[None]


def _excess(encoding: Encoding, x: Array, y: Array, m: Array, n: Array) -> tuple[float, float]:
    """Compare scores with the bound."""
    scores = encoding.scores(x, y, m, n)
    q, k = (
        _projected_norms(x, encoding.weights["query"]),
        _projected_norms(y, encoding.weights["key"]),
    )
    bound = q[:, :, None] * k[:, None, :] / np.sqrt(encoding.sizes.head_dim)
    beyond = np.where(np.isneginf(scores), 0.0, np.abs(scores) - bound)  # -inf: masked, no score
    return max(0.0, _largest(beyond)), _rounding_error(encoding, x, y, scores, FAR)


def _projected_norms(x: Array, weight: Array) -> Array:
    """Return |W x| for each head and token, (heads, tokens)."""
    lengths: Array = np.linalg.norm(x @ weight, axis=2)
    return lengths


def _largest_rise(encoding: Encoding, x: Array, y: Array) -> tuple[float, float]:
    """Return the largest rise of a query's score with one key that moves away."""
    distance = np.arange(FAR, -1.0, -1.0)
    rises, tolerance = [], 0.0
    for token, key in zip(x[:4], y[:4], strict=True):
        keys = np.broadcast_to(key, (FAR + 1, len(key)))
        scores = encoding.scores(token[None], keys, np.array([float(FAR)]), FAR - distance)
        with np.errstate(invalid="ignore"):
            change = np.diff(scores[:, 0, ::-1], axis=1)
        rises.append(_largest(change))
        tolerance = max(tolerance, 2 * _rounding_error(encoding, token[None], keys, scores, FAR))
    return max(rises), -max(tolerance, TINY)  # to stand still is not to fall


def _shift_matrix_error(encoding: Encoding, shift: int) -> tuple[float, float] | None:
    """Return the residual of the best matrix from codes to codes a shift further."""
    code = getattr(encoding, "code", None)
    if code is None:
        return None
    width = np.asarray(code(np.zeros(1))).size
    # More positions than coordinates, or a matrix would carry anything over.
    m = np.arange(float(width + TOKENS))
    here, there = (np.asarray(code(p)).reshape(len(m), width) for p in (m, m + shift))
    matrix = np.linalg.lstsq(here, there, rcond=None)[0]
    # Least squares are backward stable: some `width` roundings of the norm of the codes for
    # each entry; and what was asked for is itself off by the rounding of its angles.
    size = float(np.linalg.norm(here) + np.linalg.norm(there))
    tolerance = DOUBLE * (4 * len(m) + 2 * (len(m) + shift)) * size
    return float(np.abs(here @ matrix - there).max()), tolerance


def _difference(a: Array, b: Array) -> float:
    """Return the largest difference; scores masked in both agree."""
    with np.errstate(invalid="ignore"):
        error = np.where(a == b, 0.0, np.abs(a - b))
    return _largest(error)


def _largest(errors: Array) -> float:
    """Return the largest error; NaN counts as infinite."""
    return float(np.where(np.isnan(errors), np.inf, errors).max())


def _rounding_error(encoding: Encoding, x: Array, y: Array, scores: Array, last: float) -> float:
    """Return the error that rounding may add to a score.

    A score is a sum of products of coordinates of x, y and the two projections, which together
    are at most |x||W_q||y||W_k| / sqrt(head_dim), and of what the position brings, which shows
    in the scores themselves. Each term passes some 2 model_dim + head_dim sums and products, and
    an angle of at most `last` radians for each of query and key: a rounding of 2^-53 for each.
    Scores without 1 / sqrt(head_dim) are larger by it, so it is left out of the bound.
    """
    sizes = encoding.sizes
    largest = [
        float(np.linalg.norm(tokens, axis=1).max() * np.linalg.norm(encoding.weights[name][h]))
        for tokens, name in ((x, "query"), (y, "key"))
        for h in [int(np.linalg.norm(encoding.weights[name], axis=(1, 2)).argmax())]
    ]
    seen = np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
    roundings = 2 * sizes.model_dim + sizes.head_dim + 2 * last
    return float(DOUBLE * roundings * (largest[0] * largest[1] + seen))
