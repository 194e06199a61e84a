"""The proof: scores of the old weights in the old layout equal those of the new in the new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.files.formats.safetensors import DTYPES
from ropecli.files.permute.moves import Move
from ropecli.regular import read_bytes
from ropecli.rotary import Rotary
from ropecli.rotary.apply import rotate
from ropecli.units import DOUBLE

#: Positions of queries and of keys; each query is scored with each key.
POSITIONS = (0, 1, 7, 100, 4095)
EPSILON = 1e-6  #: Of the norm; any value will do, since both sides have it.


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """One of the two files, and the layout of its heads."""

    path: Any
    fd: int
    rope: Rotary
    rows: NDArray[np.int64]  #: The old row of each row of a head.
    #: The tensors of this file by name, where they do not stand as in the old one.
    moves: Mapping[str, Move] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PermutationProof:
    """The errors of the scores of converted weights."""

    scores: int  #: Number of scores compared.
    max_score_error: float  #: NaN where a weight is not finite.
    max_share: float  #: The largest error as a share of its tolerance.
    largest_score: float  #: The largest magnitude of a score.

    @property
    def holds(self) -> bool:
        """True if every score is within its tolerance; a NaN is not."""
        return self.max_share <= 1


def prove(
    moves: Sequence[Move], old: Side, new: Side, *, heads: int, kv_heads: int, seed: int
) -> PermutationProof:
    """Compare q.k of every head of every layer, for random hidden states at several positions.

    The tolerance of a score is 2 (n + 3 d + 40) u |q| |k| with u = 2^-53. A product of a row and a
    hidden state has one rounding per term, n in the query's and the key's together. A norm and the
    score's own sum have d each, the rotation of both 14, a bias and the quotient of the norm the
    rest. The 2 is for the two sides. |q| and |k| are bounds from the lengths of rows and hidden
    states. Angles are the same numbers on both sides.
    """
    groups: dict[str, list[Move]] = {}
    for move in moves:
        groups.setdefault(move.group, []).append(move)
    with np.errstate(all="ignore"):  # values that are not finite end as NaN, which fails
        errors = [
            _compare(group, old, new, (heads, kv_heads), (seed, index))
            for index, group in enumerate(groups.values())
        ]
    worst = np.array([part[:3] for part in errors]).max(axis=0)  # a NaN is the largest
    return PermutationProof(
        scores=sum(part[3] for part in errors),
        max_score_error=float(worst[0]),
        max_share=float(worst[1]),
        largest_score=float(worst[2]),
    )


def _compare(
    group: list[Move], old: Side, new: Side, heads: tuple[int, int], seed: tuple[int, int]
) -> tuple[float, float, float, int]:
    """Return the largest error, share of the tolerance, and score of one layer; and the count."""
    results: list[Array] = []
    for side in (old, new):
        terms, rotated = 0, []
        bounds: list[Array] = []
        for number, role in enumerate(("query", "key")):
            moved = [move for move in group if move.role == role]
            x, size, count = _project(moved, side, heads[number], (*seed, number))
            rotated.append(rotate(x, side.rope, np.array(POSITIONS)))
            bounds.append(np.repeat(size, heads[0] // heads[number], axis=0))
            terms += count
        keys = np.repeat(rotated[1], heads[0] // heads[1], axis=0)
        results.append(np.einsum("hmd,hnd->hmn", rotated[0], keys))
    error = np.abs(results[0] - results[1])
    size = bounds[0][:, :, None] * bounds[1][:, None, :]
    tolerance = 2 * (terms + 3 * old.rope.head_dim + 40) * DOUBLE * size
    share = np.where(error == 0, 0.0, error / tolerance)
    return (
        float(error.max()),
        float(share.max()),
        float(np.abs(results[0]).max()),
        int(error.size),
    )


def _project(
    moves: list[Move], side: Side, heads: int, seed: tuple[int, ...]
) -> tuple[Array, Array, int]:
    """Return queries or keys (heads, positions, head_dim), bounds of their lengths, and terms.

    Without a projection in the file, they are random.
    """
    random = np.random.default_rng(seed)
    head_dim, count = side.rope.head_dim, len(POSITIONS)
    x, bound = np.zeros((2, heads, count, head_dim))
    terms = 0
    for move in moves:
        if move.kind != "weight":
            continue
        hidden = random.standard_normal((count, move.tensor.shape[1]))
        lengths = np.sqrt((hidden**2).sum(axis=1))
        terms += move.tensor.shape[1]
        for head in range(heads):
            weight = read_head(side, move, head)
            x[head] += hidden @ weight.T
            bound[head] += lengths[:, None] * np.sqrt((weight**2).sum(axis=1))
    if not terms:
        x += random.standard_normal(x.shape)[..., side.rows]
        bound += np.abs(x)
    for move in moves:
        if move.kind == "bias":
            bias = np.stack([read_head(side, move, head)[:, 0] for head in range(heads)])
            x += bias[:, None]
            bound += np.abs(bias)[:, None]
    size = np.sqrt((bound**2).sum(axis=-1))
    for move in moves:
        if move.kind == "norm":
            weight = np.stack([read_head(side, move, head)[:, 0] for head in range(move.heads)])
            axes = (0, 2) if len(move.tensor.shape) == 1 and move.heads > 1 else (2,)
            root = np.sqrt((x**2).mean(axis=axes, keepdims=True) + EPSILON)
            x = x / root * weight[:, None]
            # The error of a root mean square is at most that of its vector.
            size = 2 * size / root[..., 0] * np.abs(weight).max()
    return x, size, terms


def read_head(side: Side, move: Move, head: int) -> Array:
    """Read the rows of one head as float64, (head_dim, columns)."""
    move = side.moves.get(move.tensor.name, move)
    length = move.row_bytes * move.head_dim
    data = read_bytes(side.path, side.fd, move.tensor.begin + head * length, length)
    values = np.frombuffer(data, DTYPES[move.tensor.dtype])
    return values.reshape(move.head_dim, -1).astype(np.float64)
