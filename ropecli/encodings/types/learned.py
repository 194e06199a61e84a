"""A learned vector for each position, added to tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Sizes, Theory, projections
from ropecli.encodings.options import rows, table_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned(Encoding):
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d), p a table (Gehring et al. 2017)."""

    name: ClassVar[str] = "learned"
    equation: ClassVar[str] = "3"
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=False,
        symmetric=False,
        bounded=False,
        decaying=False,
        linear_shift=False,
    )

    length: int = 512  #: Positions that the table has, from 0.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, and the table."""
        length = rows("length", options.get("length", cls.length))
        return projections(sizes) | {"positions": (length, sizes.model_dim)}

    def code(self, positions: Any) -> Array:
        """p of each position: (positions, model_dim)."""
        return self._rows("positions", as_positions(positions).ravel())

    def output(
        self, attention: Array, x_key: Any, query_positions: Any, key_positions: Any
    ) -> Array:
        """o_m = sum_n a_mn W_v (x_n + p_n), since Eq. 3 adds p_n before all projections."""
        x = self._tokens("x_key", x_key) + self._rows("key_positions", as_positions(key_positions))
        return super().output(attention, x, query_positions, key_positions)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        q = self._queries(x_query + self._rows("query_positions", m))
        return self._dots(q, x_key + self._rows("key_positions", n)) * self._scale

    def _rows(self, name: str, positions: Array) -> Array:
        return self.weights["positions"][table_rows(name, positions, self.length)]
