"""ALiBi: a score falls in proportion to distance, with one slope per head."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Theory, dots
from ropecli.encodings.options import flag


@dataclass(frozen=True, kw_only=True, eq=False)
class Alibi(Encoding):
    """q_m . k_n / sqrt(d) - slope (m - n), the bias not scaled (Press et al. 2021, 2108.12409).

    A key after its query, which the paper's causal mask removes, gets a bias above 0; with
    `absolute` it falls with distance there too.
    """

    name: ClassVar[str] = "alibi"
    equation: ClassVar[str] = "ALiBi section 3"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True, decaying=True)

    absolute: bool = False  #: -slope |m - n|, for attention in both directions.

    def __post_init__(self) -> None:
        """Check the option."""
        flag("absolute", self.absolute)

    @property
    def causal(self) -> bool:
        """True unless the bias is `absolute`."""
        return not self.absolute

    @property
    def theory(self) -> Theory:
        """Symmetric if distances count only by their size."""
        return replace(self.default_theory, symmetric=self.absolute)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        distance = m[:, None] - n
        if self.absolute:
            distance = np.abs(distance)
        content = dots(self._queries(x_query), self._keys(x_key)) * self._scale
        return content - slopes(self.sizes.heads)[:, None, None] * distance


def slopes(heads: int) -> Array:
    """2^(-8h/heads) for h = 1 ... heads, a power of two.

    For any other number, those of the power of two below it, and then the first, third, fifth, ...
    of the power of two above it.
    """
    power = 1 << (heads.bit_length() - 1)
    first = np.exp2(-8 * np.arange(1, power + 1) / power)
    between = np.exp2(-8 * np.arange(1, 2 * (heads - power), 2) / (2 * power))
    return np.concatenate([first, between])
