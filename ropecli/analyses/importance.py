"""Weights of linear attention (Eq. 19) next to those of softmax attention (Eq. 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, evenly_spread
from ropecli.encodings.encoding import softmax

ROWS = 64  #: Rows that are compared at most: each is sorted.
FEWEST_KEYS = 3  #: Fewer have no ranks worth correlating.


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Similarity of the weights of linear and softmax attention on the same keys; means over rows.

    NaN where no row could be compared.
    """

    rows: int  #: Rows that were compared.
    total_variation: float  #: Half the sum of |linear - softmax|; 0 alike, 1 for disjoint ones.
    rank_correlation: float  #: Spearman's, of rows with three keys or more; 1 for the same order.
    entropy: float  #: Of |weights| over their sum, in nats.
    softmax_entropy: float  #: Of softmax's weights, in nats; ln(keys) where all are alike.


def compare_importance(
    rotated: tuple[Array, Array],
    denominators: Array,
    scores: tuple[Array, Array],
    rows: NDArray[np.int64],
    *,
    causal: bool,
) -> Importance:
    """Compare the weights of some rows with those of softmax attention."""
    found: list[tuple[float, ...]] = []
    correlations: list[float] = []
    for m in rows[evenly_spread(len(rows), ROWS)]:
        if denominators[m] <= 0:
            continue
        seen = slice(0, m + 1) if causal else slice(None)
        linear = rotated[1][seen] @ rotated[0][m] / denominators[m]
        share = softmax(scores[1][seen] @ scores[0][m])
        size = np.abs(linear).sum()
        parts = np.abs(linear) / size if size > 0 else np.full(len(linear), 1 / len(linear))
        found.append((0.5 * np.abs(linear - share).sum(), _entropy(parts), _entropy(share)))
        if len(share) >= FEWEST_KEYS:
            correlations.append(rank_correlation(linear, share))
    means = np.mean(found, axis=0) if found else np.full(3, np.nan)
    known = [correlation for correlation in correlations if not np.isnan(correlation)]
    return Importance(
        rows=len(found),
        total_variation=float(means[0]),
        rank_correlation=float(np.mean(known)) if known else np.nan,
        entropy=float(means[1]),
        softmax_entropy=float(means[2]),
    )


def rank_correlation(x: Array, y: Array) -> float:
    """Return Spearman's correlation of two lists, (values,) each; NaN where one is constant."""
    a, b = (_ranks(values) - (len(values) - 1) / 2 for values in (x, y))
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size else np.nan


def _ranks(values: Array) -> Array:
    """Return the rank of each value, from 0; equal values share their mean rank."""
    _, index, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    means: Array = last - (counts - 1) / 2
    return means[index]


def _entropy(share: Array) -> float:
    positive = share[share > 0]
    return float(-(positive * np.log(positive)).sum())
