"""Learned vectors for clipped distances, added to keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag, relative, rows
from ropecli.kernels.scores import add_relative


@dataclass(frozen=True, kw_only=True, eq=False)
class Shaw(Encoding):
    """q_m . (k_n + a_(n-m)) / sqrt(d), distances clipped (Shaw et al. 2018, arXiv:1803.02155)."""

    name: ClassVar[str] = "shaw"
    equation: ClassVar[str] = "5"
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True)

    clip: int = 16  #: The largest distance with its own vectors.
    as_printed: bool = False  #: RoFormer's Eq. 5: index m - n, and vectors added before W_k, W_v.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, W_v, and the vectors of distances -clip ... clip."""
        clip = rows("clip", options.get("clip", cls.clip))
        printed = flag("as_printed", options.get("as_printed", cls.as_printed))
        table = (2 * clip + 1, sizes.model_dim if printed else sizes.head_dim)
        shapes = projections(sizes)
        return shapes | {
            "key_positions": table,
            "value_positions": table,
        }

    def output(
        self, attention: Array, x_key: Any, query_positions: Any, key_positions: Any
    ) -> Array:
        """o_m = sum_n a_mn (v_n + a^V_(n-m)), which scores alone do not show (Eq. 5)."""
        out = super().output(attention, x_key, query_positions, key_positions)
        index = self._index(as_positions(query_positions), as_positions(key_positions))
        out += self._attention_by_row(attention, index) @ self._table("value")
        return out

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        q = self._queries(x_query)
        out = dots(q, self._keys(x_key))
        add_relative(q, self._table("key"), self._index(m, n), out)
        return out * self._scale

    def _index(self, m: Array, n: Array) -> NDArray[np.int64]:
        distance = relative(m, n)
        clipped = np.clip(-distance if self.as_printed else distance, -self.clip, self.clip)
        return clipped + self.clip

    def _table(self, kind: str) -> Array:
        """The vectors that each head adds: (heads, rows, head_dim)."""
        table = self.weights[f"{kind}_positions"]
        if self.as_printed:
            return np.ascontiguousarray(table @ self.weights[kind])
        return np.repeat(table[None], self.sizes.heads, axis=0)

    def _attention_by_row(self, share: Array, index: NDArray[np.int64]) -> Array:
        """Total attention to each row of the table: (heads, queries, rows).

        Summing by row takes each vector once, not once for each query and key.
        """
        heads, queries, _ = share.shape
        count = 2 * self.clip + 1
        first = np.arange(heads * queries).reshape(heads, queries, 1) * count
        total = np.bincount(
            (first + index).ravel(), weights=share.ravel(), minlength=heads * queries * count
        )
        return np.asarray(total, dtype=np.float64).reshape(heads, queries, count)
