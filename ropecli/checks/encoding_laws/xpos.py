"""xPos's own laws: its bound falls with the distance, and it is no plain rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import EncodingLaw, Found, compared, rounding
from ropecli.encodings.by_name import encoding as made
from ropecli.encodings.types.xpos import Xpos

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Tokens
    from ropecli.encodings import Encoding

WHERE = "xPos section 3.2"


def _decays(encoding: Encoding, tokens: Tokens) -> Found:
    """|S| <= sum |q_i||k_i| zeta_i^(r / scale_base) / sqrt(d), i over pairs, r = m - n >= 0."""
    assert isinstance(encoding, Xpos)
    dim = encoding.sizes.head_dim
    m = tokens.m.max() + tokens.m
    scores = encoding.scores(tokens.x, tokens.y, m, tokens.m)
    distance = np.maximum(m[:, None] - tokens.m, 0.0)
    zeta = (np.arange(0, dim, 2) / dim + encoding.gamma) / (1 + encoding.gamma)
    shrunk = zeta ** (distance[..., None] / encoding.scale_base)
    # The norm of each pair of coordinates: (heads, tokens, d/2).
    q, k = (
        np.linalg.norm((each @ encoding.weights[name]).reshape(-1, len(each), dim // 2, 2), axis=3)
        for each, name in ((tokens.x, "query"), (tokens.y, "key"))
    )
    bound = np.einsum("hmi,hni,mni->hmn", q, k, shrunk) / np.sqrt(dim)
    tolerance = rounding(encoding, tokens, scores, float(m.max()))
    return compared(np.maximum(np.abs(scores), bound), bound, tolerance)


def _turned(encoding: Encoding, tokens: Tokens) -> Found:
    """Whether RoPE on the same weights scores the same."""
    sizes = encoding.sizes
    rope = made(
        "rope",
        model_dim=sizes.model_dim,
        heads=sizes.heads,
        head_dim=sizes.head_dim,
        weights=encoding.weights,
    )
    got = encoding.scores(tokens.x, tokens.y, tokens.m, tokens.n)
    expected = rope.scores(tokens.x, tokens.y, tokens.m, tokens.n)
    return compared(got, expected, 2 * rounding(encoding, tokens, got))


LAWS = (
    EncodingLaw(name="bound falls as zeta^(m-n)", equation=WHERE, measure=_decays),
    EncodingLaw(name="scores = RoPE's", equation=WHERE, measure=_turned, expected="fails"),
)
