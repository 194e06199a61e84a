"""Scores of one head against the positions of query and key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError
from ropecli.numbers import integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

LARGEST = 2**25  #: Scores of all heads: a map of 2,896 tokens with 4 heads, a quarter gibibyte.
LARGEST_TOKENS = 2**26  #: Coordinates of all tokens together, half a gibibyte.


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMap:
    """What one head of an encoding says of every query and key."""

    name: str  #: Of the encoding.
    equation: str
    scores: NDArray[np.float64]  #: (queries, keys), positions counted from 0.


def score_map(
    encoding: Encoding, tokens: NDArray[np.float64], queries: int, keys: int, *, head: int
) -> ScoreMap:
    """Scores of the first tokens as queries with the first tokens as keys.

    Args:
        encoding: With its weights.
        tokens: (tokens, model_dim), as `check_map` allows.
        queries: At positions 0 ... queries-1.
        keys: At positions 0 ... keys-1.
        head: The one to show.
    """
    m, n = np.arange(float(queries)), np.arange(float(keys))
    every = encoding.scores(tokens[:queries], tokens[:keys], m, n)
    return ScoreMap(name=encoding.name, equation=encoding.equation, scores=every[head].copy())


def drawn_tokens(count: int, model_dim: int, seed: int) -> NDArray[np.float64]:
    """Tokens of independent coordinates of variance 1.

    Raises:
        ArgumentError: Sizes or a seed that are not allowed.
    """
    if count < 1 or model_dim < 1 or count * model_dim > LARGEST_TOKENS or seed < 0:
        msg = (
            f"tokens and model dim must be at least 1 and their product at most "
            f"{LARGEST_TOKENS:,}, seed at least 0, got {count}, {model_dim} and {seed}"
        )
        raise ArgumentError(msg)
    return np.random.default_rng(seed).standard_normal((count, model_dim))


def check_map(tokens: NDArray[np.float64], rows: Sequence[int], *, heads: int, head: int) -> None:
    """Refuse a map that there are no tokens for, or that is too large.

    Raises:
        ArgumentError: A size or a head that is not allowed.
    """
    for name, count in zip(("queries", "keys"), rows, strict=True):
        if not 1 <= integer(name, count) <= len(tokens):
            allowed = f"from 1 to the {len(tokens)} tokens there are"
            if len(tokens) == 1:
                allowed = "1, as many as there are tokens"
            msg = f"{name} must be {allowed}, got {count}"
            raise ArgumentError(msg)
    if heads < 1 or not 0 <= head < heads:
        msg = f"head must be from 0 to heads - 1, got {head} of {heads}"
        raise ArgumentError(msg)
    if heads * rows[0] * rows[1] > LARGEST:
        msg = f"at most {LARGEST:,} scores, got {heads * rows[0] * rows[1]:,}; take fewer tokens"
        raise ArgumentError(msg)
