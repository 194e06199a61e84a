"""Scores of positional encodings on the same tokens, and the properties that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.analyses.invariance import SHIFT, Invariance, invariance
from ropecli.arrays import as_array
from ropecli.errors import ArgumentError
from ropecli.numbers import integer
from ropecli.results import Drawable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

LARGEST = 2**25  #: Scores of all heads: a map of 2,896 tokens with 4 heads, a quarter gibibyte.
LARGEST_TOKENS = 2**26  #: Coordinates of all tokens together, half a gibibyte.


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMap:
    """Scores of one head of an encoding."""

    name: str  #: Name of the encoding.
    equation: str  #: Equation of the scores, of RoFormer where it is a number.
    scores: NDArray[np.float64]  #: (queries, keys), positions counted from 0.


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(Drawable):
    """Score maps of encodings side by side, and their properties."""

    maps: tuple[ScoreMap, ...]  #: One for each encoding.
    invariances: tuple[Invariance, ...]  #: One for each encoding, measured and as theory says.
    head: int  #: The head of the maps.
    seed: int  #: Seed of the tokens.

    @property
    def agrees(self) -> bool:
        """Agreement of measurement and theory, on all properties of all encodings."""
        return all(each.agrees for each in self.invariances)


def scores(
    encodings: Sequence[Encoding],
    tokens: Any = None,
    *,
    queries: int = 32,
    keys: int = 32,
    head: int = 0,
    shift: int = SHIFT,
    seed: int = 0,
) -> Scores:
    """Compute the scores of each encoding on the same tokens, and measure its properties.

    Args:
        encodings: Encodings of one model dim, with their weights.
        tokens: (tokens, model_dim); random ones by default.
        queries: Number of queries, the first tokens, at positions 0 ... queries - 1.
        keys: Number of keys, the first tokens, at positions 0 ... keys - 1.
        head: The head to show.
        shift: Shift used by the translation-invariance check, at least 1.
        seed: Seed of the tokens.

    Raises:
        ArgumentError: An unusable value, or a position that an encoding has no code for.
        ArgumentTypeError: A value of the wrong type.
    """
    if not encodings:
        msg = "encodings must not be empty"
        raise ArgumentError(msg)
    if tokens is None:
        tokens = random_tokens(max(queries, keys), encodings[0].sizes.model_dim, seed)
    tokens = as_array("tokens", tokens).astype(np.float64)
    _check(tokens, queries, keys, heads=encodings[0].sizes.heads, head=head)
    maps = tuple(_map(each, tokens, queries, keys, head) for each in encodings)
    measured = tuple(_measure(each, shift, seed) for each in encodings)
    return Scores(maps=maps, invariances=measured, head=head, seed=seed)


def random_tokens(count: int, model_dim: int, seed: int) -> NDArray[np.float64]:
    """Return tokens of independent normal coordinates, (count, model_dim).

    Raises:
        ArgumentError: Sizes or a seed out of range.
    """
    if count < 1 or model_dim < 1 or count * model_dim > LARGEST_TOKENS or seed < 0:
        msg = (
            f"tokens and model dim must be at least 1 and their product at most "
            f"{LARGEST_TOKENS:,}, seed at least 0, got {count}, {model_dim} and {seed}"
        )
        raise ArgumentError(msg)
    return np.random.default_rng(seed).standard_normal((count, model_dim))


def _map(
    encoding: Encoding, tokens: NDArray[np.float64], queries: int, keys: int, head: int
) -> ScoreMap:
    m, n = np.arange(float(queries)), np.arange(float(keys))
    of_all_heads = encoding.scores(tokens[:queries], tokens[:keys], m, n)
    return ScoreMap(
        name=encoding.name, equation=encoding.equation, scores=of_all_heads[head].copy()
    )


def _measure(encoding: Encoding, shift: int, seed: int) -> Invariance:
    try:
        return invariance(encoding, shift=shift, seed=seed)
    except ArgumentError as error:
        if shift < 1:
            raise
        msg = f"shift {shift} is too far for {encoding.name}: {error}"
        raise ArgumentError(msg) from None


def _check(tokens: NDArray[np.float64], queries: int, keys: int, *, heads: int, head: int) -> None:
    """Refuse a map that there are no tokens for, or that is too large."""
    for name, count in (("queries", queries), ("keys", keys)):
        if not 1 <= integer(name, count) <= len(tokens):
            expected = f"from 1 to the number of tokens, {len(tokens)}"
            if len(tokens) == 1:
                expected = "1, the number of tokens"
            msg = f"{name} must be {expected}, got {count}"
            raise ArgumentError(msg)
    if heads < 1 or not 0 <= head < heads:
        msg = f"head must be from 0 to heads - 1, got {head} of {heads}"
        raise ArgumentError(msg)
    if heads * queries * keys > LARGEST:
        msg = f"at most {LARGEST:,} scores, got {heads * queries * keys:,}; take fewer tokens"
        raise ArgumentError(msg)
