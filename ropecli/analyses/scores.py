"""Scores, attention and output of positional encodings on the same tokens, and their properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.invariance import SHIFT, Invariance, invariance
from ropecli.arrays import as_array
from ropecli.encodings import Encoding, encoding
from ropecli.encodings.encoding import softmax
from ropecli.errors import ArgumentError
from ropecli.numbers import integer
from ropecli.results import Drawable

LARGEST = 2**25  #: Scores of all heads: a map of 2,896 tokens with 4 heads, a quarter gibibyte.
LARGEST_TOKENS = 2**26  #: Coordinates of all tokens together, half a gibibyte.


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoreMap:
    """Scores of one head of an encoding."""

    name: str  #: Name of the encoding.
    equation: str  #: Equation of the scores, of RoFormer where it is a number.
    scores: NDArray[np.float64]  #: (queries, keys), positions counted from 0; -inf where masked.
    output: NDArray[np.float64]  #: o_m of Eq. 2, (queries, head_dim).
    terms: dict[str, NDArray[np.float64]]  #: Those of Eq. 6 by name, as `scores`; may be empty.
    causal: bool = False  #: No query attends to a later key.

    @property
    def seen(self) -> NDArray[np.float64]:
        """Scores of the keys that a query attends to, and -inf for the others, (queries, keys)."""
        return _mask_later(self.scores) if self.causal else self.scores

    @property
    def attention(self) -> NDArray[np.float64]:
        """a_mn of Eq. 2, the softmax of the scores, (queries, keys)."""
        return softmax(self.seen)

    @property
    def entropy(self) -> float:
        """Mean entropy of a query's attention, in nats: 0 for one key, ln(keys) for all alike."""
        share = self.attention
        parts = share * np.log(share, out=np.zeros_like(share), where=share > 0)
        return float(-parts.sum(axis=1).mean())


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(Drawable):
    """Score maps of encodings side by side, and their properties."""

    maps: tuple[ScoreMap, ...]  #: One for each encoding.
    invariances: tuple[Invariance, ...]  #: One for each encoding, measured and as theory says.
    head: int  #: The head of the maps.
    seed: int  #: Seed of the tokens.
    causal: bool | None = None  #: Queries see no later key; None: where their models do not.
    same_token: bool = False  #: All tokens are the same, so that a map shows only the position.

    @property
    def agrees(self) -> bool:
        """Agreement of measurement and theory, on all properties of all encodings."""
        return all(measure.agrees for measure in self.invariances)


def scores(
    encodings: Sequence[Encoding | str],
    tokens: Any = None,
    *,
    queries: int = 32,
    keys: int = 32,
    head: int = 0,
    causal: bool | None = None,
    same_token: bool = True,
    shift: int = SHIFT,
    seed: int = 0,
) -> Scores:
    """Compute the scores of each encoding on the same tokens, and measure its properties.

    Args:
        encodings: Encodings of one model dim, with their weights; or names, of which encodings with
            random weights are made, of the tokens' model dim or 64.
        tokens: (tokens, model_dim); random by default.
        queries: Number of queries, the first tokens, at positions 0 ... queries - 1.
        keys: Number of keys, the first tokens, at positions 0 ... keys - 1.
        head: The head to show.
        causal: Mask keys that come after the query, in scores and attention, or mask none. By
            default, scores are of all keys, and attention is masked for encodings of causal models.
        same_token: Where no tokens are given, repeat one random token: then all that a map shows
            comes from positions.
        shift: Shift used by the translation-invariance check, at least 1.
        seed: Seed of the tokens.

    Raises:
        ArgumentError: An unusable value, or a position that an encoding has no code for.
        ArgumentTypeError: A value of the wrong type.
    """
    if not encodings:
        raise ArgumentError("encodings must not be empty")
    same_token = same_token and tokens is None
    given = None if tokens is None else as_array("tokens", tokens).astype(np.float64)
    made = _made(encodings, given, seed)
    if given is None:
        count = max(queries, keys)
        given = random_tokens(1 if same_token else count, made[0].sizes.model_dim, seed)
        given = np.repeat(given, count, axis=0) if same_token else given
    _check(given, queries, keys, heads=made[0].sizes.heads, head=head)
    rows = given[:queries], given[:keys]
    maps = tuple(_map(kind, *rows, head, causal=causal) for kind in made)
    measured = tuple(_measure(kind, shift, seed) for kind in made)
    return Scores(
        maps=maps,
        invariances=measured,
        head=head,
        seed=seed,
        causal=causal,
        same_token=same_token,
    )


def _made(
    encodings: Sequence[Encoding | str], tokens: NDArray[np.float64] | None, seed: int
) -> list[Encoding]:
    """Return encodings, those of names for the tokens, or of the size of those that are given."""
    if isinstance(encodings, str | Encoding):
        encodings = [encodings]
    sizes = next((vars(kind.sizes) for kind in encodings if isinstance(kind, Encoding)), {})
    if tokens is not None and tokens.ndim and not sizes:
        sizes = {"model_dim": tokens.shape[-1]}
    return [
        kind if isinstance(kind, Encoding) else encoding(kind, **sizes, seed=seed)
        for kind in encodings
    ]


def random_tokens(count: int, model_dim: int, seed: int) -> NDArray[np.float64]:
    """Return tokens of independent normal coordinates, (count, model_dim)."""
    check_random_tokens(count, model_dim, seed)
    return np.random.default_rng(seed).standard_normal((count, model_dim))


def check_random_tokens(count: int, model_dim: int, seed: int) -> None:
    """Refuse random tokens that can't be made."""
    if count < 1 or model_dim < 1 or count * model_dim > LARGEST_TOKENS or seed < 0:
        raise ArgumentError(
            f"tokens and model dim must be at least 1 and their product at most "
            f"{LARGEST_TOKENS:,}, seed at least 0, got {count}, {model_dim} and {seed}"
        )


def _map(
    encoding: Encoding,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    head: int,
    *,
    causal: bool | None,
) -> ScoreMap:
    m, n = np.arange(float(len(x))), np.arange(float(len(y)))
    result = encoding.scores(x, y, m, n)
    masked = encoding.causal if causal is None else causal
    seen = _mask_later(result) if masked else result
    terms = {}
    if not encoding.depends_on_other_keys:  # else a score is not linear in its tokens
        parts = vars(encoding.terms(x, y, m, n)).items()
        terms = {name: part[head].copy() for name, part in parts}
    return ScoreMap(
        name=encoding.name,
        equation=encoding.equation,
        scores=(seen if causal else result)[head].copy(),
        causal=masked,
        output=encoding.output(softmax(seen), y, m, n)[head].copy(),
        terms=terms,
    )


def _mask_later(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores (..., queries, keys) with -inf for keys after their query."""
    later = np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)
    return np.where(later, -np.inf, scores)


def _measure(encoding: Encoding, shift: int, seed: int) -> Invariance:
    try:
        return invariance(encoding, shift=shift, seed=seed)
    except ArgumentError as error:
        if shift < 1:
            raise
        raise ArgumentError(f"shift {shift} is too far for {encoding.name}: {error}") from None


def _check(tokens: NDArray[np.float64], queries: int, keys: int, *, heads: int, head: int) -> None:
    """Refuse a map that there are no tokens for, or that is too large."""
    for name, count in (("queries", queries), ("keys", keys)):
        if not 1 <= integer(name, count) <= len(tokens):
            expected = f"from 1 to the number of tokens, {len(tokens)}"
            if len(tokens) == 1:
                expected = "1, the number of tokens"
            raise ArgumentError(f"{name} must be {expected}, got {count}")
    if heads < 1 or not 0 <= head < heads:
        raise ArgumentError(f"head must be from 0 to heads - 1, got {head} of {heads}")
    if heads * queries * keys > LARGEST:
        raise ArgumentError(
            f"at most {LARGEST:,} scores, got {heads * queries * keys:,}; take fewer tokens"
        )
