"""Wrong pairs of coordinates: norms are right and relative positions hold, mostly."""

from __future__ import annotations

import numpy as np
from implementations import intended
from implementations.case import Wrong
from implementations.plain import Array, angles, half, interleaved, inv_freq, turn


def half_for_interleaved(x: Array, positions: Array) -> Array:
    """Transformers' rotation for the weights as Meta released them."""
    return turn(x, positions, inv_freq(x.shape[-1]), half)


def interleaved_for_half(x: Array, positions: Array) -> Array:
    """PLaMo's rope type, wrong for a year."""
    return turn(x, positions, inv_freq(x.shape[-1]), interleaved)


def repeated_tables_halves_turned(x: Array, positions: Array) -> Array:
    """cos and sin repeated for neighbours, but x rotated by halves."""
    angle = np.repeat(angles(positions, inv_freq(x.shape[-1])), 2, axis=-1)
    return with_rotated(x, angle, by_halves(x))


def joined_tables_neighbours_turned(x: Array, positions: Array) -> Array:
    """cos and sin joined for halves, but neighbours rotated."""
    angle = np.tile(angles(positions, inv_freq(x.shape[-1])), 2)
    rotated = np.stack([-x[..., 1::2], x[..., 0::2]], axis=-1).reshape(x.shape)
    return with_rotated(x, angle, rotated)


def lost_minus(x: Array, positions: Array) -> Array:
    """Halves swapped without the minus: each pair is reflected, not turned."""
    angle = np.tile(angles(positions, inv_freq(x.shape[-1])), 2)
    return with_rotated(x, angle, np.roll(x, x.shape[-1] // 2, axis=-1))


def by_halves(x: Array) -> Array:
    n = x.shape[-1] // 2
    return np.concatenate([-x[..., n:], x[..., :n]], axis=-1)


def with_rotated(x: Array, angle: Array, rotated: Array) -> Array:
    if angle.ndim == 3:
        angle = angle.reshape(len(angle), *(1,) * (x.ndim - 3), *angle.shape[1:])
    turned: Array = x.astype(np.float64) * np.cos(angle) + rotated.astype(np.float64) * np.sin(
        angle
    )
    return turned.astype(x.dtype)


def permuted_by_half_heads(x: Array, positions: Array) -> Array:
    """Weights permuted with twice the number of heads: pairs lie within half a head."""
    order = np.arange(x.shape[-1]).reshape(2, 2, -1).swapaxes(1, 2).ravel()
    y = np.empty_like(x)
    y[..., order] = interleaved_for_half(x[..., order], positions)
    return y


def first_head_permuted(x: Array, positions: Array) -> Array:
    """Grouped queries: only the first head of each group is in the order expected."""
    y = interleaved_for_half(x, positions)
    if x.ndim > 2:
        y[..., 0, :, :] = half_for_interleaved(x, positions)[..., 0, :, :]
    return y


def written_in_halves(x: Array, positions: Array) -> Array:
    """Read interleaved and turned, but left in the order of halves."""
    y = interleaved_for_half(x, positions)
    return np.append(y[..., 0::2], y[..., 1::2], axis=-1)


def turned_back(x: Array, positions: Array) -> Array:
    """The transposed matrix: every pair goes the other way."""
    return turn(x, positions, -inv_freq(x.shape[-1]), half)


CASES = (
    Wrong(
        name="half for interleaved",
        thread="huggingface/transformers#25199",
        target=half_for_interleaved,
        intended=intended.INTERLEAVED,
        laws=("convention",),
        says="interleaved",
    ),
    Wrong(
        name="interleaved for half",
        thread="ggml-org/llama.cpp#13260",
        target=interleaved_for_half,
        intended=intended.HALF,
        laws=("convention",),
        says="half",
    ),
    Wrong(
        name="repeated tables, halves turned",
        thread="raiyanyahya/how-to-train-your-gpt#7",
        target=repeated_tables_halves_turned,
        intended=intended.HALF,
        told=False,
        laws=("rotation", "norm", "relative position"),
        says="not a rotation",
    ),
    Wrong(
        name="joined tables, neighbours turned",
        thread="naklecha/llama3-from-scratch#20",
        target=joined_tables_neighbours_turned,
        intended=intended.INTERLEAVED,
        told=False,
        laws=("rotation", "norm", "relative position"),
        says="not a rotation",
    ),
    Wrong(
        name="reflection",
        thread="kekzl/imp#503",
        target=lost_minus,
        intended=intended.HALF,
        told=False,
        laws=("rotation", "norm", "relative position"),
        says="not a rotation",
    ),
    Wrong(
        name="permuted by half heads",
        thread="ggml-org/llama.cpp#3018",
        target=permuted_by_half_heads,
        intended=intended.HALF,
        laws=("convention",),
        says="half",
    ),
    Wrong(
        name="only the first head permuted",
        thread="jzhang38/TinyLlama#24",
        target=first_head_permuted,
        intended=intended.HALF,
        laws=("convention", "rotation"),
        says="half",
    ),
    Wrong(
        name="written in halves",
        thread="vllm-project/vllm#26995",
        target=written_in_halves,
        intended=intended.INTERLEAVED,
        laws=("convention",),
        says="half",
    ),
    Wrong(
        name="indexer interleaved",
        thread="ml-explore/mlx-lm#512",
        target=interleaved_for_half,
        intended=intended.HALF,
        laws=("convention",),
        says="interleaved",
    ),
    Wrong(
        name="turned back",
        thread="trymirai/lalamo#268",
        target=turned_back,
        intended=intended.HALF,
        laws=("convention",),
        says="reversed",
    ),
)
