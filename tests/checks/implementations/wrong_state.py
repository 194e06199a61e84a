"""Tables that follow the length of the sequence, and do not come back from it."""

from __future__ import annotations

from functools import partial

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.intended import ORIGINAL
from implementations.plain import Array, inv_freq, turn
from implementations.right_state import DynamicNtk, LongRope, length_of


class StaleDynamicNtk(DynamicNtk):
    """The base grows with a long sequence, and a short one does not bring it back."""

    longest = 0

    def theta(self, dim: int, length: int) -> Array:
        self.longest = max(self.longest, length)
        return super().theta(dim, self.longest)


class FirstDynamicNtk(DynamicNtk):
    """The first call decides the base for good."""

    known: Array | None = None

    def theta(self, dim: int, length: int) -> Array:
        if self.known is None:
            self.known = super().theta(dim, length)
        return self.known


class LongestOfBatch(DynamicNtk):
    """One long row changes the base of all."""

    def __call__(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, self.theta(x.shape[-1], length_of(positions)))


class LongRopeOneEarly(LongRope):
    """< where <= belongs: long factors at exactly the original length."""

    def theta(self, dim: int, length: int) -> Array:
        return super().theta(dim, length + 1)


class LongRopeOneLate(LongRope):
    """The length is that of the cache, without the token that is added."""

    def theta(self, dim: int, length: int) -> Array:
        return super().theta(dim, length - 1)


class LongRopeStaysLong(LongRope):
    """Long factors from the first long sequence on."""

    was_long = False

    def theta(self, dim: int, length: int) -> Array:
        self.was_long |= length > ORIGINAL
        return super().theta(dim, ORIGINAL + 1 if self.was_long else length)


class DynamicNtkBelow(DynamicNtk):
    """The stretch is taken below the original length too, where it shrinks and turns negative."""

    @np.errstate(invalid="ignore")
    def theta(self, dim: int, length: int) -> Array:
        stretch = np.float64(4.0 * length / ORIGINAL - 3.0)
        return inv_freq(dim, self.base * stretch ** (dim / (dim - 2)))


stateful = partial(Wrong, kind="class", told=False, more={"original_context_length": ORIGINAL})
dynamic_case = partial(stateful, intended=intended.DYNAMIC, at_length=intended.dynamic_at)
longrope_case = partial(
    stateful,
    intended=intended.LONGROPE,
    at_length=intended.longrope_at,
    told=True,
    laws=("original length",),
    says="original",
)

CASES = (
    dynamic_case(
        name="stale dynamic NTK",
        thread="huggingface/transformers#46624",
        target=StaleDynamicNtk,
        laws=("long, short, long",),
        says="long",
    ),
    dynamic_case(
        name="dynamic NTK of the first call",
        thread="huggingface/transformers#27226",
        target=FirstDynamicNtk,
        told=True,
        laws=("long, short, long", "original length", "convention"),
        says="length",
    ),
    dynamic_case(
        name="longest row of the batch",
        thread="QwenLM/Qwen#401",
        target=LongestOfBatch,
        laws=("batched positions",),
        says="batch",
    ),
    longrope_case(
        name="LongRoPE one early",
        thread="unslothai/unsloth#10681",
        target=LongRopeOneEarly,
    ),
    longrope_case(
        name="LongRoPE one late",
        thread="lablup/mlxcel#1358",
        target=LongRopeOneLate,
    ),
    longrope_case(
        name="LongRoPE stays long",
        thread="huggingface/transformers#33129",
        target=LongRopeStaysLong,
        laws=("long, short, long",),
        says="long",
    ),
    dynamic_case(
        name="dynamic NTK below the original",
        thread="vllm-project/vllm#52665",
        target=DynamicNtkBelow,
        laws=("rotation", "norm", "original length"),
        says="NaN",
    ),
)
