"""Encodings that the implementations mean to be, each a function that makes the Rotary."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from implementations.plain import mixed_frequencies

from ropecli import Rotary, rope

DIM = 64
ORIGINAL = 512  #: Original context of the implementations whose table depends on the length.
LONGEST = 2048  #: Positions that the implementations with a fixed cache admit.


def scaling(rope_type: str, **parameters: Any) -> partial[Rotary]:
    given: dict[str, Any] = {"head_dim": DIM, "layout": "half"} | parameters
    return partial(rope, rope_type, **given)


INTERLEAVED = partial(Rotary, head_dim=DIM)
HALF = partial(Rotary, head_dim=DIM, layout="half")
REVERSED = partial(HALF, direction="reversed")
HALF_1M = partial(HALF, base=1_000_000.0)
INTERLEAVED_500K = partial(INTERLEAVED, base=500_000.0)

PARTIAL = partial(HALF, rotary_dim=16)
PARTIAL_INTERLEAVED = partial(INTERLEAVED, rotary_dim=16)
TRAILING = partial(INTERLEAVED, rotary_dim=16, rotary_offset=48)
MIDDLE = partial(INTERLEAVED, rotary_dim=32, rotary_offset=8)
MIRRORED = partial(HALF, pairs_in=np.stack([np.arange(32), 63 - np.arange(32)], axis=1))
REORDERED = partial(INTERLEAVED, pairs_out=np.arange(DIM).reshape(2, 32).T)

PROPORTIONAL = scaling("proportional", rope_theta=1_000_000.0, partial_rotary_factor=0.25)
LINEAR = scaling("linear", factor=8.0)
LINEAR_1M = partial(LINEAR, rope_theta=1_000_000.0)
NTK = scaling("ntk", factor=4.0)
LLAMA3 = scaling(
    "llama3", rope_theta=500_000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
    original_max_position_embeddings=8192,
)  # fmt: skip
YARN = scaling("yarn", factor=16.0, original_max_position_embeddings=4096)
YARN_UNIT = partial(YARN, attention_factor=1.0)
YARN_EQUAL_MSCALES = partial(YARN, mscale=1.0, mscale_all_dim=1.0)
YARN_PARTIAL = partial(YARN, rotary_dim=32)
GPT_OSS = partial(YARN, rope_theta=150_000.0, factor=32.0, truncate=False)
DEEPSEEK = scaling(
    "deepseek_yarn", layout="interleaved", factor=40.0, original_max_position_embeddings=4096,
    mscale=0.707, mscale_all_dim=0.707,
)  # fmt: skip

MROPE = partial(HALF_1M, axis=np.repeat([0, 1, 2], [8, 12, 12]))
#: Sections (12, 10, 10): the axes take turns over 30 pairs, and time has the last two.
MROPE_TURNS = partial(HALF_1M, axis=np.array([0, 1, 2] * 10 + [0, 0]))
AXIAL = scaling("axial", axes=2)
MIXED = partial(Rotary.from_inv_freq, mixed_frequencies(DIM, 0.7))

DYNAMIC = scaling("dynamic", factor=4.0, max_position_embeddings=ORIGINAL)
LONGROPE = scaling(
    "longrope", short_factor=[1.0] * 32, long_factor=np.linspace(1.0, 32.0, 32).tolist(),
    original_max_position_embeddings=ORIGINAL, factor=4.0,
)  # fmt: skip


def dynamic_at(length: int) -> Rotary:
    return DYNAMIC(sequence_length=length)


def longrope_at(length: int) -> Rotary:
    return LONGROPE(sequence_length=length)
