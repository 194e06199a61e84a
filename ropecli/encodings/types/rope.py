"""RoPE: queries and keys are turned by their positions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Theory, dots
from ropecli.errors import ArgumentError
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate


@dataclass(frozen=True, kw_only=True, eq=False)
class Rope(Encoding):
    """(R_m W_q x_m) . (R_n W_k x_n) / sqrt(d) (RoFormer Eq. 16), by any `Rotary`."""

    name: ClassVar[str] = "rope"
    equation: ClassVar[str] = "16"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=True, bounded=True, linear_shift=True
    )

    rotary: Rotary | None = None  #: The paper's, over the whole head, by default.

    def __post_init__(self) -> None:
        """Check that the rotation fits the heads."""
        if self.rotary is not None and self.rotary.head_dim != self.sizes.head_dim:
            raise ArgumentError(
                f"rotary must have head dim {self.sizes.head_dim}, got {self.rotary.head_dim}"
            )

    @property
    def theory(self) -> Theory:
        """Factors above 1 and growth exceed the bound; without rotation, scores are symmetric."""
        rope = self._rotary
        factor = rope.attention_factor**2 * rope.softmax_factor
        return replace(
            self.default_theory,
            bounded=factor <= 1 and not rope.grows,
            symmetric=not rope.grows and not rope.diagonal_inv_freq.any(),
        )

    def code(self, positions: Any) -> Array:
        """A vector of ones, turned to each position: (positions, head_dim)."""
        real = as_positions(positions).ravel()
        return rotate(np.ones((len(real), self.sizes.head_dim)), self._rotary, real)

    @property
    def _rotary(self) -> Rotary:
        return self.rotary or Rotary(head_dim=self.sizes.head_dim)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        rope = self._rotary
        q = rotate(self._queries(x_query), rope, m)
        k = rotate(self._keys(x_key), rope.for_keys, n)
        return dots(q, k) * self._scale * rope.softmax_factor
