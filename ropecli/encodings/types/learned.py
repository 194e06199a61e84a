"""A learned vector for each position, added to tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ropecli.arrays import Array
from ropecli.encodings.encoding import Additive, Sizes, Theory, projections
from ropecli.encodings.options import rows, table_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned(Additive):
    """(x_m + p_m) W_q . (x_n + p_n) W_k / sqrt(d), p a table (Gehring et al. 2017)."""

    name: ClassVar[str] = "learned"
    equation: ClassVar[str] = "3"
    default_theory: ClassVar[Theory] = Theory()

    length: int = 512  #: Positions that the table has, from 0.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, and the table."""
        length = rows("length", options.get("length", cls.length))
        return projections(sizes) | {"positions": (length, sizes.model_dim)}

    def _codes(self, name: str, positions: Array) -> Array:
        return self.weights["positions"][table_rows(name, positions, self.length)]
