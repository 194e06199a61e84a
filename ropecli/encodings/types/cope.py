"""CoPE: positions are counted by gates that the content opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag
from ropecli.numbers import at_least


@dataclass(frozen=True, kw_only=True, eq=False)
class Cope(Encoding):
    """(q_m . k_n + q_m . e[p_mn]) / sqrt(d), p_mn = sum of g_mt over n <= t <= m (2405.18719).

    g_mt = sigmoid(q_m . k_t), p is clamped to p_max - 1, and e between two whole positions is
    interpolated. The order of the positions is all that counts, not their distance; only the keys
    given are counted. For a key after its query, which a causal mask removes, the sum is empty and
    p is 0.
    """

    name: ClassVar[str] = "cope"
    depends_on_other_keys: ClassVar[bool] = True
    equation: ClassVar[str] = "CoPE section 4"
    of_causal_models: ClassVar[bool] = True
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=True, decaying=None, linear_shift=None
    )

    p_max: int = 64  #: Rows of the table e.
    as_listed: bool = False  #: As the paper's listing: g of q.k / sqrt(d), and q.e not scaled.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, W_v, and the table e, which the heads share."""
        rows = at_least("p_max", options.get("p_max", cls.p_max), 1)
        return projections(sizes) | {"position": (rows, sizes.head_dim)}

    def __post_init__(self) -> None:
        """Check the option that `shapes` does not."""
        flag("as_listed", self.as_listed)

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        q = self._queries(x_query)
        content = dots(q, self._keys(x_key))
        table = np.broadcast_to(self.weights["position"], (len(q), *self.weights["position"].shape))
        by_row = dots(q, np.ascontiguousarray(table))
        if self.as_listed:
            content *= self._scale
        position = np.minimum(_contextual_positions(content, m, n), self.p_max - 1)
        low = np.floor(position).astype(np.intp)
        high = np.ceil(position).astype(np.intp)
        share = position - low
        logits = np.take_along_axis(by_row, low, 2) * (1 - share)
        logits += np.take_along_axis(by_row, high, 2) * share
        return content + logits if self.as_listed else (content + logits) * self._scale


def _contextual_positions(logits: Array, m: Array, n: Array) -> Array:
    """p_mn: gates of the keys from n to m; those after m are shut before anything is summed."""
    order = np.argsort(n, kind="stable")
    after = n[order] > m[:, None]
    gates = np.where(after, 0.0, (1 + np.tanh(logits[..., order] / 2)) / 2)
    from_end = np.cumsum(gates[..., ::-1], axis=-1)[..., ::-1]
    return np.take(from_end, np.searchsorted(n[order], n), axis=-1)
