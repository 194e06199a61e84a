"""An encoding with the tokens that its laws are judged on, and the rounding of its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ropecli.checks.law import Law, Outcome
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ropecli.encodings import Encoding

    Array = NDArray[np.float64]

TOKENS = 8
LAST = 199  #: Largest position sampled.
ROUNDING = (
    "each term of a score passes 2 model_dim + head_dim sums and products and an angle or bias of "
    "at most the position, with 2^-53 each, on both sides"
)
EXACT = "whole numbers, or the same sums in the same order: nothing is rounded differently"


@dataclass(frozen=True, kw_only=True, eq=False)
class EncodingSubject:
    """An encoding, and the queries and keys that a law is judged on."""

    encoding: Encoding
    x: Array  #: Queries, (TOKENS, model_dim).
    y: Array  #: Keys, (TOKENS, model_dim).
    m: Array  #: Positions of the queries, whole, 0 ... LAST, the first 0.
    n: Array  #: Positions of the keys, whole, 0 ... LAST, the last 0.

    @property
    def zeros(self) -> Array:
        """Tokens of zeros: only the position's own part of a score is left."""
        return np.zeros_like(self.x)

    def scores(
        self,
        x: Array | None = None,
        y: Array | None = None,
        m: Array | None = None,
        n: Array | None = None,
    ) -> Array:
        """Return the encoding's scores (heads, queries, keys), of the subject's own by default."""
        return self.encoding.scores(
            self.x if x is None else x,
            self.y if y is None else y,
            self.m if m is None else m,
            self.n if n is None else n,
        )

    def rounding(self, scores: Array, last: float = LAST) -> float:
        """Return what rounding may add to a score.

        The content's terms are at most |x||W_q||y||W_k|, and what the position adds shows in the
        scores themselves. Each is rounded as `ROUNDING` says.

        Args:
            scores: Scores of the subject's tokens.
            last: Largest position in use.
        """
        sizes = self.encoding.sizes
        content = 1.0
        for each, name in ((self.x, "query"), (self.y, "key")):
            largest = np.linalg.norm(self.encoding.weights[name], axis=(1, 2)).max()
            content *= float(np.linalg.norm(each, axis=1).max() * largest)
        roundings = 2 * sizes.model_dim + sizes.head_dim + 2 * last
        return float(2 * DOUBLE * roundings * (content + np.abs(scores).max()))


def sample(encoding: Encoding, seed: int) -> EncodingSubject:
    """Return the encoding with normal tokens at whole positions."""
    random = np.random.default_rng(seed)
    x, y = random.standard_normal((2, TOKENS, encoding.sizes.model_dim))
    m, n = random.choice(LAST + 1, (2, TOKENS), replace=False).astype(np.float64)
    m[0] = n[-1] = 0.0
    return EncodingSubject(encoding=encoding, x=x, y=y, m=m, n=n)


def compare(got: NDArray[Any], expected: NDArray[Any], tolerance: float) -> Outcome:
    """Return the outcome by the largest difference; NaN is larger than all."""
    got, expected = np.broadcast_arrays(np.asarray(got, float), np.asarray(expected, float))
    with np.errstate(invalid="ignore"):
        error = np.where(got == expected, 0.0, np.abs(got - expected))
    error = np.where(np.isnan(error), np.inf, error)
    worst = np.unravel_index(int(error.argmax()), error.shape)
    where = ", ".join(str(int(i)) for i in worst)
    return Outcome(
        passed=bool(error[worst] <= tolerance),
        max_error=float(error[worst]),
        tolerance=tolerance,
        samples=error.size,
        counterexample=f"entry ({where}): got {got[worst]:.9g}, expected {expected[worst]:.9g}",
    )


def law(
    name: str,
    equation: str,
    judge: Callable[[EncodingSubject], Outcome],
    *,
    because: str = ROUNDING,
    expected: Literal["holds", "fails"] = "holds",
) -> Law[EncodingSubject]:
    """Return a law of an encoding, with the tolerance of a score unless another one is given."""
    return Law(name=name, equation=equation, judge=judge, because=because, expected=expected)
