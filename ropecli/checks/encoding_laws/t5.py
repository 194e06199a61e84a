"""T5's own laws: its published buckets, and no division by sqrt(d)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import EXACT, EncodingLaw, Found, compared, rounding
from ropecli.encodings.t5_buckets import buckets

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Array, Tokens
    from ropecli.encodings import Encoding

#: The first distance of each bucket, 32 buckets up to 128: those of both directions, and causal.
BOTH_WAYS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91)
CAUSAL = (*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113)
FAR = 200


def _boundaries(_encoding: Encoding, _tokens: Tokens) -> Found:
    distance = np.arange(FAR)
    got = [buckets(-distance), buckets(distance[1:]), buckets(-distance, bidirectional=False)]
    past = np.searchsorted(BOTH_WAYS, distance, side="right") - 1
    causal = np.searchsorted(CAUSAL, distance, side="right") - 1
    expected = [past, past[1:] + 16, causal]
    return compared(np.concatenate(got), np.concatenate(expected), 0.0)


def _last_at_maximum(_encoding: Encoding, _tokens: Tokens) -> Found:
    """Whether the last bucket waits for max_distance."""
    first = np.flatnonzero(buckets(-np.arange(FAR)) == 15)[:1]
    return compared(first, np.array([128]), 0.0)


def _content(encoding: Encoding, tokens: Tokens) -> Array:
    q, k = tokens.x @ encoding.weights["query"], tokens.y @ encoding.weights["key"]
    products: Array = q @ k.transpose(0, 2, 1)
    return products


def _unscaled(encoding: Encoding, tokens: Tokens) -> Found:
    return _less_bias(encoding, tokens, 1.0)


def _scaled(encoding: Encoding, tokens: Tokens) -> Found:
    return _less_bias(encoding, tokens, 1 / np.sqrt(encoding.sizes.head_dim))


def _less_bias(encoding: Encoding, tokens: Tokens, scale: float) -> Found:
    whole = encoding.scores(tokens.x, tokens.y, tokens.m, tokens.n)
    bias = encoding.scores(tokens.none, tokens.none, tokens.m, tokens.n)
    expected = _content(encoding, tokens) * scale
    return compared(whole - bias, expected, 2 * rounding(encoding, tokens, whole))


LAWS = (
    EncodingLaw(
        name="published buckets", equation="T5 section 2.1", measure=_boundaries, because=EXACT
    ),
    EncodingLaw(
        name="the last bucket begins at max_distance",
        equation="T5 section 2.1",
        measure=_last_at_maximum,
        because=EXACT,
        expected="fails",
    ),
    EncodingLaw(name="content is q . k", equation="8", measure=_unscaled),
    EncodingLaw(name="content is q . k / sqrt(d)", equation="8", measure=_scaled, expected="fails"),
)
