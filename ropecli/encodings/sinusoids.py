"""The sinusoidal code of a position, RoFormer Eq. 4."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

ORDERS = ("interleaved", "concatenated")
EXPONENTS = ("2t/d", "2t/(d-2)")


def sinusoids(
    positions: Array, dim: int, *, order: str = "interleaved", exponent: str = "2t/d"
) -> Array:
    """sin and cos of position / 10000^exponent, t = 0 ... d/2 - 1: (positions, dim).

    Args:
        positions: (positions,), any real numbers.
        dim: d, even.
        order: "interleaved" is the paper's: sine, cosine, sine, ...; "concatenated" has all
            sines first, as most code has.
        exponent: "2t/d" is the paper's; "2t/(d-2)" is Tensor2Tensor's and fairseq's, whose last
            wavelength is 10000 times the first.
    """
    half = dim // 2
    divisor = half if exponent == "2t/d" else max(half - 1, 1)
    angle = positions[:, None] * 10_000.0 ** (-np.arange(half) / divisor)
    if order == "concatenated":
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(len(positions), dim)


def check_dim(model_dim: int) -> None:
    """Refuse a dim that sines and cosines do not fill.

    Raises:
        ArgumentError: An odd dim.
    """
    if model_dim % 2:
        msg = f"model_dim must be even for sinusoids, got {model_dim}"
        raise ArgumentError(msg)
