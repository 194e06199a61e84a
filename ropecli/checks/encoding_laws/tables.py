"""Laws of encodings that look positions up in a table: learned, Shaw, TUPE, DeBERTa."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import (
    EXACT,
    EncodingLaw,
    Found,
    compared,
    rounding,
)
from ropecli.encodings.types.deberta import Deberta
from ropecli.encodings.types.learned import Learned
from ropecli.encodings.types.shaw import Shaw
from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Array, Tokens
    from ropecli.encodings import Encoding


def _refuses(encoding: Encoding, tokens: Tokens) -> Found:
    assert isinstance(encoding, Learned)
    beyond = encoding.length + np.arange(float(len(tokens.x)))
    refused = np.zeros(len(beyond))
    for i, position in enumerate(beyond):
        try:
            encoding.scores(tokens.x[:1], tokens.y[:1], np.zeros(1), np.array([position]))
        except ArgumentError:
            refused[i] = 1
    return compared(refused, np.ones(len(beyond)), 0.0)


def _clipped(encoding: Encoding, tokens: Tokens) -> Found:
    assert isinstance(encoding, Shaw)
    return _alike(encoding, tokens, encoding.clip)


def _unclipped(encoding: Encoding, tokens: Tokens) -> Found:
    assert isinstance(encoding, Shaw)
    return _alike(encoding, tokens, encoding.clip - 1)


def _alike(encoding: Encoding, tokens: Tokens, first: int) -> Found:
    """Whether keys `first` and more away, on either side, all score as the one at `first`."""
    reach = np.arange(float(len(tokens.y))) + first
    keys = np.tile(tokens.y[:1], (len(reach), 1))
    middle = np.full(len(tokens.x), reach[-1])
    got = np.stack(
        [encoding.scores(tokens.x, keys, middle, middle[0] + side * reach) for side in (-1, 1)]
    )
    return compared(got, got[..., :1], 2 * rounding(encoding, tokens, got))


def _untied(encoding: Encoding, tokens: Tokens) -> Found:
    """Of position 0 as query, theta1; as key, theta2, whatever the other position."""
    thetas = np.stack([encoding.weights["theta1"], encoding.weights["theta2"]])
    zero, others = np.zeros(1), np.arange(1.0, 9.0)
    none = np.zeros((len(others), encoding.sizes.model_dim))
    before = encoding.scores(none[:1], none, zero, others)[:, 0]
    after = encoding.scores(none, none[:1], others, zero)[:, :, 0]
    got = np.stack([before, after])
    expected = np.broadcast_to(thetas[:, :, None], got.shape)
    return compared(got, expected, rounding(encoding, tokens, got))


def _tied(encoding: Encoding, tokens: Tokens) -> Found:
    """[CLS] as a position like any other: p_0 U_q . p_n U_k / sqrt(2d) + b."""
    weights, n = encoding.weights, np.arange(1.0, 9.0)
    none = np.zeros((len(n), encoding.sizes.model_dim))
    got = encoding.scores(none[:1], none, np.zeros(1), n)[:, 0]
    table = weights["positions"]
    first, rest = table[0] @ weights["position_query"], table[1:9] @ weights["position_key"]
    place = np.einsum("hd,hnd->hn", first, rest) / np.sqrt(2 * encoding.sizes.head_dim)
    middle = len(table) - 1
    expected = place + weights["bias"][middle + 1 : middle + 9].T
    return compared(got, expected, rounding(encoding, tokens, got))


def _released(encoding: Encoding, tokens: Tokens) -> Found:
    return _key_to_position(encoding, tokens, 1)


def _printed(encoding: Encoding, tokens: Tokens) -> Found:
    return _key_to_position(encoding, tokens, -1)


def _key_to_position(encoding: Encoding, tokens: Tokens, sign: int) -> Found:
    """Without a query only k_n . qr is left, in the row of sign (m - n)."""
    assert isinstance(encoding, Deberta)
    w, k = encoding.weights, encoding.clip
    m, n = np.arange(float(len(tokens.x))), np.arange(float(len(tokens.y)))
    got = encoding.scores(tokens.none, tokens.y, m, n)
    rows = np.clip(sign * (m[:, None] - n) + k, 0, 2 * k - 1).astype(int)
    table: Array = w["positions"] @ w["position_query"]
    terms = np.einsum("hnd,hmnd->hmn", tokens.y @ w["key"], table[:, rows])
    expected = terms / np.sqrt(3 * encoding.sizes.head_dim)
    return compared(got, expected, rounding(encoding, tokens, got))


LEARNED = (
    EncodingLaw(
        name="refuses positions beyond its table", equation="3", because=EXACT, measure=_refuses
    ),
)
SHAW = (
    EncodingLaw(name="alike from k on", equation="5", measure=_clipped),
    EncodingLaw(
        name="alike from k - 1 on",
        equation="5",
        measure=_unclipped,
        expected="fails",
    ),
)
TUPE = (
    EncodingLaw(name="[CLS] has thetas", equation="9", measure=_untied),
    EncodingLaw(
        name="[CLS] is a position",
        equation="9",
        measure=_tied,
        expected="fails",
    ),
)
DEBERTA = (
    EncodingLaw(name="p2c at m - n, as released", equation="10", measure=_released),
    EncodingLaw(
        name="p2c at n - m, as printed",
        equation="10",
        measure=_printed,
        expected="fails",
    ),
)
