"""Expected score of a token with its own copy, against distance, for any encoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ropecli.numbers import between
from ropecli.results import Axes, Drawable, Figure

if TYPE_CHECKING:
    from ropecli.analyses.decay import Decay
    from ropecli.analyses.similarity import Similarity
    from ropecli.encodings import Encoding

BLOCK = 1 << 14  #: Copies whose scores are computed at a time.
SAMPLES = 64  #: Tokens whose scores are averaged.
FURTHEST = 100_000  #: Positions; a score of each is computed for every sample.


@dataclass(frozen=True, kw_only=True, eq=False)
class Expected(Drawable, view="expected.CURVE"):
    """Mean score of tokens and their copies, against distance."""

    encoding: str  #: Name of the encoding.
    relative_distance: NDArray[np.int64]  #: 0 ... max_distance; the copy comes first.
    expected_score: NDArray[np.float64]  #: Mean over tokens and heads, (distances,).
    seed: int  #: Seed of the tokens.

    def figure(
        self, *others: Expected, bound: Decay | None = None, ax: Axes | None = None
    ) -> Figure:
        """Return expected score against distance, as a Matplotlib figure.

        Args:
            *others: Further curves for the same axes.
            bound: RoPE's bound for a panel above them, over the same distances.
            ax: As of every result.
        """
        return ExpectedCurves(curves=(self, *others), bound=bound).figure(ax=ax)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExpectedCurves(Drawable):
    """Expected scores that are shown together, and RoPE's bound."""

    curves: tuple[Expected, ...]  #: At least one.
    bound: Decay | None = None  #: Over the same distances.
    similarity: Similarity | None = None  #: Of sinusoidal codes, over the same distances.


def expected_score(
    encoding: Encoding,
    *,
    max_distance: int = 512,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Expected:
    """Average the scores of random tokens with copies of themselves further and further back.

    Queries and keys are projected alike, W_k = W_q: with independent projections all of these
    scores would average to 0. For RoPE the curve is the sum of
    cos(r theta_i) (Men et al. 2024, arXiv:2405.14591, Eq. 9) times the mean square of a pair.

    Args:
        encoding: Any encoding with W_q and W_k.
        max_distance: Last distance, 1 to 100,000.
        seed: Seed of the tokens.
        progress: Called after each block with the number of distances done and of all distances.

    Raises:
        ArgumentError: A distance out of range, or positions that the encoding refuses.
        ArgumentTypeError: A distance that is not an integer.
    """
    last = between("max_distance", max_distance, 1, FURTHEST)
    tied = replace(encoding, weights={**encoding.weights, "key": encoding.weights["query"]})
    tied = tied.for_many_tokens()
    tokens = np.random.default_rng(seed).standard_normal((SAMPLES, encoding.sizes.model_dim))
    total = np.zeros(last + 1)
    # All copies at once could fill the memory; only some encodings need them together.
    block = last + 1 if encoding.depends_on_other_keys else BLOCK
    for first in range(0, last + 1, block):
        places = np.arange(first, min(first + block, last + 1))
        for token in tokens:
            copies = np.broadcast_to(token, (len(places), len(token)))
            total[places] += tied.scores(token[None], copies, [last], places).mean(axis=0)[0]
        if progress is not None:
            progress(int(places[-1]) + 1, last + 1)
    return Expected(
        encoding=encoding.name,
        relative_distance=np.arange(last + 1),
        expected_score=total[::-1] / SAMPLES,
        seed=seed,
    )
