"""Which coordinates form a pair: those whose squares only change places (Eq. 13).

A turned pair keeps its squared length, up to one factor for all of them. So what one coordinate's
square gains, its partner's loses, in every vector; no two others do that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.still import coupled, sources
from ropecli.units import SINGLE, TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]

_VECTORS = 1024  #: Looked at; a few dozen would do.
_ROUNDINGS = 6  #: Of a square after: two of its root, each from three operations.
_FOUND = 0.1  #: What two partners' gains may leave of themselves, added up. Others leave about 1.
_WORSE = 1e4  #: By how much less well a pair may keep its sum of squares than most, squared.
_SQUARED = 2.0**-50  #: Of that, what rounding leaves of sums of squares in float64.
_CHANCE = 7.0  #: Standard deviations that no two of a few hundred coordinates reach by chance.
_ALONE = 4.0  #: By how much any other match must be worse.
KEPT = 2.0**-5  #: Relative change of squared lengths that tables in bfloat16 can account for.


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """Pairs of coordinates, in no order yet."""

    read: Index  #: (pairs, 2), where they are read.
    written: Index  #: (pairs, 2), where they are written.
    moved: NDArray[np.bool_]  #: (head_dim,), coordinates that changed in any vector.
    single: Index  #: Coordinates that changed beyond rounding and have no partner.
    factor: float  #: What lengths are multiplied by.
    spread: float  #: How far the squared factor strays, relative: large where none is kept.
    swapped: bool = False  #: Whether some are read as mirrored, and written the other way round.


def find_pairs(sight: Sight) -> Pairing:
    """The pairs that the data show, read and written in the same places, or in others."""
    x, y = _vectors(sight)
    moved = (x != y).any(axis=0)
    u, v = x[:, moved] ** 2, y[:, moved] ** 2
    factor2, spread = _factor(u, v)
    where = np.flatnonzero(moved)
    unit = max(sight.unit, SINGLE)  # tables may be in float32 under float64 data
    in_place, single = _partners(u * factor2, v, sight.unit)
    if spread < KEPT:
        in_place, single = _not_refuted(u * factor2, v, in_place, single, unit)
    pairs = where[in_place]
    if spread < KEPT:
        slow = _slow(sight, np.setdiff1d(np.arange(sight.head_dim), pairs), float(np.sqrt(factor2)))
        pairs = np.concatenate([pairs, slow])
        single = np.setdiff1d(single, np.searchsorted(where, np.intersect1d(where, slow)))
    if len(single) > len(pairs) and spread < KEPT:
        read, written = _elsewhere(u * factor2, v, unit)
        if len(read) > len(pairs):
            inside, outside = _all_elsewhere(
                sight, where[read], where[written], float(np.sqrt(factor2))
            )
            return Pairing(
                read=inside,
                written=outside,
                moved=moved,
                single=np.setdiff1d(where[single], outside.ravel()),
                factor=float(np.sqrt(factor2)),
                spread=spread,
            )
    written = pairs
    if len(single) > 1 and spread < KEPT:  # a few whose outputs change places
        read, outside = _elsewhere(u[:, single] * factor2, v[:, single], unit)
        pairs = np.concatenate([pairs, where[single][read]])
        written = np.concatenate([written, where[single][outside]])
        single = np.delete(single, outside.ravel())
    return Pairing(
        read=pairs,
        written=written,
        moved=moved,
        single=where[single],
        factor=float(np.sqrt(factor2)),
        spread=spread,
    )


def _vectors(sight: Sight) -> tuple[Array, Array]:
    """Some of all vectors, from all positions, none of them zero."""
    x, y = (array.reshape(-1, sight.head_dim) for array in (sight.x, sight.y))
    some = np.unique(np.linspace(0, len(x) - 1, _VECTORS).astype(int))
    some = some[(x[some] != 0).any(axis=1)]
    return x[some], y[some]


def _factor(u: Array, v: Array) -> tuple[float, float]:
    """The squared factor of all lengths, and how far single vectors stray from it."""
    before, after = u.sum(axis=1), v.sum(axis=1)
    if not before.any() or not after.any():
        return 1.0, 0.0
    factor2 = float(after.sum() / before.sum())
    return factor2, float(np.abs(after - factor2 * before).max() / (factor2 * before.max()))


def _partners(u: Array, v: Array, unit: float) -> tuple[Index, Index]:
    """Columns whose gains cancel; and those with gains and no partner."""
    gain = v - u
    size = np.einsum("nd,nd->d", gain, gain)
    both = size[:, None] + size[None, :] + 2 * gain.T @ gain
    own = np.einsum("nd,nd->d", u, u)
    seen = size > (2 * _ROUNDINGS * unit) ** 2 * own
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(seen[:, None] | seen[None, :], both / (size[:, None] + size[None, :]), 1.0)
    np.fill_diagonal(left, np.inf)
    best = left.argmin(axis=1) if len(left) > 1 else np.zeros(len(left), int)
    mine = np.arange(len(best))
    good = (best[best] == mine) & (left[mine, best] < _FOUND) & (mine < best)
    pairs = _alike_exact(u, both, np.column_stack([mine[good], best[good]]))
    alone = np.setdiff1d(np.flatnonzero(seen), pairs.ravel())
    return pairs, alone


def _alike_exact(u: Array, both: Array, pairs: Index) -> Index:
    """The pairs whose sum of squares is kept about as well as that of most others."""
    if not len(pairs):
        return pairs
    first, second = pairs.T
    left = both[first, second] / ((u[:, first] + u[:, second]) ** 2).sum(axis=0)
    exact: Index = pairs[left <= _WORSE * max(float(np.median(left)), _SQUARED)]
    return exact


def _not_refuted(
    u: Array, v: Array, pairs: Index, single: Index, unit: float
) -> tuple[Index, Index]:
    """The pairs that are in place, without those that only seem so; and what has no partner then.

    Where outputs are written to other places, two of them may seem to be a pair: of x to x', and of
    x' turned by little to x, one gains what the other loses, but for that little. Pairs elsewhere
    that keep their sums of squares to rounding refute such a pair, which does not.
    """
    before, after = (square[:, pairs].sum(axis=2) for square in (u, v))
    size = before.max(axis=0, initial=TINY)
    off = np.abs(after - before).max(axis=0, initial=0) / size
    inexact = off > 2 * _ROUNDINGS * unit
    if not inexact.any():
        return pairs, single
    doubted = np.union1d(pairs[inexact], single)
    read, written = _elsewhere(u[:, doubted], v[:, doubted], unit)
    refuted = inexact & np.isin(pairs, doubted[np.union1d(read, written)]).any(axis=1)
    return pairs[~refuted], np.union1d(single, pairs[refuted])


def _slow(sight: Sight, left: Index, factor: float) -> Index:
    """Pairs that turn by so little that their squares hardly show it, from many vectors.

    A small turn adds -m theta x' to x, and m theta x to x'.
    """
    if len(left) < 2:
        return np.zeros((0, 2), int)
    x, y = (each[..., left].reshape(-1, len(left)) for each in (sight.x, sight.y))
    m = np.repeat(sight.positions[:, 0], sight.x.shape[1])[:, None]
    added, turned = y / factor - x, m * x
    size = np.linalg.norm(added, axis=0)[:, None] * np.linalg.norm(turned, axis=0)
    share = added.T @ turned / np.maximum(size, TINY)
    both = np.minimum(np.maximum(-share, 0), np.maximum(share.T, 0))
    both = np.maximum(both, both.T)
    best = both.argmax(axis=1)
    mine = np.arange(len(left))
    sure = both[mine, best] > _CHANCE / np.sqrt(len(x))
    good = sure & (best[best] == mine) & (mine < best)
    return np.column_stack([left[mine[good]], left[best[good]]])


def _all_elsewhere(sight: Sight, read: Index, written: Index, factor: float) -> tuple[Index, Index]:
    """The same, and the pairs too slow to show in squares, read and written where they are seen."""
    everything = np.arange(sight.head_dim)
    origin, place = sources(sight, np.setdiff1d(everything, written))
    free = ~np.isin(origin, read)
    origin, place = origin[free], place[free]
    goes_to = dict(zip(origin.tolist(), place.tolist(), strict=True))
    back = replace(sight, y=sight.y.copy())
    back.y[..., origin] = sight.y[..., place]
    slow = _slow(back, origin, factor)
    slow_to = np.array([[goes_to[int(a)] for a in pair] for pair in slow], int).reshape(-1, 2)
    left = ~np.isin(origin, slow)
    known = np.concatenate([read, slow])
    still, still_to = coupled(origin[left], place[left], known)
    return np.concatenate([known, still]), np.concatenate([written, slow_to, still_to])


def _elsewhere(u: Array, v: Array, unit: float) -> tuple[Index, Index]:
    """Pairs written to other places: sums of two squares before that equal sums of two after."""
    count = u.shape[1]
    tolerance = 2 * _ROUNDINGS * unit
    first, second = np.triu_indices(count, 1)
    some = np.unique(np.linspace(0, len(u) - 1, 48).astype(int))
    before, after = ((s[:, first] + s[:, second]).T for s in (u[some], v[some]))
    candidates = _alike(before, after, tolerance)
    error = np.array(
        [np.abs(before[i] - after[o]).max() / before[i].max() for i, o in candidates]
    ).reshape(-1)
    read, written, used_in, used_out = [], [], set[int](), set[int]()
    for rank in error.argsort():
        if error[rank] > min(tolerance, KEPT / 4):
            break
        i, o = candidates[rank]
        inside, outside = (int(first[i]), int(second[i])), (int(first[o]), int(second[o]))
        if used_in.isdisjoint(inside) and used_out.isdisjoint(outside):
            read.append(inside)
            written.append(outside)
            used_in.update(inside)
            used_out.update(outside)
    shape = (-1, 2)
    return np.array(read, int).reshape(shape), np.array(written, int).reshape(shape)


def _alike(before: Array, after: Array, tolerance: float) -> list[tuple[int, int]]:
    """Rows of before and after that nearly agree, found by one sum over each first."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, before.shape[1])
    keys, wanted = before @ weights, after @ weights
    order = keys.argsort()
    near = tolerance * np.maximum(wanted, 0)
    low = np.searchsorted(keys[order], wanted - near)
    high = np.searchsorted(keys[order], wanted + near, side="right")
    found = []
    for o in range(len(wanted)):
        rows = order[low[o] : high[o]]
        if not len(rows):
            continue
        error = np.abs(before[rows] - after[o]).max(axis=1)
        best = int(error.argmin())
        others = np.delete(error, best)
        if len(others) and others.min() < _ALONE * error[best]:
            continue  # too slow a pair: another partner would do as well
        found.append((int(rows[best]), o))
    return found
