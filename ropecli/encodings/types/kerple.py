"""KERPLE: a conditionally positive definite kernel of distance, with learned parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.errors import ArgumentError

SMALLEST = 0.01  #: Lower limit of r1 and r2 in the authors' code.


@dataclass(frozen=True, kw_only=True, eq=False)
class Kerple(Encoding):
    """q_m . k_n / sqrt(d) - r1 ln(1 + r2|m-n|), or - r1|m-n|^r2 (Chi et al. 2022, 2205.09921).

    r1 and r2 are clamped to at least 0.01, and the exponent to at most 2, as in the authors' code:
    beyond that the kernel is not conditionally positive definite. The bias is not scaled.
    """

    name: ClassVar[str] = "kerple"
    equation: ClassVar[str] = "KERPLE section 4"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=True, symmetric=True, decaying=True
    )

    kind: str = "log"  #: "log" or "power".

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, W_v, and r1 and r2 of each head."""
        return projections(sizes) | {"r1": (sizes.heads,), "r2": (sizes.heads,)}

    @classmethod
    def sample_weight(cls, name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """r1 between 0 and 2, r2 between 0 and 1, as training starts in the authors' code."""
        match name:
            case "r1":
                return random.uniform(0, 2, shape)
            case "r2":
                return random.uniform(0, 1, shape)
        return super().sample_weight(name, shape, random)

    def __post_init__(self) -> None:
        """Check the option."""
        if self.kind not in ("log", "power"):
            raise ArgumentError(f"kind must be log or power, got {self.kind!r}")

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        distance = np.abs(m[:, None] - n)
        r1 = np.maximum(self.weights["r1"], SMALLEST)[:, None, None]
        r2 = np.maximum(self.weights["r2"], SMALLEST)[:, None, None]
        power = distance ** np.minimum(r2, 2.0)
        fall: Array = power if self.kind == "power" else np.log1p(r2 * distance)
        return dots(self._queries(x_query), self._keys(x_key)) * self._scale - r1 * fall
