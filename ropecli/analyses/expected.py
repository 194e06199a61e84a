"""The score that a token expects of its own copy, against distance, for any encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.numbers import between

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

BLOCK = 1 << 14  #: Copies whose scores are computed at a time.
SAMPLES = 64  #: Tokens whose scores are averaged.
FURTHEST = 100_000  #: Positions; a score of each is computed for every sample.


@dataclass(frozen=True, kw_only=True)
class Expected:
    """The mean score of tokens and their copies, against distance."""

    encoding: str  #: Its name.
    relative_distance: NDArray[np.int64]  #: 0 ... max_distance, the copy standing before.
    expected_score: NDArray[np.float64]  #: Mean over tokens and heads, (distances,).


def expected_score(
    encoding: Encoding,
    *,
    max_distance: int = 512,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Expected:
    """Average the scores of drawn tokens against copies of themselves further and further back.

    Queries and keys are projected alike, W_k = W_q, or a copy would be as strange to a token as
    any other: then all of these scores would average to 0. For RoPE the curve is the sum of
    cos(r theta_i) (Men et al. 2024, arXiv:2405.14591, Eq. 9) times the mean square of a pair.

    Args:
        encoding: Any encoding with W_q and W_k.
        max_distance: Last distance, 1 to 100,000.
        seed: What tokens are drawn with.
        progress: Called after each block with the distances that are done and those in all.

    Raises:
        ArgumentError: A distance that is not allowed, or positions that the encoding refuses.
        ArgumentTypeError: A distance that is no integer.
    """
    last = between("max_distance", max_distance, 1, FURTHEST)
    tied = replace(encoding, weights={**encoding.weights, "key": encoding.weights["query"]})
    tokens = np.random.default_rng(seed).standard_normal((SAMPLES, encoding.sizes.model_dim))
    total = np.zeros(last + 1)
    # Copies stand side by side only where that counts: all of them could fill the memory.
    block = last + 1 if encoding.counts_keys else BLOCK
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
    )
