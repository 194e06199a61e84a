"""No positional encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Theory, dots


@dataclass(frozen=True, kw_only=True, eq=False)
class Nope(Encoding):
    """q_m . k_n / sqrt(d), whatever the positions (Kazemnejad et al. 2023, arXiv:2305.19466)."""

    name: ClassVar[str] = "nope"
    equation: ClassVar[str] = "2"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=True, symmetric=True, bounded=True, linear_shift=None
    )

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        return dots(self._queries(x_query), self._keys(x_key)) * self._scale
