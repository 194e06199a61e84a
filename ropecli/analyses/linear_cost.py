"""Time and memory of linear (RoFormer Eq. 19) and softmax attention (Eq. 2) as N grows."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.feature_maps import FeatureMap, features
from ropecli.analyses.linear import Linear, check_inputs, linear, rotate_both, sums
from ropecli.arrays import Array, evenly_spread
from ropecli.numbers import length
from ropecli.results import Drawable
from ropecli.rotary.rotary import Rotary

Rows = NDArray[np.int64]

T = TypeVar("T")

SHORTEST = 64  #: Tokens of the first measurement.
MOST_WEIGHTS = 2**24  #: Weights in memory together, 134 MB: for more tokens fewer rows are taken.
RUNS = 7  #: The median of these runs counts.
ENOUGH = 0.2  #: Seconds after which no further run begins, once there are three.


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Time and memory of one form of attention, a value for each number of tokens."""

    form: str  #: One of `FORMS`.
    sequence_length: tuple[int, ...]  #: Numbers of tokens N.
    rows: tuple[int, ...]  #: Query rows that were computed.
    seconds: tuple[float, ...]  #: Wall time of all N rows, the median of several runs.
    fastest: tuple[float, ...]  #: Wall time of the fastest run.
    slowest: tuple[float, ...]  #: Wall time of the slowest run.
    peak_bytes: tuple[int, ...]  #: Memory of all N rows with their output, without q, k and v.

    @property
    def extrapolated(self) -> tuple[bool, ...]:
        """True where only some rows were computed, and stand for all of them."""
        return tuple(r < n for r, n in zip(self.rows, self.sequence_length, strict=True))


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearCost(Drawable, view="linear"):
    """Linear attention with rotated features, and the cost of four forms of attention."""

    attention: Linear  #: On all tokens.
    rope: Rotary  #: The encoding.
    costs: tuple[Cost, ...]  #: One for each form.


@dataclass(frozen=True, kw_only=True, eq=False)
class Ready:
    """Queries and keys of a form, (tokens, head_dim)."""

    rotated: tuple[Array, Array]
    unrotated: tuple[Array, Array]
    scale: float = 1.0  #: Factor of a score.


@dataclass(frozen=True, kw_only=True)
class Form:
    """One way to compute attention: a step for all tokens, then one for each row."""

    prepare: Callable[[Array, Array, Rotary, str | FeatureMap], Ready]
    finish: Callable[[Ready, Array, Rows], Array]  #: Gives the outputs of rows.
    by_row: bool  #: Some rows can be computed without the others.


def _features(q: Array, k: Array, rope: Rotary, feature_map: str | FeatureMap) -> Ready:
    phi = features(feature_map, q, k)
    return Ready(rotated=rotate_both(*phi, rope), unrotated=phi)


def _vectors(q: Array, k: Array, rope: Rotary, _: object) -> Ready:
    scale = rope.softmax_factor / math.sqrt(rope.head_dim)
    return Ready(rotated=rotate_both(q, k, rope), unrotated=(q, k), scale=scale)


def _by_sums(ready: Ready, v: Array, _: Rows, *, causal: bool = False) -> Array:
    """Compute Eq. 19 by sums over keys."""
    top = sums(*ready.rotated, v, causal=causal)
    below = sums(*ready.unrotated, np.ones((len(v), 1)), causal=causal)
    return _divide(top, below)


def _by_prefix_sums(ready: Ready, v: Array, rows: Rows) -> Array:
    """Compute Eq. 19 where query m sees keys 0 ... m."""
    return _by_sums(ready, v, rows, causal=True)


def _by_weights(ready: Ready, v: Array, rows: Rows) -> Array:
    """Compute Eq. 19 weight by weight."""
    weights = ready.unrotated[0][rows] @ ready.unrotated[1].T
    below = weights.sum(axis=1, keepdims=True)
    np.matmul(ready.rotated[0][rows], ready.rotated[1].T, out=weights)
    return _divide(weights @ v, below)


def _by_softmax(ready: Ready, v: Array, rows: Rows) -> Array:
    """Compute softmax attention of rotated queries and keys (Eq. 2)."""
    weights = ready.rotated[0][rows] @ ready.rotated[1].T
    weights *= ready.scale
    weights -= weights.max(axis=1, keepdims=True)
    np.exp(weights, out=weights)
    return _divide(weights @ v, weights.sum(axis=1, keepdims=True))


def _divide(top: Array, below: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):  # relu: a row may have no denominator
        top /= below
    return top


#: Forms of attention by name.
FORMS = {
    "linear": Form(prepare=_features, finish=_by_sums, by_row=False),
    "linear_causal": Form(prepare=_features, finish=_by_prefix_sums, by_row=False),
    "linear_quadratic": Form(prepare=_features, finish=_by_weights, by_row=True),
    "softmax": Form(prepare=_vectors, finish=_by_softmax, by_row=True),
}


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
) -> LinearCost:
    """Run `linear`, and measure each form on the first 64, 128, 256, ... and on all tokens.

    A form that has N x N weights is measured on some rows, and its time and memory extrapolated
    to N of them. Kernels are compiled before the clock starts.

    Args:
        q: Queries, (tokens, head_dim), floats, at positions 0, 1, 2, ...
        k: Keys, of the same shape.
        v: Values, (tokens, values).
        rope: The rotation of queries and keys.
        feature_map: As `linear` takes it.
        rows: Rows of N x N weights to compute at most, evenly spread.

    Raises:
        ArgumentError: An unusable shape or value.
        ArgumentTypeError: A value of the wrong type.
    """
    most = length("rows", rows)
    attention = linear(q, k, v, rope, feature_map=feature_map, rows=rows)
    arrays = check_inputs(q, k, v, rope)
    lengths = doubling(len(arrays[0]))
    costs = tuple(_cost(name, arrays, lengths, rope, feature_map, most) for name in FORMS)
    return LinearCost(attention=attention, rope=rope, costs=costs)


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
        each.finish(each.prepare(), evenly_spread(len(each.v), 1))
    counts, runs, sizes = zip(*(_measure(each, most) for each in work), strict=True)
    return Cost(
        form=name,
        sequence_length=lengths,
        rows=counts,
        seconds=tuple(map(statistics.median, runs)),
        fastest=tuple(map(min, runs)),
        slowest=tuple(map(max, runs)),
        peak_bytes=sizes,
    )


def doubling(tokens: int) -> tuple[int, ...]:
    """Return 64, 128, 256, ... below the number of tokens, and that number."""
    steps = (SHORTEST * 2**i for i in range(tokens.bit_length()))
    return (*(step for step in steps if step < tokens), tokens)


def _measure(work: _Work, most: int) -> tuple[int, list[float], int]:
    """Return how many rows were computed, the seconds of runs over all rows, and their bytes."""
    tokens = len(work.v)
    rows = np.arange(tokens)
    if work.form.by_row:
        rows = evenly_spread(tokens, min(most, max(MOST_WEIGHTS // tokens, 1)))
    share = tokens / len(rows)
    with _tracing():
        ready, kept, peak_before = _trace(work.prepare)
        _, _, peak = _trace(lambda: work.finish(ready, rows))
    # Each row that was left out has N weights and an output.
    peak += (tokens - len(rows)) * (tokens + work.v.shape[1]) * work.v.itemsize
    before = statistics.median(_seconds(work.prepare))
    seconds = [before + share * run for run in _seconds(lambda: work.finish(ready, rows))]
    return len(rows), seconds, max(peak_before, kept + peak)


def _seconds(work: Callable[[], object]) -> list[float]:
    """Return the seconds of some runs."""
    runs: list[float] = []
    while len(runs) < RUNS and (len(runs) < 3 or sum(runs) <= ENOUGH):
        begin = time.perf_counter()
        work()
        runs.append(time.perf_counter() - begin)
    return runs


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Trace allocations, and leave a trace that somebody else has begun."""
    begun = tracemalloc.is_tracing()
    if not begun:
        tracemalloc.start()
    try:
        yield
    finally:
        if not begun:
            tracemalloc.stop()


def _trace(work: Callable[[], T]) -> tuple[T, int, int]:
    """Return the result of the work, the bytes that it keeps, and its peak."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    result = work()
    after, peak = tracemalloc.get_traced_memory()
    return result, after - before, peak - before
