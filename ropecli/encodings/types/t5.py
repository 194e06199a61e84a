"""A learned bias for each bucket of distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag, relative
from ropecli.encodings.t5_buckets import buckets, check_buckets

if TYPE_CHECKING:
    from ropecli.encodings.encoding import Array


@dataclass(frozen=True, kw_only=True, eq=False)
class T5(Encoding):
    """q_m . k_n + b_bucket(n-m), not divided by sqrt(d) (Raffel et al. 2020, arXiv:1910.10683)."""

    name: ClassVar[str] = "t5"
    equation: ClassVar[str] = "8"
    default_theory: ClassVar[Theory] = Theory(
        translation_invariant=True,
        symmetric=False,
        bounded=False,
        decaying=False,
        linear_shift=False,
    )

    num_buckets: int = 32  #: Of both directions together.
    max_distance: int = 128  #: Where buckets stop growing.
    bidirectional: bool = True  #: As in the encoder; otherwise later keys share bucket 0.

    @classmethod
    def shapes(cls, sizes: Sizes, **options: Any) -> dict[str, tuple[int, ...]]:
        """W_q, W_k, and the biases."""
        count = check_buckets(
            options.get("num_buckets", cls.num_buckets),
            options.get("max_distance", cls.max_distance),
            flag("bidirectional", options.get("bidirectional", cls.bidirectional)),
        )
        return projections(sizes) | {"bias": (count, sizes.heads)}

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        bucket = buckets(
            relative(m, n),
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )
        bias = self.weights["bias"].T[:, bucket]
        return dots(self._queries(x_query), self._keys(x_key)) + bias
