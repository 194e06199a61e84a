"""Laws of encodings that know positions by the tokens alone, or not at all: NoPE, CoPE, RoPE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import EncodingLaw, Found, compared, rounding

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Array, Tokens
    from ropecli.encodings import Encoding

SHUT = 1000.0  #: A logit of -1000 shuts a gate: sigmoid is below the least float64.


def _permuted(encoding: Encoding, tokens: Tokens) -> Found:
    """Keys that change places, the positions staying."""
    x, y, m, n = tokens.x, tokens.y, tokens.m, tokens.n
    here = encoding.scores(x, y, m, n)
    there = encoding.scores(x, y[::-1], m, n)[:, :, ::-1]
    return compared(there, here, 2 * rounding(encoding, tokens, here))


def _shut(encoding: Encoding, tokens: Tokens) -> Found:
    """A key whose logit is -SHUT with the query, in every head."""
    query = tokens.x[0] @ encoding.weights["query"]
    against = np.einsum("hd,hcd->hc", query, encoding.weights["key"])
    sizes = np.full(len(against), -SHUT)
    key = np.linalg.lstsq(against, sizes, rcond=None)[0]
    return _inserted(encoding, tokens, key)


def _any(encoding: Encoding, tokens: Tokens) -> Found:
    return _inserted(encoding, tokens, tokens.y[-1])


def _inserted(encoding: Encoding, tokens: Tokens, key: Array) -> Found:
    """What a key more, amid the others, does to their scores with the first query."""
    count = len(tokens.y)
    middle, last = count // 2, np.array([float(count)])
    here = encoding.scores(tokens.x[:1], tokens.y, last, np.arange(float(count)))
    longer = np.insert(tokens.y, middle, key, axis=0)
    there = encoding.scores(tokens.x[:1], longer, last, np.arange(count + 1.0))
    return compared(
        np.delete(there, middle, axis=2), here, 2 * rounding(encoding, tokens, here, count)
    )


NOPE = (EncodingLaw(name="keys may change places", equation="2", measure=_permuted),)
ROPE = (
    EncodingLaw(name="keys may change places", equation="16", measure=_permuted, expected="fails"),
)
COPE = (
    EncodingLaw(
        name="a key whose gate is 0 is not counted", equation="CoPE section 4", measure=_shut
    ),
    EncodingLaw(
        name="any key may be put in",
        equation="CoPE section 4",
        measure=_any,
        expected="fails",
    ),
)
