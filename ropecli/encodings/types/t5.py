"""T5: a learned bias for each bucket of distance."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.encodings.encoding import Encoding, Sizes, Theory, dots, projections
from ropecli.encodings.options import flag, relative
from ropecli.errors import ArgumentError
from ropecli.names import quote
from ropecli.numbers import integer

LARGEST_COUNT = 1024  #: Thirty times T5's; the powers below would get long.
LARGEST_DISTANCE = 2**31


@dataclass(frozen=True, kw_only=True, eq=False)
class T5(Encoding):
    """q_m . k_n + b_bucket(n-m), not divided by sqrt(d) (Raffel et al. 2020, arXiv:1910.10683)."""

    name: ClassVar[str] = "t5"
    equation: ClassVar[str] = "8"
    default_theory: ClassVar[Theory] = Theory(translation_invariant=True)

    num_buckets: int = 32  #: Buckets of both directions together.
    max_distance: int = 128  #: Distance from which all share the last bucket.
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

    @property
    def causal(self) -> bool:
        """True for the bias of a decoder."""
        return not self.bidirectional

    def _scores(self, x_query: Array, x_key: Array, m: Array, n: Array) -> Array:
        bucket = buckets(
            relative(m, n),
            num_buckets=self.num_buckets,
            max_distance=self.max_distance,
            bidirectional=self.bidirectional,
        )
        bias = self.weights["bias"].T[:, bucket]
        return dots(self._queries(x_query), self._keys(x_key)) + bias


def buckets(
    offsets: NDArray[np.int64],
    *,
    num_buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> NDArray[np.int64]:
    """The bucket of each distance (Raffel et al. 2020, arXiv:1910.10683), exact.

    Half of a direction's buckets hold one distance each. The others grow logarithmically up to
    max_distance, and the last of them holds everything beyond.
    """
    check_buckets(num_buckets, max_distance, bidirectional)
    per_side = num_buckets // 2 if bidirectional else num_buckets
    distance = np.abs(offsets) if bidirectional else np.maximum(-offsets, 0)
    bucket = np.searchsorted(_first_distances(per_side, max_distance), distance, side="right") - 1
    return bucket + (per_side * (offsets > 0) if bidirectional else 0)


def check_buckets(num_buckets: object, max_distance: object, bidirectional: bool) -> int:
    """Check that the distances fit into the buckets, and return their number."""
    count, furthest = integer("num_buckets", num_buckets), integer("max_distance", max_distance)
    least, kind = (4, "an even number") if bidirectional else (2, "a number")
    if not least <= count <= LARGEST_COUNT or (bidirectional and count % 2):
        raise ArgumentError(
            f"num_buckets must be {kind} from {least} to {LARGEST_COUNT}, got {quote(count)}"
        )
    exact = count // (4 if bidirectional else 2)
    if not exact < furthest <= LARGEST_DISTANCE:
        raise ArgumentError(f"max_distance must be from {exact + 1} to 2^31, got {quote(furthest)}")
    return count


@functools.lru_cache(maxsize=64)
def _first_distances(each: int, max_distance: int) -> NDArray[np.int64]:
    """The least distance of each bucket of a direction.

    The paper's floor(log(n/e) / log(D/e) * l), e exact and l logarithmic buckets, is at least k
    where n^l e^k >= D^k e^l: in integers, since a rounded logarithm may miss a whole power.
    """
    exact = each // 2
    steps = each - exact
    first = list(range(exact + 1))
    for k in range(1, steps):
        low, high = exact, max_distance
        bound = max_distance**k * exact**steps
        while low < high:
            n = (low + high) // 2
            if n**steps * exact**k >= bound:
                high = n
            else:
                low = n + 1
        first.append(low)
    return np.array(first, dtype=np.int64)
