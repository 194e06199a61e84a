"""Sinusoids added to tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Sizes, Theory, projections
from ropecli.errors import ArgumentError
from ropecli.names import one_of

ORDERS = ("interleaved", "concatenated")
EXPONENTS = ("2t/d", "2t/(d-2)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sinusoidal(Encoding):
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d) (Vaswani et al. 2017, arXiv:1706.03762)."""

    name: ClassVar[str] = "sinusoidal"
    equation: ClassVar[str] = "4"
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=False,
        symmetric=False,
        bounded=False,
        decaying=False,
        linear_shift=True,
    )

    order: str = "interleaved"  #: Or "concatenated": all sines, then all cosines.
    exponent: str = "2t/d"  #: Or "2t/(d-2)", as Tensor2Tensor and fairseq have it.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k and W_v."""
        check_dim(sizes.model_dim)
        one_of("order", options.get("order", cls.order), ORDERS)
        one_of("exponent", options.get("exponent", cls.exponent), EXPONENTS)
        return projections(sizes)

    def code(self, positions: Any) -> Array:
        """p of each position: (positions, model_dim)."""
        real = as_positions(positions).ravel()
        return sinusoids(real, self.sizes.model_dim, order=self.order, exponent=self.exponent)

    def output(
        self, attention: Array, x_key: Any, query_positions: Any, key_positions: Any
    ) -> Array:
        """o_m = sum_n a_mn W_v (x_n + p_n), since Eq. 3 adds p_n before all projections."""
        x = self._tokens("x_key", x_key) + self.code(key_positions)
        return super().output(attention, x, query_positions, key_positions)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        q = self._queries(x_query + self.code(m))
        return self._dots(q, x_key + self.code(n)) * self._scale


def sinusoids(
    positions: Array, dim: int, *, order: str = "interleaved", exponent: str = "2t/d"
) -> Array:
    """sin and cos of position / 10000^exponent, t = 0 ... d/2 - 1: (positions, dim)."""
    half = dim // 2
    divisor = half if exponent == "2t/d" else max(half - 1, 1)
    angle = positions[:, None] * 10_000.0 ** (-np.arange(half) / divisor)
    if order == "concatenated":
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(positions), dim)


def check_dim(model_dim: int) -> None:
    """Refuse a dim that sines and cosines do not fill."""
    if model_dim % 2:
        raise ArgumentError(f"model_dim must be even for sinusoids, got {model_dim}")
