"""Queries and keys that `watch` saw: those of one call, and of several in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.rotary import Rotary

CALLS = 256  #: First calls of a model that are looked at.


@dataclass(kw_only=True, eq=False)
class Vectors:
    """The queries, or the keys, of one layer in one call of the model."""

    module: str  #: Path of the module that scores them.
    call: int  #: Index of the call.
    role: str  #: "query" or "key".
    before: NDArray[Any] | None = None  #: (heads, tokens, width); None where nothing is rotated.
    after: NDArray[Any] | None = None  #: The same shape, the tokens of all sequences in a row.
    head_dim: int | None = None  #: Coordinates of a whole head; None where that was not seen.
    offset: int = 0  #: The first of them that was handed to the rotation.
    #: (heads, tokens), on vectors after the rotation; of one head or the first sequence alone, if
    #: no more was seen.
    factor: NDArray[np.float64] | None = None
    scale: float | None = None  #: Factor on the score; None where that was not seen.


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCall:
    """One call of the model."""

    positions: NDArray[np.float64]  #: (sequences, count, axes).
    kept: NDArray[np.int64]  #: Indices of the positions that are kept of each sequence.
    #: Positions left in the cache, if it was cropped after the last call and positions go on.
    cropped_to: int | None = None

    @property
    def sequences(self) -> int:
        """Sequences of the batch."""
        return len(self.positions)

    @property
    def count(self) -> int:
        """Positions of each sequence."""
        return int(self.positions.shape[1])

    @property
    def length(self) -> int:
        """Positions in use, from 0 on."""
        return int(self.positions.max()) + 1

    @property
    def tokens(self) -> NDArray[np.float64]:
        """Positions that are kept, of all sequences in a row, (tokens, axes)."""
        axes = self.positions.shape[-1]
        return np.asarray(self.positions[:, self.kept].reshape(-1, axes))


def join_vectors(
    vectors: Sequence[Vectors], rope: Rotary | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return vectors before and after, calls in a row, of as many heads as all of them have."""
    arrays: list[list[Any]] = [[v.before for v in vectors], [v.after for v in vectors]]
    heads = min(map(len, arrays[0]))
    before, after = (
        [_whole_heads(v, a[:heads], rope) for v, a in zip(vectors, array, strict=True)]
        for array in arrays
    )
    return np.concatenate(before, axis=1), np.concatenate(after, axis=1)


def join_positions(calls: Sequence[ModelCall]) -> NDArray[np.float64]:
    """Return the positions that are kept of several calls, (tokens,) or (tokens, axes)."""
    axes = max(call.positions.shape[-1] for call in calls)
    positions = np.concatenate(
        [np.broadcast_to(call.tokens, (len(call.tokens), axes)) for call in calls]
    )
    return positions[:, 0] if axes == 1 else positions


def _whole_heads(vectors: Vectors, array: Any, rope: Rotary | None) -> NDArray[Any]:
    """Return vectors of a whole head, with coordinates that are not handed to the rotation as 1."""
    width = array.shape[-1]
    head_dim, offset = vectors.head_dim or width, vectors.offset
    if vectors.head_dim is None and rope is not None and width == rope.rotary_dim:
        head_dim, offset = rope.head_dim, rope.rotary_offset
    padded = np.ones((*array.shape[:-1], head_dim), array.dtype)
    padded[..., offset : offset + width] = array
    return padded
