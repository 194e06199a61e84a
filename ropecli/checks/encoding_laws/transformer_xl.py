"""Transformer-XL's own laws: all distances at once, and the shift that puts them in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import EncodingLaw, Found, compared, rounding

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Array, Tokens
    from ropecli.encodings import Encoding

WHERE = "Transformer-XL appendix B"


def _past(encoding: Encoding, tokens: Tokens) -> Found:
    direct, shifted = _both(encoding, tokens)
    rows = np.tril_indices(direct.shape[1])
    return _judged(encoding, tokens, shifted[:, *rows], direct[:, *rows])


def _future(encoding: Encoding, tokens: Tokens) -> Found:
    direct, shifted = _both(encoding, tokens)
    rows = np.triu_indices(direct.shape[1], 1)
    return _judged(encoding, tokens, shifted[:, *rows], direct[:, *rows])


def _both(encoding: Encoding, tokens: Tokens) -> tuple[Array, Array]:
    """(q_m + v) . W_R R_(m-n) of each pair, and by the authors' shift of all distances' columns.

    Keys of nothing leave this part of the score alone.
    """
    m = np.arange(float(len(tokens.x)))
    direct = encoding.scores(tokens.x, tokens.none, m, m)
    # Column j: distance count - 1 - j of every query.
    columns = encoding.scores(tokens.x, tokens.none, np.full(len(m), m[-1]), m)
    return direct, _relative_shift(columns)


def _relative_shift(columns: Array) -> Array:
    """A column of zeros before all, read as rows one longer, the first dropped."""
    heads, queries, keys = columns.shape
    padded = np.concatenate([np.zeros((heads, queries, 1)), columns], axis=2)
    return padded.reshape(heads, keys + 1, queries)[:, 1:].reshape(heads, queries, keys)


def _judged(encoding: Encoding, tokens: Tokens, got: Array, expected: Array) -> Found:
    return compared(got, expected, 2 * rounding(encoding, tokens, expected))


LAWS = (
    EncodingLaw(name="relative shift, keys up to the query", equation=WHERE, measure=_past),
    EncodingLaw(
        name="relative shift, keys after the query",
        equation=WHERE,
        measure=_future,
        expected="fails",
    ),
)
