"""Other positions than those given."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.plain import Array, interleaved, inv_freq, turn
from implementations.right_state import Decoder


def rotation(x: Array, positions: Any) -> Array:
    return turn(x, positions, inv_freq(x.shape[-1]))


def ignored(x: Array, positions: Array) -> Array:
    """Row n is taken to be at position n."""
    return rotation(x, np.arange(x.shape[-2]))


def counted_from_one(x: Array, positions: Array) -> Array:
    return rotation(x, np.asarray(positions) + 1)


def twice_as_far(x: Array, positions: Array) -> Array:
    """The scale 2 for the rope type dynamic, where 1 belongs."""
    return rotation(x, np.asarray(positions) * 2)


def of_the_first_row(x: Array, positions: Array) -> Array:
    """One row of positions shared by the whole batch."""
    return rotation(x, positions if np.ndim(positions) == 1 else positions[0])


def by_column_in_a_batch(x: Array, positions: Array) -> Array:
    """In a batch, the column counts: rows with padding on the left start too late."""
    return rotation(x, positions if np.ndim(positions) == 1 else np.arange(x.shape[-2]))


def padding_counted(x: Array, positions: Array) -> Array:
    """The first position of a row, which may be padding's, and one more for each column."""
    m = np.asarray(positions, np.float64)
    return rotation(x, m[..., :1] + np.arange(m.shape[-1]))


def flattened_batch(x: Array, positions: Array) -> Array:
    """Rows of a batch count on from one another."""
    m = np.asarray(positions, np.float64)
    if m.ndim == 2:
        m = m + m.shape[1] * np.arange(len(m))[:, None]
    return rotation(x, m)


def negative_rows_unwritten(x: Array, positions: Array) -> Array:
    """Rows at negative positions are skipped, so memory shows through."""
    y = turn(x, positions, inv_freq(x.shape[-1]), interleaved)
    negative = np.asarray(positions) < 0
    if negative.ndim == 2:
        negative = negative.reshape(len(negative), *(1,) * (x.ndim - 3), -1)
    return np.where(negative[..., None], np.asarray(7.0, x.dtype), y)


def negative_as_zero(x: Array, positions: Array) -> Array:
    return rotation(x, np.maximum(positions, 0))


def without_sign(x: Array, positions: Array) -> Array:
    """Distances instead of positions."""
    return rotation(x, np.abs(positions))


def unpacked(x: Array, positions: Array) -> Array:
    """A second sequence in the same row goes on where the first one ended."""
    m = np.asarray(positions, np.float64)
    restart = np.diff(m, axis=-1, prepend=m[..., :1]) < 0
    return rotation(x, m + np.cumsum(restart * np.roll(m + 1, 1, axis=-1), axis=-1))


def gaps_closed(x: Array, positions: Array) -> Array:
    """Positions as ranks: what is left out moves up."""
    ranks = [np.unique(row, return_inverse=True)[1] for row in np.atleast_2d(positions)]
    first = np.atleast_2d(positions).min(axis=-1, keepdims=True)
    return rotation(x, (np.array(ranks) + first).reshape(np.shape(positions)))


def in_sixteen_bits(x: Array, positions: Array) -> Array:
    """Positions wrap from 32767 to -32768."""
    return rotation(x, (np.asarray(positions, np.float64) + 2**15) % 2**16 - 2**15)


class DecodesAtZero(Decoder):
    """Every token fed alone is taken to be the first."""

    def step(self, x: Array) -> Array:
        return self.turn(x, np.array([0]))


class DecodesOneLate(Decoder):
    """The token after a prompt of n is put at n + 1."""

    def step(self, x: Array) -> Array:
        self.length += 1
        return self.turn(x, np.array([self.length]))


class DecodesOneEarly(Decoder):
    """The first token fed alone repeats the prompt's last position."""

    def step(self, x: Array) -> Array:
        self.length += 1
        return self.turn(x, np.array([self.length - 2]))


class DecodesTwiceAsFar(Decoder):
    """The length is counted once by the cache and once by the layer."""

    def step(self, x: Array) -> Array:
        y = super().step(x)
        self.length += 1
        return y


class DecodesAtTheEnd(Decoder):
    """Every token fed alone is put right after the prompt."""

    def step(self, x: Array) -> Array:
        return self.turn(x, np.array([self.length]))


untold = partial(Wrong, intended=intended.HALF, told=False)
decoder_case = partial(
    Wrong, kind="decoder", intended=intended.HALF, laws=("token by token",), says="token"
)

CASES = (
    untold(
        name="positions ignored",
        thread="NVIDIA/Megatron-LM#453",
        target=ignored,
        laws=("offset positions", "gaps in positions", "positions backwards", "rotation"),
        says="ignore",
    ),
    Wrong(
        name="counted from one",
        thread="PrimeIntellect-ai/prime-rl#3466",
        target=counted_from_one,
        intended=intended.HALF,
        laws=("convention", "composition"),
        says="offset",
    ),
    Wrong(
        name="twice as far",
        thread="lablup/mlxcel#1324",
        target=twice_as_far,
        intended=intended.HALF,
        laws=("convention",),
        says="twice",
    ),
    untold(
        name="positions of the first row",
        thread="unslothai/unsloth#3795",
        target=of_the_first_row,
        laws=("batched positions", "left padding"),
        says="batch",
    ),
    untold(
        name="columns for positions in a batch",
        thread="unslothai/unsloth#3699",
        target=by_column_in_a_batch,
        laws=("left padding", "batched positions"),
        says="batch",
    ),
    untold(
        name="padding counted",
        thread="huggingface/transformers#22161",
        target=padding_counted,
        laws=("left padding", "gaps in positions", "positions backwards", "repeated positions"),
        says="positions",
    ),
    untold(
        name="batch flattened",
        thread="unslothai/unsloth#4078",
        target=flattened_batch,
        laws=("batched positions", "left padding"),
        says="batch",
    ),
    untold(
        name="negative rows unwritten",
        thread="fla-org/flash-linear-attention#967",
        target=negative_rows_unwritten,
        intended=intended.INTERLEAVED,
        laws=("negative positions",),
        says="negative positions",
    ),
    untold(
        name="negative as zero",
        thread="ML-GSAI/LLaDA#120",
        target=negative_as_zero,
        laws=("negative positions",),
        says="negative positions",
    ),
    untold(
        name="without sign",
        thread="bojone/rerope#17",
        target=without_sign,
        laws=("negative positions",),
        says="negative positions",
    ),
    untold(
        name="packed sequences run on",
        thread="NVIDIA-NeMo/Automodel#2377",
        target=unpacked,
        laws=("packed sequences", "positions backwards"),
        says="positions",
    ),
    untold(
        name="gaps closed",
        thread="NVIDIA-NeMo/Automodel#2377",
        target=gaps_closed,
        laws=("gaps in positions",),
        says="positions",
    ),
    untold(
        name="sixteen bits",
        thread="pegainfer-project/pegainfer#253",
        target=in_sixteen_bits,
        laws=("long positions",),
        says="position",
        more={"context_length": 65536},
    ),
    decoder_case(
        name="decodes at 0",
        thread="RobertCsordas/moeut#6",
        target=DecodesAtZero,
    ),
    decoder_case(
        name="decodes one late",
        thread="Physical-Intelligence/openpi#705",
        target=DecodesOneLate,
    ),
    decoder_case(
        name="decodes one early",
        thread="unslothai/unsloth#3803",
        target=DecodesOneEarly,
    ),
    decoder_case(
        name="decodes twice as far",
        thread="lablup/mlxcel#1324",
        target=DecodesTwiceAsFar,
    ),
    decoder_case(
        name="decodes at the prompt's end",
        thread="RobertCsordas/moeut#6",
        target=DecodesAtTheEnd,
    ),
)
