"""FIRE: a small network of the distance, relative to the query's position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.kernels.scores import add_network
from ropecli.numbers import positive

WIDTH = 32  #: Hidden units of the network.


@dataclass(frozen=True, kw_only=True, eq=False)
class Fire(Encoding):
    """q_m . k_n / sqrt(d) + f(psi(m-n) / psi(max(L, m))) (Li et al. 2023, arXiv:2310.04418).

    psi(x) = ln(cx + 1), and f is a network 1 -> 32 -> heads with ReLU between. A key after its
    query, which a causal mask removes, is taken at its distance |m-n|, as in the authors' code.
    Up to query position L the score depends only on m - n; beyond it, it does not.
    """

    name: ClassVar[str] = "fire"
    equation: ClassVar[str] = "FIRE section 3"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(decaying=None, linear_shift=None)

    c: float = 0.1  #: Resolution of short distances.
    threshold: float = 512.0  #: L: query positions up to it share one denominator.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, W_v, and the two layers of the network."""
        return projections(sizes) | {
            "hidden": (1, WIDTH),
            "hidden_bias": (WIDTH,),
            "output": (WIDTH, sizes.heads),
            "output_bias": (sizes.heads,),
        }

    def __post_init__(self) -> None:
        """Check the options."""
        positive("c", self.c)
        positive("threshold", self.threshold)

    @property
    def saturation_position(self) -> float:
        """L: up to it, a score depends only on distance."""
        return self.threshold

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        near = np.log1p(self.c * np.abs(m[:, None] - n))
        far = np.log1p(self.c * np.maximum(self.threshold, m))
        out = dots(self._queries(x_query), self._keys(x_key)) * self._scale
        w = self.weights
        layers = (w["hidden"][0], w["hidden_bias"], w["output"], w["output_bias"])
        add_network(near / far[:, None], *layers, out)
        return out
