"""Queries and keys that `watch` saw: those of one call, and of several in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.rotary import Rotary


@dataclass(kw_only=True, eq=False)
class Vectors:
    """The queries, or the keys, of one layer in one call of the model."""

    module: str  #: Path of the module that scores them.
    call: int  #: Index of the call.
    role: str  #: "query" or "key".
    before: NDArray[Any] | None = None  #: (heads, sequence, width); None where nothing is rotated.
    after: NDArray[Any] | None = None  #: The same shape.
    heads: int | None = None  #: Number of heads, of which the first are kept; None as `before`.
    head_dim: int | None = None  #: Coordinates of a whole head; None where that was not seen.
    offset: int = 0  #: The first of them that was handed to the rotation.
    factor: NDArray[np.float64] | None = None  #: (heads, sequence), on vectors after the rotation.
    scale: float | None = None  #: Factor on the score; None where that was not seen.


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelCall:
    """One call of the model."""

    positions: NDArray[np.float64]  #: (sequence, axes).
    kept: NDArray[np.int64]  #: Indices of the positions that are kept.

    @property
    def length(self) -> int:
        """Positions in use, from 0 on."""
        return int(self.positions.max()) + 1


def join_vectors(
    vectors: Sequence[Vectors], rope: Rotary | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return vectors before and after, calls in a row, of as many heads as all of them have."""
    arrays: list[list[Any]] = [[v.before for v in vectors], [v.after for v in vectors]]
    heads = min(map(len, arrays[0]))
    before, after = (
        [_whole_heads(v, a[:heads], rope) for v, a in zip(vectors, each, strict=True)]
        for each in arrays
    )
    return np.concatenate(before, axis=1), np.concatenate(after, axis=1)


def join_positions(calls: Sequence[ModelCall]) -> NDArray[np.float64]:
    """Return the positions that are kept of several calls, (tokens,) or (tokens, axes)."""
    axes = max(each.positions.shape[1] for each in calls)
    positions = np.concatenate(
        [np.broadcast_to(c.positions[c.kept], (len(c.kept), axes)) for c in calls]
    )
    return positions[:, 0] if axes == 1 else positions


def _whole_heads(vectors: Vectors, array: Any, rope: Rotary | None) -> NDArray[Any]:
    """Return vectors of a whole head, with coordinates that are not handed to the rotation as 1."""
    width = array.shape[-1]
    head_dim, offset = vectors.head_dim or width, vectors.offset
    if vectors.head_dim is None and rope is not None and width == rope.rotary_dim:
        head_dim, offset = rope.head_dim, rope.rotary_offset
    whole = np.ones((*array.shape[:-1], head_dim), array.dtype)
    whole[..., offset : offset + width] = array
    return whole
