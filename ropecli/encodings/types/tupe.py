"""Scores of tokens and of positions by separate projections, and a bias for each distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array, as_positions
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag, relative, rows, table_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Tupe(Encoding):
    """(q_m . k_n + p_m U_q . p_n U_k) / sqrt(2d) + b_(n-m) (Ke et al. 2021, arXiv:2006.15595)."""

    name: ClassVar[str] = "tupe"
    equation: ClassVar[str] = "9"
    default_theory: ClassVar[Theory] = Theory()

    length: int = 512  #: Positions that the table has, from 0.
    untie_cls: bool = True  #: Position 0 is [CLS]: theta1 and theta2 replace the term of positions.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, U_q, U_k, the table, b of n - m = 1 - length ... length - 1, the thetas."""
        length = rows("length", options.get("length", cls.length))
        untied = flag("untie_cls", options.get("untie_cls", cls.untie_cls))
        shapes = projections(sizes)
        theta = (sizes.heads,)
        return (
            shapes
            | {"positions": (length, sizes.model_dim)}
            | {"position_query": shapes["query"], "position_key": shapes["key"]}
            | {"bias": (2 * length - 1, sizes.heads)}
            | ({"theta1": theta, "theta2": theta} if untied else {})
        )

    def code(self, positions: Any) -> Array:
        """p of each position: (positions, model_dim)."""
        return self._rows("positions", as_positions(positions).ravel())

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        scale = float(self._scale / np.sqrt(2))
        query = self._rows("query_positions", m) @ self.weights["position_query"]
        place = self._dots(query, self._rows("key_positions", n), "position_key") * scale
        place += self.weights["bias"].T[:, relative(m, n) + self.length - 1]
        if self.untie_cls:  # the query's theta1 goes before the key's theta2
            place[:, :, n == 0] = self.weights["theta2"][:, None, None]
            place[:, m == 0, :] = self.weights["theta1"][:, None, None]
        place += dots(self._queries(x_query), self._keys(x_key)) * scale
        return place

    def _rows(self, name: str, positions: Array) -> Array:
        return self.weights["positions"][table_rows(name, positions, self.length)]
