"""Other positions than those given, and calls that return or leave behind something else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from implementations.case import wrong
from implementations.intended import DIM, INTERLEAVED
from implementations.plain import Array, align, angles, interleaved, inv_freq, rotation, turn, wide
from implementations.right import decoder

THETA = inv_freq(DIM)
untold = partial(wrong, told=False)


def first_position_counted_on(m: Array) -> Array:
    """The first position of a row, which may be padding's, and one more for each column."""
    counted: Array = m[..., :1] + np.arange(m.shape[-1])
    return counted


def join_rows(m: Array) -> Array:
    """Number each row of a batch on from the end of the one before."""
    return m if m.ndim == 1 else m + m.shape[1] * np.arange(len(m))[:, None]


def join_sequences(m: Array) -> Array:
    """Let a second sequence in a row continue where the first one ended."""
    restart = np.diff(m, axis=-1, prepend=m[..., :1]) < 0
    run_on: Array = m + np.cumsum(restart * np.roll(m + 1, 1, axis=-1), axis=-1)
    return run_on


def without_gaps(m: Array) -> Array:
    """Positions as ranks: what is left out moves up."""
    ranks = [np.unique(row, return_inverse=True)[1] for row in np.atleast_2d(m)]
    first = np.atleast_2d(m).min(axis=-1, keepdims=True)
    closed: Array = (np.array(ranks) + first).reshape(m.shape)
    return closed


PADDING = ("left padding", "gaps in positions", "positions backwards", "repeated positions")
IGNORED = ("offset positions", "gaps in positions", "positions backwards", "rotation")
NEGATIVE = ("negative positions", "negative positions")
#: Name, thread, laws, what is said, and the positions that are taken.
MOVED: list[tuple[str, str, str | tuple[str, ...], str, Callable[[Array], Array]]] = [
    # Row n is taken to be at position n.
    ("positions ignored", "NVIDIA/Megatron-LM#453", IGNORED, "ignore",
     lambda m: np.arange(m.shape[-1])),
    # One row of positions is shared by the whole batch.
    ("positions of the first row", "unslothai/unsloth#3795", ("batched positions", "left padding"),
     "batch", lambda m: m if m.ndim == 1 else m[0]),
    # In a batch, the column counts: rows with padding on the left start too late.
    ("columns for positions in a batch", "unslothai/unsloth#3699",
     ("left padding", "batched positions"), "batch",
     lambda m: m if m.ndim == 1 else np.arange(m.shape[-1])),
    ("padding counted", "huggingface/transformers#22161", PADDING, "positions",
     first_position_counted_on),
    ("batch flattened", "unslothai/unsloth#4078", ("batched positions", "left padding"), "batch",
     join_rows),
    ("negative as zero", "ML-GSAI/LLaDA#120", *NEGATIVE, lambda m: np.maximum(m, 0)),
    # Distances instead of positions.
    ("without sign", "bojone/rerope#17", *NEGATIVE, np.abs),
    ("packed sequences run on", "NVIDIA-NeMo/Automodel#2377",
     ("packed sequences", "positions backwards"), "positions", join_sequences),
    ("gaps closed", "NVIDIA-NeMo/Automodel#2377", "gaps in positions", "positions", without_gaps),
]  # fmt: skip
for name, thread, laws, says, change in MOVED:
    untold(name, thread, laws, says)(rotation(THETA, positions=change))

wrong("counted from one", "PrimeIntellect-ai/prime-rl#3466", "convention", "off by +1")(
    rotation(THETA, positions=lambda m: m + 1)
)
# The scale 2 for the rope type dynamic, where 1 belongs.
wrong("twice as far", "lablup/mlxcel#1324", "convention", "twice")(
    rotation(THETA, positions=lambda m: m * 2)
)
# Positions wrap from 32767 to -32768.
untold(
    "sixteen bits", "pegainfer-project/pegainfer#253", "long positions", "position",
    more={"context_length": 65536},
)(rotation(THETA, positions=lambda m: (m + 2**15) % 2**16 - 2**15))  # fmt: skip


@untold("negative rows unwritten", "fla-org/flash-linear-attention#967", *NEGATIVE, INTERLEAVED)
def negative_rows_unwritten(x: Array, positions: Array) -> Array:
    """Rows at negative positions are skipped, so memory shows through."""
    negative = align(x, (np.asarray(positions) < 0)[..., None])
    return np.where(negative, np.asarray(7.0, x.dtype), turn(x, positions, THETA, interleaved))


#: Name, thread, the place of a token after n others, and as how many it counts.
DECODERS: list[tuple[str, str, Callable[[int], int], int]] = [
    ("decodes at 0", "RobertCsordas/moeut#6", lambda n: 0, 1),
    ("decodes one late", "Physical-Intelligence/openpi#705", lambda n: n + 1, 1),
    # The first token fed alone repeats the prompt's last position.
    ("decodes one early", "unslothai/unsloth#3803", lambda n: n - 1, 1),
    # The length is counted once by the cache and once by the layer.
    ("decodes twice as far", "lablup/mlxcel#1324", lambda n: n, 2),
    ("decodes at the prompt's end", "RobertCsordas/moeut#6", lambda n: n, 0),
]
for name, thread, place, counts in DECODERS:
    wrong(name, thread, "token by token", "token", kind="decoder")(decoder(place, counts))


# The rotation is right, but not what comes back, or not what it leaves behind.


@untold("in place", "jzhang38/TinyLlama#188", "input untouched", "input")
def in_place(x: Array, positions: Array) -> Array:
    """The caller's array is rotated as well."""
    x[...] = turn(x, positions, THETA)
    return x


@untold(
    "in place by halves", "jzhang38/TinyLlama#188", "rotation",
    "not a rotation",
)  # fmt: skip
def in_place_by_halves(x: Array, positions: Array) -> Array:
    """The first half is overwritten before the second half reads it."""
    n = x.shape[-1] // 2
    angle = angles(positions, THETA)
    y = wide(x)
    cos, sin = (align(x, t) for t in (np.cos(angle), np.sin(angle)))
    y[..., :n] = y[..., :n] * cos - y[..., n:] * sin
    y[..., n:] = y[..., n:] * cos + y[..., :n] * sin
    return y.astype(x.dtype)


@untold(
    "always float32", "huggingface/transformers#25681", "dtype and shape", "dtype",
    more={"dtypes": ["float32", "float16"]},
)  # fmt: skip
def always_float32(x: Array, positions: Array) -> Array:
    return turn(x.astype(np.float32), positions, THETA)


@untold("axis lost", "pytorch/pytorch#162865", "dtype and shape", "shape")
def heads_lost(x: Array, positions: Array) -> Array:
    """An axis of length 1 is squeezed away."""
    y = turn(x, positions, THETA)
    return y[0] if y.ndim > 2 and len(y) == 1 else y
