"""Time and memory of linear attention, and of softmax attention beside it, as N grows."""

from __future__ import annotations

import contextlib
import math
import time
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ropecli.analyses.linear import checked, spread_rows
from ropecli.analyses.linear_forms import FORMS
from ropecli.numbers import length

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ropecli.analyses.feature_maps import FeatureMap
    from ropecli.analyses.linear_forms import Form, Ready
    from ropecli.rotary.rotary import Rotary

    Array = NDArray[np.float64]

Result = TypeVar("Result")

SHORTEST = 64  #: Tokens of the first measurement.
MOST_WEIGHTS = 2**24  #: Weights in memory together, 134 MB: for more tokens fewer rows are taken.
RUNS = 7  #: Of which the fastest counts.
ENOUGH = 0.2  #: Seconds after which the fastest so far counts.


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one form of attention takes, a value for each number of tokens."""

    form: str  #: One of `FORMS`.
    sequence_length: tuple[int, ...]  #: Tokens.
    rows: tuple[int, ...]  #: Query rows that were computed.
    seconds: tuple[float, ...]  #: Of all rows, on the clock.
    peak_bytes: tuple[int, ...]  #: For all rows, beside q, k and v; the output counts.

    @property
    def reckoned(self) -> tuple[bool, ...]:
        """Where only some rows were computed, and the others taken to be like them."""
        return tuple(r < n for r, n in zip(self.rows, self.sequence_length, strict=True))


@dataclass(frozen=True, eq=False)
class _Work:
    """One form on some tokens."""

    form: Form
    q: Array
    k: Array
    v: Array
    rope: Rotary
    feature_map: str | FeatureMap

    def prepare(self) -> Ready:
        return self.form.prepare(self.q, self.k, self.rope, self.feature_map)

    def finish(self, ready: Ready, rows: NDArray[np.int64]) -> Array:
        return self.form.finish(ready, self.v, rows)


def linear_cost(
    q: Any, k: Any, v: Any, rope: Rotary, *, feature_map: str | FeatureMap = "elu", rows: int = 256
) -> tuple[Cost, ...]:
    """Measure each form on the first 64, 128, 256, ... and on all tokens, at 0, 1, 2, ...

    A form that has N x N weights is measured on some rows, and its time and memory are reckoned
    for N of them. Kernels are compiled before the clock starts.

    Args:
        q: Queries, (tokens, head_dim), floats.
        k: Keys, of the same shape.
        v: Values, (tokens, values).
        rope: What rotates queries and keys.
        feature_map: As `linear` takes it.
        rows: Rows of N x N weights to compute at most, evenly spread.

    Raises:
        ArgumentError: A shape or a value that is not allowed.
        ArgumentTypeError: A value of the wrong type.
    """
    arrays = checked(q, k, v, rope)
    lengths = doubling(len(arrays[0]))
    most = length("rows", rows)
    return tuple(_cost(name, arrays, lengths, rope, feature_map, most) for name in FORMS)


def _cost(
    name: str,
    arrays: tuple[Array, Array, Array],
    lengths: tuple[int, ...],
    rope: Rotary,
    feature_map: str | FeatureMap,
    most: int,
) -> Cost:
    q, k, v = arrays
    work = [_Work(FORMS[name], q[:n], k[:n], v[:n], rope, feature_map) for n in lengths]
    # Small and large work have a kernel each, which is compiled when it is first called.
    for each in (work[0], work[-1]):
        each.finish(each.prepare(), spread_rows(len(each.v), 1))
    counts, seconds, sizes = zip(*(_measured(each, most) for each in work), strict=True)
    return Cost(form=name, sequence_length=lengths, rows=counts, seconds=seconds, peak_bytes=sizes)


def doubling(tokens: int) -> tuple[int, ...]:
    """64, 128, 256, ... below so many tokens, and that many."""
    steps = (SHORTEST * 2**i for i in range(tokens.bit_length()))
    return (*(step for step in steps if step < tokens), tokens)


def _measured(work: _Work, most: int) -> tuple[int, float, int]:
    """Rows that were computed, and the seconds and bytes of all rows."""
    tokens = len(work.v)
    rows = np.arange(tokens)
    if work.form.by_row:
        rows = spread_rows(tokens, min(most, max(MOST_WEIGHTS // tokens, 1)))
    share = tokens / len(rows)
    with _tracing():
        ready, kept, at_first = _traced(work.prepare)
        _, _, then = _traced(lambda: work.finish(ready, rows))
    # The rows left out would have held N weights each, and an output.
    then += (tokens - len(rows)) * (tokens + work.v.shape[1]) * work.v.itemsize
    seconds = _seconds(work.prepare) + share * _seconds(lambda: work.finish(ready, rows))
    return len(rows), seconds, max(at_first, kept + then)


def _seconds(work: Callable[[], object]) -> float:
    """The fastest of some runs."""
    best, spent = math.inf, 0.0
    for _ in range(RUNS):
        begin = time.perf_counter()
        work()
        took = time.perf_counter() - begin
        best, spent = min(best, took), spent + took
        if spent > ENOUGH:
            break
    return best


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Count what is allocated, and leave a count that somebody else has begun."""
    begun = tracemalloc.is_tracing()
    if not begun:
        tracemalloc.start()
    try:
        yield
    finally:
        if not begun:
            tracemalloc.stop()


def _traced(work: Callable[[], Result]) -> tuple[Result, int, int]:
    """What the work gives, the bytes that it keeps, and the most that it had."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    result = work()
    after, peak = tracemalloc.get_traced_memory()
    return result, after - before, peak - before
