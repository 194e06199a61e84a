"""Tokens whose score is as close to a bound, or as far beyond it, as the encoding permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

    Array = NDArray[np.float64]


def worst_case_tokens(encoding: Encoding, m: float, n: float) -> Iterator[tuple[Array, Array]]:
    """Yield for each head a query at m and a key at n with the largest score for their norms.

    A score q^T A k is largest for the first singular vectors of A, whose entries are the scores
    of unit vectors. For a score that is not bilinear, the pair is like any other.

    Args:
        encoding: An encoding with its weights.
        m: Position of the query.
        n: Position of the key.

    Yields:
        Tokens (1, model_dim) of query and key.
    """
    dim = encoding.sizes.head_dim
    for head in range(encoding.sizes.heads):
        # Tokens whose projections are the unit vectors, where the projection has full rank.
        x, y = (np.linalg.pinv(encoding.weights[name][head]) for name in ("query", "key"))
        table = encoding.scores(x, y, np.full(dim, m), np.full(dim, n))[head]
        q, _, k = np.linalg.svd(np.where(np.isfinite(table), table, 0.0))
        yield (q[:, 0] @ x)[None], (k[0] @ y)[None]


def projected_norms(x: Array, weight: Array) -> Array:
    """Return |W x| for each head and token, (heads, tokens)."""
    lengths: Array = np.linalg.norm(x @ weight, axis=2)
    return lengths
