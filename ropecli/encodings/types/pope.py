"""PoPE: lengths of queries and keys from the content alone, angles from the position alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.numbers import positive

FULL_TURN = 2 * np.pi


@dataclass(frozen=True, kw_only=True, eq=False)
class Pope(Encoding):
    """Sum_c s(q_c) s(k_c) cos((n - m) theta_c + delta_c) / sqrt(d) (2509.10534, section 3).

    s is the softplus ln(1 + e^x), theta_c = base^(-c/d) for each coordinate c of a head, and delta
    a learned offset of each head and coordinate, clipped to [-2 pi, 0].
    """

    name: ClassVar[str] = "pope"
    equation: ClassVar[str] = "PoPE section 3"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True)

    base: float = 10_000.0  #: theta_c = base^(-c/d).

    def __post_init__(self) -> None:
        """Check the base."""
        positive("base", self.base)

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, W_v, and delta of each head and coordinate."""
        return projections(sizes) | {"delta": (sizes.heads, sizes.head_dim)}

    @classmethod
    def sample_weight(cls, name: str, shape: tuple[int, ...], random: np.random.Generator) -> Array:
        """Sample delta between its bounds, and other weights as all encodings do."""
        if name == "delta":
            return random.uniform(-FULL_TURN, 0.0, shape)
        return super().sample_weight(name, shape, random)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        d = self.sizes.head_dim
        theta = self.base ** (-np.arange(d) / d)
        delta = np.clip(self.weights["delta"], -FULL_TURN, 0.0)[:, None]
        at_query = self._compute("query", m, lambda: _unit_vectors(np.multiply.outer(m, theta)))
        at_key = self._compute("key", n, lambda: _unit_vectors(np.multiply.outer(n, theta) + delta))
        q = _in_the_plane(self._queries(x_query), at_query)
        k = _in_the_plane(self._keys(x_key), at_key)
        return dots(q, k) * self._scale


def _unit_vectors(angle: Array) -> Array:
    return np.stack([np.cos(angle), np.sin(angle)])


def _in_the_plane(x: Array, unit: Array) -> Array:
    """Return softplus(x) at an angle, cosines then sines: (heads, tokens, 2 head_dim)."""
    length = np.logaddexp(0.0, x)
    return np.concatenate([length * unit[0], length * unit[1]], axis=-1)
