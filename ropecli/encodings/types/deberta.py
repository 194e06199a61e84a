"""Disentangled attention: content with content, content with position, position with content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag, relative, rows
from ropecli.kernels.scores import add_relative, add_relative_keys


@dataclass(frozen=True, kw_only=True, eq=False)
class Deberta(Encoding):
    """(q_m . k_n + q_m . kr_d + k_n . qr_d) / sqrt(3d) (He et al. 2021, arXiv:2006.03654).

    d = clip(m - n + k, 0, 2k - 1) counts distances; kr and qr are projections of one table.
    """

    name: ClassVar[str] = "deberta"
    equation: ClassVar[str] = "10"
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True)

    clip: int = 16  #: k: distances from -k to k - 1 have their own vectors.
    shared: bool = False  #: W_q and W_k project positions too, as in RoFormer's Eq. 10.
    as_printed: bool = False  #: DeBERTa's paper has n - m in the last term; its code has m - n.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, the table, and its projections where they are not shared."""
        clip = rows("clip", options.get("clip", cls.clip))
        flag("as_printed", options.get("as_printed", cls.as_printed))
        shapes = projections(sizes)
        table = {"positions": (2 * clip, sizes.model_dim)}
        if flag("shared", options.get("shared", cls.shared)):
            return shapes | table
        own = {"position_query": shapes["query"], "position_key": shapes["key"]}
        return shapes | table | own

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        distance = -relative(m, n)
        index = np.clip(distance + self.clip, 0, 2 * self.clip - 1)
        back = np.clip(self.clip - distance, 0, 2 * self.clip - 1) if self.as_printed else index
        q, k = self._queries(x_query), self._keys(x_key)
        out = dots(q, k)
        add_relative(q, self._project_positions("key"), index, out)
        add_relative_keys(k, self._project_positions("query"), back, out)
        return out * float(self._scale / np.sqrt(3))

    def _project_positions(self, kind: str) -> Array:
        """The table as queries or keys see it: (heads, rows, head_dim)."""
        weight = self.weights[kind if self.shared else f"position_{kind}"]
        table = self.weights["positions"]
        return self._compute(kind, np.empty(0), lambda: np.ascontiguousarray(table @ weight))
