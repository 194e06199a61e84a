"""Laws of encodings that add a bias to the score: ALiBi, KERPLE, FIRE."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.encoding_laws.law import (
    EncodingLaw,
    Found,
    compared,
    rounding,
)
from ropecli.encodings.by_name import encoding as made
from ropecli.encodings.types.alibi import slopes
from ropecli.encodings.types.fire import Fire
from ropecli.encodings.types.kerple import SMALLEST
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from ropecli.checks.encoding_laws.law import Tokens
    from ropecli.encodings import Encoding

#: The paper's slopes are powers of 2: these are the exponents.
EXPONENTS = {
    8: [-1, -2, -3, -4, -5, -6, -7, -8],
    12: [-1, -2, -3, -4, -5, -6, -7, -8, -0.5, -1.5, -2.5, -3.5],
    16: [-h / 2 for h in range(1, 17)],
}


def _slopes(_encoding: Encoding, _tokens: Tokens) -> Found:
    got = np.concatenate([slopes(heads) for heads in EXPONENTS])
    expected = np.concatenate([2.0 ** np.array(powers) for powers in EXPONENTS.values()])
    return compared(got, expected, 2 * DOUBLE)


def _geometric(_encoding: Encoding, _tokens: Tokens) -> Found:
    return compared(slopes(12), 2.0 ** (-8 * np.arange(1, 13) / 12), 2 * DOUBLE)


def _bias(encoding: Encoding, tokens: Tokens) -> Found:
    """Not scaled, and above 0 for a key after its query."""
    got = encoding.scores(tokens.none, tokens.none, tokens.m, tokens.n)
    expected = -slopes(encoding.sizes.heads)[:, None, None] * (tokens.m[:, None] - tokens.n)
    return compared(got, expected, rounding(encoding, tokens, expected))


def _kerple(encoding: Encoding, tokens: Tokens) -> Found:
    """Both kinds of bias, on the same weights."""
    sizes, weights = encoding.sizes, encoding.weights
    distance = np.abs(tokens.m[:, None] - tokens.n)
    r1, r2 = (np.maximum(weights[name], SMALLEST)[:, None, None] for name in ("r1", "r2"))
    expected = np.stack([-r1 * np.log(1 + r2 * distance), -r1 * distance ** np.minimum(r2, 2.0)])
    got = []
    for kind in ("log", "power"):
        own = made(
            "kerple",
            model_dim=sizes.model_dim,
            heads=sizes.heads,
            head_dim=sizes.head_dim,
            weights=weights,
            kind=kind,
        )
        got.append(own.scores(tokens.none, tokens.none, tokens.m, tokens.n))
    return compared(np.stack(got), expected, rounding(encoding, tokens, expected))


def _below(encoding: Encoding, tokens: Tokens) -> Found:
    assert isinstance(encoding, Fire)
    return _moved(encoding, tokens, encoding.threshold - len(tokens.x))


def _beyond(encoding: Encoding, tokens: Tokens) -> Found:
    assert isinstance(encoding, Fire)
    return _moved(encoding, tokens, 2 * encoding.threshold)


def _moved(encoding: Encoding, tokens: Tokens, shift: float) -> Found:
    m, last = np.arange(float(len(tokens.x))), shift + len(tokens.x)
    here = encoding.scores(tokens.x, tokens.y, m, m)
    there = encoding.scores(tokens.x, tokens.y, m + shift, m + shift)
    return compared(there, here, 2 * rounding(encoding, tokens, here, last))


ALIBI = (
    EncodingLaw(
        name="slopes of 8, 12 and 16 heads",
        equation="ALiBi section 3",
        measure=_slopes,
        because="powers of 2, at most 1, each with a rounding of its exponent and of itself",
    ),
    EncodingLaw(
        name="slopes of 12 heads are geometric",
        equation="ALiBi section 3",
        measure=_geometric,
        expected="fails",
    ),
    EncodingLaw(name="bias = -slope (m - n)", equation="ALiBi section 3", measure=_bias),
)
KERPLE = (EncodingLaw(name="bias, log and power", equation="KERPLE section 4", measure=_kerple),)
FIRE = (
    EncodingLaw(name="relative up to position L", equation="FIRE section 3", measure=_below),
    EncodingLaw(
        name="relative beyond L", equation="FIRE section 3", measure=_beyond, expected="fails"
    ),
)
