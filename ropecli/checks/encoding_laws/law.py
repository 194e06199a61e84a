"""What a law of a positional encoding is, and what it is put to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

    Array = NDArray[np.float64]

TOKENS = 8
LAST = 199  #: Largest position drawn.
ROUNDING = (
    "each term of a score passes 2 model_dim + head_dim sums and products and an angle or bias of "
    "at most the position, with 2^-53 each, on both sides"
)
EXACT = "whole numbers, or the same sums in the same order: nothing is rounded differently"


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokens:
    """Queries and keys that a law is judged on."""

    x: Array  #: (TOKENS, model_dim).
    y: Array  #: (TOKENS, model_dim).
    m: Array  #: Positions of x, whole, 0 ... LAST, the first 0.
    n: Array  #: Positions of y, likewise, the last 0.

    @property
    def none(self) -> Array:
        """Tokens of nothing: what is left of a score is the position's own."""
        return np.zeros_like(self.x)


@dataclass(frozen=True, kw_only=True)
class Found:
    """How far a law was seen to be off."""

    error: float  #: The largest.
    tolerance: float  #: What rounding alone may do.
    samples: int  #: Numbers compared.
    case: str  #: Where the error is largest.


@dataclass(frozen=True, kw_only=True)
class EncodingLaw:
    """A statement about one encoding that can be put to numbers."""

    name: str  #: A word or two.
    equation: str  #: Where it is published.
    measure: Callable[[Encoding, Tokens], Found]
    because: str = ROUNDING  #: Where the tolerance comes from.
    expected: Literal["holds", "fails"] = "holds"  #: What theory says.


def drawn(model_dim: int, seed: int) -> Tokens:
    """Normal tokens at whole positions."""
    random = np.random.default_rng(seed)
    x, y = random.standard_normal((2, TOKENS, model_dim))
    m, n = random.choice(LAST + 1, (2, TOKENS), replace=False).astype(np.float64)
    m[0] = n[-1] = 0.0
    return Tokens(x=x, y=y, m=m, n=n)


def compared(got: NDArray[Any], expected: NDArray[Any], tolerance: float) -> Found:
    """The largest difference; one that is not a number is larger than all."""
    got, expected = np.broadcast_arrays(np.asarray(got, float), np.asarray(expected, float))
    with np.errstate(invalid="ignore"):
        error = np.where(got == expected, 0.0, np.abs(got - expected))
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(int(error.argmax()), error.shape)
    where = ", ".join(str(int(i)) for i in worst)
    return Found(
        error=float(error[worst]),
        tolerance=tolerance,
        samples=error.size,
        case=f"entry ({where}): got {got[worst]:.9g}, expected {expected[worst]:.9g}",
    )


def rounding(encoding: Encoding, tokens: Tokens, scores: Array, last: float = LAST) -> float:
    """What rounding may add to a score.

    The content's terms are at most |x||W_q||y||W_k|, and what the position brings shows in the
    scores themselves. Each passes `ROUNDING`.

    Args:
        encoding: With its weights.
        tokens: Queries and keys.
        scores: Of them.
        last: Largest position in use.
    """
    sizes = encoding.sizes
    content = 1.0
    for each, name in ((tokens.x, "query"), (tokens.y, "key")):
        largest = np.linalg.norm(encoding.weights[name], axis=(1, 2)).max()
        content *= float(np.linalg.norm(each, axis=1).max() * largest)
    roundings = 2 * sizes.model_dim + sizes.head_dim + 2 * last
    return float(2 * DOUBLE * roundings * (content + np.abs(scores).max()))
