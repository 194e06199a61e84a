"""Caches with too few keys or too few rows, and calls that leave something behind."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.intended import LONGEST
from implementations.plain import Array, angles, beside, half, inv_freq, turn


class SharedBySize:
    """One cache for all instances, under the size alone: the first base wins."""

    shared: ClassVar[dict[int, Array]] = {}

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def __call__(self, x: Array, positions: Array) -> Array:
        d = x.shape[-1]
        theta = self.shared.setdefault(d, inv_freq(d, self.base))
        return turn(x, positions, theta)


class CachedByLength:
    """The tables of the first positions serve every sequence of that length."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.cache: dict[Any, Array] = {}

    def __call__(self, x: Array, positions: Array) -> Array:
        key = np.shape(positions)
        angle = self.cache.setdefault(key, angles(positions, inv_freq(x.shape[-1], self.base)))
        return half(x, np.cos(angle), np.sin(angle))


class CachedByEnds(CachedByLength):
    """The same, but first and last position count: those between may differ."""

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.asarray(positions)
        key = (m.shape, *m[..., 0].ravel().tolist(), *m[..., -1].ravel().tolist())
        angle = self.cache.setdefault(key, angles(m, inv_freq(x.shape[-1], self.base)))
        return half(x, np.cos(angle), np.sin(angle))


class CachedInFirstDtype:
    """Tables are kept in the dtype of the first data: bfloat16 spoils the float32 that follows."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.dtype: Any = None

    def __call__(self, x: Array, positions: Array) -> Array:
        self.dtype = self.dtype or x.dtype
        angle = angles(positions, inv_freq(x.shape[-1], self.base))
        cos, sin = (t.astype(self.dtype).astype(np.float64) for t in (np.cos(angle), np.sin(angle)))
        return half(x, cos, sin)


class FixedCache:
    """Tables of LONGEST positions; subclasses say what lies beyond."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def rows(self, x: Array, positions: Array) -> tuple[Array, Array, Array]:
        m = np.asarray(positions, np.float64)
        angle = angles(np.minimum(m, LONGEST - 1), inv_freq(x.shape[-1], self.base))
        beyond = beside(x, (m >= LONGEST)[..., None])
        return np.cos(angle), np.sin(angle), beyond


class Clamps(FixedCache):
    """The last row serves every position beyond it."""

    def __call__(self, x: Array, positions: Array) -> Array:
        cos, sin, _ = self.rows(x, positions)
        return half(x, cos, sin)


class ZeroRows(FixedCache):
    """Beyond the cache cos and sin are 0."""

    def __call__(self, x: Array, positions: Array) -> Array:
        cos, sin, beyond = self.rows(x, positions)
        return np.where(beyond, np.zeros((), x.dtype), half(x, cos, sin))


class LeavesRows(FixedCache):
    """Beyond the cache rows come back as they were."""

    def __call__(self, x: Array, positions: Array) -> Array:
        cos, sin, beyond = self.rows(x, positions)
        return np.where(beyond, x, half(x, cos, sin))


class ReadsGarbage(FixedCache):
    """Beyond the cache lies what comes next in memory."""

    def __call__(self, x: Array, positions: Array) -> Array:
        cos, sin, beyond = self.rows(x, positions)
        return np.where(beyond, np.asarray(-0.375, x.dtype) * x, half(x, cos, sin))


class WrapsAround(FixedCache):
    """A ring: position LONGEST is position 0 again."""

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.fmod(np.asarray(positions, np.float64), LONGEST)
        return turn(x, m, inv_freq(x.shape[-1], self.base))


class SizedByRows(FixedCache):
    """The cache has as many rows as x: positions that start later are clamped."""

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.minimum(np.asarray(positions, np.float64), x.shape[-2] - 1)
        return turn(x, m, inv_freq(x.shape[-1], self.base))


class CountsOn:
    """Each call goes on where the one before it ended."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.past = 0

    def __call__(self, x: Array, positions: Array) -> Array:
        m = np.asarray(positions, np.float64) + self.past
        self.past += x.shape[-2]
        return turn(x, m, inv_freq(x.shape[-1], self.base))


class DividesAgain:
    """Linear scaling in place: frequencies are divided at every call."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base
        self.theta: Array | None = None

    def __call__(self, x: Array, positions: Array) -> Array:
        if self.theta is None:
            self.theta = inv_freq(x.shape[-1], self.base)
        self.theta = self.theta / 8
        return turn(x, positions, self.theta)


stateful = partial(Wrong, kind="class", intended=intended.HALF, told=False)
cache_case = partial(
    stateful,
    laws=("beyond the cache", "long positions"),
    says=f"{LONGEST}",
    more={"context_length": 2 * LONGEST},
)

CASES = (
    stateful(
        name="shared by size",
        thread="ml-explore/mlx#561",
        target=SharedBySize,
        laws=("two instances",),
        says="instance",
    ),
    stateful(
        name="cached by length",
        thread="lucidrains/rotary-embedding-torch#11",
        target=CachedByLength,
        laws=("offset positions", "gaps in positions", "positions backwards"),
        says="cache",
    ),
    stateful(
        name="cached by first and last position",
        thread="lucidrains/rotary-embedding-torch#11",
        target=CachedByEnds,
        laws=("gaps in positions", "packed sequences", "repeated positions"),
        says="cache",
    ),
    stateful(
        name="cached in the first dtype",
        thread="huggingface/transformers#25306",
        target=CachedInFirstDtype,
        laws=("precision", "same twice"),
        says="dtype",
    ),
    cache_case(name="clamps", thread="vllm-project/vllm#55910", target=Clamps),
    cache_case(name="zero rows", thread="pegainfer-project/pegainfer#220", target=ZeroRows),
    cache_case(name="rows left alone", thread="microsoft/onnxruntime#28205", target=LeavesRows),
    cache_case(name="garbage rows", thread="vllm-project/vllm-ascend#1266", target=ReadsGarbage),
    cache_case(name="wraps around", thread="pegainfer-project/pegainfer#253", target=WrapsAround),
    stateful(
        name="cache sized by rows",
        thread="NVIDIA-NeMo/Automodel#2377",
        target=SizedByRows,
        laws=("offset positions", "gaps in positions", "token by token"),
        says="cache",
    ),
    stateful(
        name="counts on",
        thread="lucidrains/rotary-embedding-torch#27",
        target=CountsOn,
        laws=("same twice", "token by token"),
        says="call",
    ),
    stateful(
        name="divides again",
        thread="huggingface/transformers#27033",
        target=DividesAgain,
        intended=intended.LINEAR,
        laws=("same twice",),
        says="call",
    ),
)
