"""equinox's rotary embedding, in the form of a decoder.

`equinox.nn.RotaryPositionalEmbedding` is called with a whole sequence and counts from 0, so a
decoder calls it with all tokens so far.
"""

from __future__ import annotations

from typing import Any

import equinox
import jax.numpy as jnp
import numpy as np


class Decoder:
    """One module, and all tokens so far."""

    def __init__(self, theta: float = 10_000.0, dim: int = 64) -> None:
        self.module = equinox.nn.RotaryPositionalEmbedding(dim, theta=theta)
        self.tokens: Any = None

    def prefill(self, x: Any) -> Any:
        """Rotate a sequence (sequence, head dim) from position 0."""
        self.tokens = np.asarray(x)
        return self.rotate()

    def step(self, token: Any) -> Any:
        """Rotate one more token."""
        one = np.asarray(token)
        self.tokens = one if self.tokens is None else np.concatenate([self.tokens, one])
        return self.rotate()[-1:]

    def rotate(self) -> Any:
        """Rotate all tokens so far, padded to a power of 2, which spares JAX most compilations."""
        count = len(self.tokens)
        padding = (1 << (count - 1).bit_length()) - count
        padded = np.pad(self.tokens, [(0, padding), (0, 0)])
        return np.asarray(self.module(jnp.asarray(padded)))[:count]


class OneTheta(Decoder):
    """A decoder with one theta, as in most models."""

    def __init__(self) -> None:
        super().__init__(theta=10_000.0)
