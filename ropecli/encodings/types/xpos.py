"""xPos: RoPE whose queries shrink and keys grow with position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Theory, dots
from ropecli.errors import ArgumentError
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate
from ropecli.rotary.by_name import rope

#: Largest x for which e^x, e^-x and products with either stay normal float64 numbers.
_LARGEST_EXPONENT = 650.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Xpos(Encoding):
    """Re sum_i h_i e^{i(m-n)theta_i} z_i^((m-n)/scale_base) / sqrt(d) (Sun et al., 2212.10554).

    z_i = (2i/d + gamma) / (1 + gamma) is below 1, so that a bound on the score falls with m - n;
    for a key after its query it grows, as the formula says.
    """

    name: ClassVar[str] = "xpos"
    equation: ClassVar[str] = "xPos section 3.2"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True, linear_shift=True)

    base: float = 10_000.0  #: theta_i = base^(-2i/d).
    scale_base: float = 512.0  #: Positions over which pair i shrinks by z_i.
    gamma: float = 0.4  #: Keeps z away from 0.

    def __post_init__(self) -> None:
        """Check the options."""
        _ = self.rotary

    @property
    def rotary(self) -> Rotary:
        """The encoding of the queries; its `for_keys` is that of the keys."""
        return rope(
            "xpos",
            head_dim=self.sizes.head_dim,
            rope_theta=self.base,
            scale_base=self.scale_base,
            gamma=self.gamma,
        )

    def code(self, positions: Any) -> Array:
        """A vector of ones, turned and shrunk to each position: (positions, head_dim)."""
        real = as_positions(positions).ravel()
        return rotate(np.ones((len(real), self.sizes.head_dim)), self.rotary, real)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        turn = self.rotary
        furthest = max(np.abs(m).max(initial=0), np.abs(n).max(initial=0))
        reach = _LARGEST_EXPONENT / np.abs(turn.growth).max()
        if furthest > reach:
            raise ArgumentError(
                f"positions must be within {reach:.6g} of 0 for xpos, got {furthest:g} away"
            )
        q = rotate(self._queries(x_query), turn, m)
        k = rotate(self._keys(x_key), turn.for_keys, n)
        return dots(q, k) * self._scale
