"""The sinusoidal code's own laws, RoFormer Eq. 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import (
    LAST,
    EncodingLaw,
    Found,
    compared,
    rounding,
)
from ropecli.encodings.by_name import encoding as made
from ropecli.encodings.types.sinusoidal import Sinusoidal
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Array, Tokens
    from ropecli.encodings import Encoding

ANGLES = "an angle has a rounding of its frequency, its product and its sine: 4 x 2^-53 of it"
SUM = f"{ANGLES}, in each of d products"


def _angles(encoding: Encoding, positions: Array) -> Array:
    half = encoding.sizes.model_dim // 2
    return np.outer(positions, 10_000.0 ** (-np.arange(half) / half))


def _code(encoding: Encoding, positions: Array) -> Array:
    assert isinstance(encoding, Sinusoidal)
    return encoding.code(positions)


def _shift(encoding: Encoding, tokens: Tokens) -> Found:
    """M_k turns each pair (sin, cos) by k theta."""
    turn = _angles(encoding, tokens.n)
    sine, cosine = np.sin(turn), np.cos(turn)
    here = _code(encoding, tokens.m)
    expected = np.empty_like(here)
    expected[:, 0::2] = cosine * here[:, 0::2] + sine * here[:, 1::2]
    expected[:, 1::2] = cosine * here[:, 1::2] - sine * here[:, 0::2]
    # Angles of m, k and m + k, which is at most twice the last; their parts are at most 1.
    got = _code(encoding, tokens.m + tokens.n)
    return compared(got, expected, DOUBLE * (4 * 4 * LAST + 8))


def _length(encoding: Encoding, tokens: Tokens) -> Found:
    dim = encoding.sizes.model_dim
    # A sine's and a cosine's rounding, of squares that add up to 1, and d sums.
    got = (_code(encoding, tokens.m) ** 2).sum(axis=1)
    return compared(got, np.full(len(got), dim / 2), DOUBLE * dim * (dim + 4))


def _product(encoding: Encoding, tokens: Tokens) -> Found:
    dim = encoding.sizes.model_dim
    got = _code(encoding, tokens.m) @ _code(encoding, tokens.n).T
    distance = (tokens.m[:, None] - tokens.n).ravel()
    expected = np.cos(_angles(encoding, distance)).sum(axis=1).reshape(got.shape)
    return compared(got, expected, DOUBLE * dim * (4 * 2 * LAST + dim + 4))


def _tied(encoding: Encoding, tokens: Tokens) -> Found:
    """W_q = W_k = I: one head as wide as the token."""
    dim = encoding.sizes.model_dim
    same = {"query": np.eye(dim)[None], "key": np.eye(dim)[None]}
    tied = made("sinusoidal", model_dim=dim, heads=1, weights=same)
    return _moved(tied, tokens)


def _moved(encoding: Encoding, tokens: Tokens) -> Found:
    """Of the positions' own part of the score."""
    none, m, n = tokens.none, tokens.m, tokens.n
    here = encoding.scores(none, none, m, n)
    there = encoding.scores(none, none, m + 37, n + 37)
    return compared(there, here, 2 * rounding(encoding, tokens, here, LAST + 37))


LAWS = (
    EncodingLaw(name="p_(m+k) = M_k p_m", equation="4", because=ANGLES, measure=_shift),
    EncodingLaw(
        name="|p_m|^2 = d/2", equation="4", because="d roundings of d squares", measure=_length
    ),
    EncodingLaw(
        name="p_m . p_n = sum cos((m-n) theta)", equation="4", because=SUM, measure=_product
    ),
    EncodingLaw(
        name="position part is relative, W_q = W_k = I",
        equation="3",
        measure=_tied,
    ),
    EncodingLaw(
        name="position part is relative, any W_q, W_k",
        equation="3",
        measure=_moved,
        expected="fails",
    ),
)
