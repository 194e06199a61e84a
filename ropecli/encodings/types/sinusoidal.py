"""Sinusoids added to tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Additive, Sizes, Theory, projections
from ropecli.errors import ArgumentError
from ropecli.names import one_of

ORDERS = ("interleaved", "concatenated")
EXPONENTS = ("2t/d", "2t/(d-2)")


@dataclass(frozen=True, kw_only=True, eq=False)
class Sinusoidal(Additive):
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d) (Vaswani et al. 2017, arXiv:1706.03762)."""

    name: ClassVar[str] = "sinusoidal"
    equation: ClassVar[str] = "4"
    default_theory: ClassVar[Theory] = Theory(linear_shift=True)

    order: str = "interleaved"  #: Or "concatenated": all sines, then all cosines.
    exponent: str = "2t/d"  #: Or "2t/(d-2)", as Tensor2Tensor and fairseq have it.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k and W_v."""
        check_dim(sizes.model_dim)
        one_of("order", options.get("order", cls.order), ORDERS)
        one_of("exponent", options.get("exponent", cls.exponent), EXPONENTS)
        return projections(sizes)

    def _codes(self, name: str, positions: Array) -> Array:
        dim = self.sizes.model_dim
        return sinusoids(positions, dim, order=self.order, exponent=self.exponent)


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
