"""State kept between calls: tables that do not come back, keys and rows that a cache lacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from implementations.case import wrong
from implementations.intended import (
    DIM,
    DYNAMIC,
    LINEAR,
    LONGEST,
    LONGROPE,
    ORIGINAL,
    dynamic_at,
    longrope_at,
)
from implementations.plain import Array, align, angles, half, inv_freq, turn
from implementations.right import DynamicNtk, LongRope, WithBase, length_of

stateful = partial(wrong, kind="class", told=False)
by_length = partial(wrong, kind="class", more={"original_context_length": ORIGINAL})
dynamic = partial(by_length, intended=DYNAMIC, at_length=dynamic_at)
longrope = partial(by_length, intended=LONGROPE, at_length=longrope_at)


# Tables that follow the length of the sequence, and do not come back from it.


@dynamic(
    "stale dynamic NTK", "huggingface/transformers#46624", "long, short, long", "long", told=False
)
class StaleDynamicNtk(DynamicNtk):
    """The base grows with a long sequence, and a short one does not bring it back."""

    longest = 0

    def theta(self, length: int) -> Array:
        self.longest = max(self.longest, length)
        return super().theta(self.longest)


@dynamic(
    "dynamic NTK of the first call", "huggingface/transformers#27226",
    ("long, short, long", "original length", "convention"), "length",
)  # fmt: skip
class FirstDynamicNtk(DynamicNtk):
    """The first call decides the base for good."""

    known: Array | None = None

    def theta(self, length: int) -> Array:
        if self.known is None:
            self.known = super().theta(length)
        return self.known


@dynamic("longest row of the batch", "QwenLM/Qwen#401", "batched positions", "batch", told=False)
class LongestOfBatch(DynamicNtk):
    """One long row changes the base of all."""

    def __call__(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, self.theta(length_of(positions)))


@dynamic(
    "dynamic NTK below the original", "vllm-project/vllm#52665",
    ("rotation", "original length"), "NaN", told=False,
)  # fmt: skip
class DynamicNtkBelow(DynamicNtk):
    """The stretch is taken below the original length too, where it shrinks and turns negative."""

    @np.errstate(invalid="ignore")
    def theta(self, length: int) -> Array:
        stretch = np.float64(4.0 * length / ORIGINAL - 3.0)
        return inv_freq(DIM, self.base * stretch ** (DIM / (DIM - 2)))


@longrope("LongRoPE one early", "unslothai/unsloth#10681", "original length", "original")
class LongRopeOneEarly(LongRope):
    """< where <= belongs: long factors at exactly the original length."""

    def theta(self, length: int) -> Array:
        return super().theta(length + 1)


@longrope("LongRoPE one late", "lablup/mlxcel#1358", "original length", "original")
class LongRopeOneLate(LongRope):
    """The length is that of the cache, without the token that is added."""

    def theta(self, length: int) -> Array:
        return super().theta(length - 1)


@longrope("LongRoPE stays long", "huggingface/transformers#33129", "long, short, long", "long")
class LongRopeStaysLong(LongRope):
    """Long factors from the first long sequence on."""

    was_long = False

    def theta(self, length: int) -> Array:
        self.was_long |= length > ORIGINAL
        return super().theta(ORIGINAL + 1 if self.was_long else length)


# Caches with too few keys.


@stateful("shared by size", "ml-explore/mlx#561", "two instances", "instance")
class SharedBySize(WithBase):
    """One cache for all instances, under the size alone: the first base wins."""

    shared: ClassVar[dict[int, Array]] = {}

    def __call__(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, self.shared.setdefault(DIM, inv_freq(DIM, self.base)))


@stateful(
    "cached by length", "lucidrains/rotary-embedding-torch#11",
    ("offset positions", "gaps in positions", "positions backwards"), "cache",
)  # fmt: skip
class CachedByLength(WithBase):
    """The tables of the first positions serve every sequence of that length."""

    def __init__(self, base: float = 10_000.0) -> None:
        super().__init__(base)
        self.cache: dict[Any, Array] = {}

    def key(self, m: Array) -> Any:
        return m.shape

    def __call__(self, x: Array, positions: Array) -> Array:
        made = angles(positions, inv_freq(DIM, self.base))
        angle = self.cache.setdefault(self.key(np.asarray(positions)), made)
        return half(x, np.cos(angle), np.sin(angle))


@stateful(
    "cached by first and last position", "lucidrains/rotary-embedding-torch#11",
    ("gaps in positions", "packed sequences", "repeated positions"), "cache",
)  # fmt: skip
class CachedByEnds(CachedByLength):
    """The same, but first and last position count: those between may differ."""

    def key(self, m: Array) -> Any:
        return (m.shape, *m[..., 0].ravel().tolist(), *m[..., -1].ravel().tolist())


@stateful(
    "cached in the first dtype", "huggingface/transformers#25306", ("precision", "same twice"),
    "dtype",
)  # fmt: skip
class CachedInFirstDtype(WithBase):
    """Tables are kept in the dtype of the first data: bfloat16 spoils the float32 that follows."""

    dtype: Any = None

    def __call__(self, x: Array, positions: Array) -> Array:
        self.dtype = self.dtype or x.dtype
        angle = angles(positions, inv_freq(DIM, self.base))
        cos, sin = (t.astype(self.dtype).astype(np.float64) for t in (np.cos(angle), np.sin(angle)))
        return half(x, cos, sin)


# Caches with too few rows.

beyond_cache = partial(
    stateful,
    laws=("beyond the cache", "long positions"),
    says=f"{LONGEST}",
    more={"context_length": 2 * LONGEST},
)


def cache_of_rows(beyond: Callable[[Array, Array], Array]) -> type:
    """Tables of LONGEST positions; beyond makes what comes back of x and the last row's."""

    class FixedCache(WithBase):
        def __call__(self, x: Array, positions: Array) -> Array:
            m = np.asarray(positions, np.float64)
            y = turn(x, np.minimum(m, LONGEST - 1), inv_freq(DIM, self.base))
            return np.where(align(x, (m >= LONGEST)[..., None]), beyond(x, y), y)

    return FixedCache


beyond_cache("clamps", "vllm-project/vllm#55910")(cache_of_rows(lambda x, y: y))
beyond_cache("zero rows", "pegainfer-project/pegainfer#220")(
    cache_of_rows(lambda x, y: np.zeros_like(x))
)
beyond_cache("rows left alone", "microsoft/onnxruntime#28205")(cache_of_rows(lambda x, y: x))
# Beyond the cache lies what comes next in memory.
beyond_cache("garbage rows", "vllm-project/vllm-ascend#1266")(
    cache_of_rows(lambda x, y: np.asarray(-0.375, x.dtype) * x)
)


@beyond_cache("wraps around", "pegainfer-project/pegainfer#253")
class WrapsAround(WithBase):
    """A ring: position LONGEST is position 0 again."""

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.fmod(np.asarray(positions, np.float64), LONGEST)
        return turn(x, m, inv_freq(DIM, self.base))


@stateful(
    "cache sized by rows", "NVIDIA-NeMo/Automodel#2377",
    ("offset positions", "gaps in positions", "token by token"), "cache",
)  # fmt: skip
class SizedByRows(WithBase):
    """The cache has as many rows as x: positions that start later are clamped."""

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.minimum(np.asarray(positions, np.float64), x.shape[-2] - 1)
        return turn(x, m, inv_freq(DIM, self.base))


# Calls that leave something behind.


@stateful(
    "counts on", "lucidrains/rotary-embedding-torch#27", ("same twice", "token by token"), "call"
)
class CountsOn(WithBase):
    """Each call goes on where the one before it ended."""

    past = 0

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.asarray(positions, np.float64) + self.past
        self.past += x.shape[-2]
        return turn(x, m, inv_freq(DIM, self.base))


@stateful("divides again", "huggingface/transformers#27033", "same twice", "call", LINEAR)
class DividesAgain(WithBase):
    """Linear scaling in place: frequencies are divided at every call."""

    theta: Array | None = None

    def __call__(self, x: Array, positions: Array) -> Array:
        self.theta = (inv_freq(DIM, self.base) if self.theta is None else self.theta) / 8
        return turn(x, positions, self.theta)
