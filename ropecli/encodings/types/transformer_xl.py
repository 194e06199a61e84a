"""Sinusoids of distances with their own projection, and u and v for the query's position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag
from ropecli.encodings.types.sinusoidal import check_dim, sinusoids
from ropecli.kernels.scores import add_relative


@dataclass(frozen=True, kw_only=True, eq=False)
class TransformerXl(Encoding):
    """((q_m + u) . k_n + (q_m + v) . W_R R_(m-n)) / sqrt(d) (Dai et al. 2019, arXiv:1901.02860)."""

    name: ClassVar[str] = "transformer_xl"
    equation: ClassVar[str] = "7"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True, linear_shift=True)

    as_printed: bool = False  #: RoFormer's Eq. 7: u and v are tokens, which W_q projects.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, the projection of R, u and v."""
        check_dim(sizes.model_dim)
        printed = flag("as_printed", options.get("as_printed", cls.as_printed))
        shapes = projections(sizes)
        vector = (sizes.model_dim,) if printed else (sizes.heads, sizes.head_dim)
        return shapes | {"key_position": shapes["key"], "u": vector, "v": vector}

    def code(self, positions: Any) -> Array:
        """R of each distance: (distances, model_dim), all sines, then all cosines."""
        real = as_positions(positions).ravel()
        return sinusoids(real, self.sizes.model_dim, order="concatenated")

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        q = self._queries(x_query)
        # Most distances are shared by many pairs: each is made and projected once.
        distances, index = np.unique(m[:, None] - n[None, :], return_inverse=True)
        table = self._compute("table", distances, lambda: self._project_sines(distances))
        out = dots(q + self._vector("u"), self._keys(x_key))
        add_relative(q + self._vector("v"), table, index.reshape(len(m), len(n)), out)
        return out * self._scale

    def _project_sines(self, distances: Array) -> Array:
        """W_R R of each distance: (heads, distances, head_dim)."""
        sines = sinusoids(distances, self.sizes.model_dim, order="concatenated")
        return np.ascontiguousarray(sines @ self.weights["key_position"])

    def _vector(self, name: str) -> Array:
        """u or v of each head: (heads, 1, head_dim)."""
        vector = self.weights[name]
        if self.as_printed:
            vector = vector @ self.weights["query"]
        return vector[:, None, :]
