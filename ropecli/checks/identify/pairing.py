"""Pairs of coordinates: those whose squares exchange their values (Eq. 13).

A rotated pair keeps its squared length, up to one factor for all pairs. So what the square of one
coordinate gains, that of its partner loses, in every vector; no other two coordinates do that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, Index, evenly_spread
from ropecli.checks.identify.observe import Observations
from ropecli.units import SINGLE, TINY

Moves = tuple[Index, Index]  #: Pairs where they are read, and where they are written.
KEPT = 2.0**-5  #: Relative change of squared lengths that tables in bfloat16 can account for.
_VECTORS = 1024  #: Vectors in the sample; a few dozen would do.
_ROUNDINGS = 6  #: Roundings of a square after: two of its root, each from three operations.
_CANCELLED = 0.1  #: Share of two partners' gains that may remain in their sum; others leave 1.
_WORSE = 1e4  #: Squared error of a pair's sum of squares, relative to that of most pairs.
_SQUARED = 2.0**-50  #: The same error, as rounding in float64 alone makes it.
_CHANCE = 7.0  #: Standard deviations that no two of a few hundred coordinates reach by chance.
_UNIQUE = 4.0  #: Error of the second best match, relative to that of the best.
_CORRELATED = 0.9  #: Correlation with itself of a coordinate that turns by under half a radian.
_NONE = np.zeros((0, 2), int), np.zeros((0, 2), int)


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """Pairs of coordinates, in no order yet."""

    read: Index  #: (pairs, 2), coordinates that each is read from.
    written: Index  #: (pairs, 2), coordinates that it is written to.
    moved: NDArray[np.bool_]  #: (head_dim,), coordinates that changed in any vector.
    single: Index  #: Coordinates that changed beyond rounding and have no partner.
    factor: float  #: |after| / |before|.
    spread: float  #: Largest relative deviation from factor**2; large if lengths are not kept.
    swapped: bool = False  #: Whether mirrored pairs were taken for pairs written in reverse.


def find_pairs(observed: Observations) -> Pairing:
    """Return the pairs that the data show, written in place or elsewhere."""
    x, y = _sample(observed)
    moved = (x != y).any(axis=0)
    where = np.flatnonzero(moved)
    u, v = x[:, moved] ** 2, y[:, moved] ** 2
    factor2, spread = _squared_factor(u, v)
    factor = float(np.sqrt(factor2))
    u = u * factor2
    pairs, single = _partners(u, v, observed.unit)
    read = written = where[pairs]
    alone = where[single]
    if spread < KEPT:
        unit = max(observed.unit, SINGLE)  # tables may be in float32 under float64 data
        pairs, single = _drop_refuted(u, v, pairs, single, unit)
        slow = _slow_pairs(
            observed, np.setdiff1d(np.arange(observed.head_dim), where[pairs]), factor
        )
        read = written = np.concatenate([where[pairs], slow])
        single = np.setdiff1d(single, np.searchsorted(where, np.intersect1d(where, slow)))
        alone = where[single]
        all_read, all_written = _pairs_elsewhere(u, v, unit) if len(single) > len(read) else _NONE
        if len(all_read) > len(read):
            read, written = _complete(observed, where[all_read], where[all_written], factor)
            alone = np.setdiff1d(alone, written.ravel())
        elif len(single) > 1:  # a few pairs whose outputs are exchanged
            few_read, few_written = _pairs_elsewhere(u[:, single], v[:, single], unit)
            read = np.concatenate([read, alone[few_read]])
            written = np.concatenate([written, alone[few_written]])
            alone = np.delete(alone, few_written.ravel())
    return Pairing(
        read=read, written=written, moved=moved, single=alone, factor=factor, spread=spread
    )


def _sample(observed: Observations) -> tuple[Array, Array]:
    """Return vectors from all positions, none of them zero."""
    x, y = (array.reshape(-1, observed.head_dim) for array in (observed.x, observed.y))
    some = evenly_spread(len(x), _VECTORS)
    some = some[(x[some] != 0).any(axis=1)]
    return x[some], y[some]


def _squared_factor(u: Array, v: Array) -> tuple[float, float]:
    """Return the squared factor of all lengths, and its largest relative deviation."""
    before, after = u.sum(axis=1), v.sum(axis=1)
    if not before.any() or not after.any():
        return 1.0, 0.0
    factor2 = float(after.sum() / before.sum())
    return factor2, float(np.abs(after - factor2 * before).max() / (factor2 * before.max()))


def _partners(u: Array, v: Array, unit: float) -> tuple[Index, Index]:
    """Return columns whose gains cancel, and those with gains and no partner."""
    gain = v - u
    size = np.einsum("nd,nd->d", gain, gain)
    both = size[:, None] + size[None, :] + 2 * gain.T @ gain
    squares = np.einsum("nd,nd->d", u, u)
    seen = size > (2 * _ROUNDINGS * unit) ** 2 * squares
    with np.errstate(divide="ignore", invalid="ignore"):
        left = np.where(seen[:, None] | seen[None, :], both / (size[:, None] + size[None, :]), 1.0)
    np.fill_diagonal(left, np.inf)
    pairs = _mutual(-left, -_CANCELLED)
    if len(pairs):  # only those that keep their sum of squares about as well as most others
        first, second = pairs.T
        error = both[first, second] / ((u[:, first] + u[:, second]) ** 2).sum(axis=0)
        pairs = pairs[error <= _WORSE * max(float(np.median(error)), _SQUARED)]
    return pairs, np.setdiff1d(np.flatnonzero(seen), pairs.ravel())


def _drop_refuted(
    u: Array, v: Array, pairs: Index, single: Index, unit: float
) -> tuple[Index, Index]:
    """Drop pairs that only seem to be written in place; their coordinates then have no partner."""
    # If outputs are written elsewhere, two of them can look like a pair: of x to x', and of x'
    # turned by little to x, one gains almost what the other loses. Such a pair keeps its sum of
    # squares only roughly; pairs elsewhere that keep theirs to rounding refute it.
    before, after = (square[:, pairs].sum(axis=2) for square in (u, v))
    size = before.max(axis=0, initial=TINY)
    error = np.abs(after - before).max(axis=0, initial=0) / size
    inexact = error > 2 * _ROUNDINGS * unit
    if not inexact.any():
        return pairs, single
    doubted = np.union1d(pairs[inexact], single)
    read, written = _pairs_elsewhere(u[:, doubted], v[:, doubted], unit)
    refuted = inexact & np.isin(pairs, doubted[np.union1d(read, written)]).any(axis=1)
    return pairs[~refuted], np.union1d(single, pairs[refuted])


def _slow_pairs(observed: Observations, left: Index, factor: float) -> Index:
    """Return pairs among the coordinates left that turn too little for their squares to show it."""
    if len(left) < 2:
        return np.zeros((0, 2), int)
    x, y = (array[..., left].reshape(-1, len(left)) for array in (observed.x, observed.y))
    m = np.repeat(observed.positions[:, 0], observed.x.shape[1])[:, None]
    added, expected = y / factor - x, m * x
    size = np.linalg.norm(added, axis=0)[:, None] * np.linalg.norm(expected, axis=0)
    # A small angle adds -m theta x' to x, and m theta x to x': a correlation over many vectors.
    share = added.T @ expected / np.maximum(size, TINY)
    both = np.minimum(np.maximum(-share, 0), np.maximum(share.T, 0))
    both = np.maximum(both, both.T)
    return np.asarray(left[_mutual(both, _CHANCE / np.sqrt(len(x)))])


def _mutual(score: Array, least: float) -> Index:
    """Return pairs whose score is above the least, and the best of both, (pairs, 2)."""
    mine = np.arange(len(score))
    best = score.argmax(axis=1) if len(score) else mine
    good = (score[mine, best] > least) & (best[best] == mine) & (mine < best)
    return np.column_stack([mine[good], best[good]])


def _complete(observed: Observations, read: Index, written: Index, factor: float) -> Moves:
    """Add slow and static pairs to those that are written elsewhere."""
    origin, place = _sources(observed, np.setdiff1d(np.arange(observed.head_dim), written))
    free = ~np.isin(origin, read)
    origin, place = origin[free], place[free]
    y = observed.y.copy()
    y[..., origin] = observed.y[..., place]
    slow = _slow_pairs(replace(observed, y=y), origin, factor)
    goes_to = dict(zip(origin.tolist(), place.tolist(), strict=True))
    slow_to = np.array([[goes_to[int(a)] for a in pair] for pair in slow], int).reshape(-1, 2)
    left = ~np.isin(origin, slow)
    read = np.concatenate([read, slow])
    static, static_to = _static_pairs(origin[left], place[left], read)
    return np.concatenate([read, static]), np.concatenate([written, slow_to, static_to])


def _sources(observed: Observations, free: Index) -> Moves:
    """Return where coordinates that hardly turn were read, and where they were written."""
    if not len(free):
        return free, free
    x, y = (array.reshape(-1, observed.head_dim) for array in (observed.x, observed.y))
    y = y[:, free]
    size = np.linalg.norm(y, axis=0)[:, None] * np.linalg.norm(x, axis=0)
    alike = y.T @ x / np.maximum(size, TINY)
    best = alike.argmax(axis=1)
    mine = np.arange(len(free))
    good = (alike[mine, best] > _CORRELATED) & (alike.argmax(axis=0)[best] == mine)
    order = best[good].argsort()
    return best[good][order], free[good][order]


def _static_pairs(read: Index, written: Index, pairs: Index) -> Moves:
    """Pair up static coordinates: as far apart as in most known pairs, or else in order."""
    apart = np.abs(pairs[:, 1] - pairs[:, 0])
    step = int(np.bincount(apart).argmax()) if len(apart) else 1
    left = {int(a): int(o) for a, o in zip(read, written, strict=True)}
    couples = [
        ((a, a + step), (left.pop(a), left.pop(a + step)))
        for a in sorted(left)
        if a in left and a + step in left
    ]
    leftover = [(a, o) for a, o in left.items() if a != o]
    leftover += [(a, o) for a, o in left.items() if a == o][: len(leftover) % 2]
    for (a, o), (b, p) in zip(leftover[::2], leftover[1::2], strict=False):
        couples.append(((a, b), (o, p)))
    # A coordinate that has not moved, nor its partner, is in no pair.
    both = np.array([couple for couple in couples if couple[0] != couple[1]], int).reshape(-1, 2, 2)
    return both[:, 0], both[:, 1]


def _pairs_elsewhere(u: Array, v: Array, unit: float) -> Moves:
    """Return pairs with another place after: sums of two squares before that reappear after."""
    tolerance = 2 * _ROUNDINGS * unit
    first, second = np.triu_indices(u.shape[1], 1)
    some = evenly_spread(len(u), 48)
    before, after = ((s[:, first] + s[:, second]).T for s in (u[some], v[some]))
    candidates = _equal_rows(before, after, tolerance)
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
    return np.array(read, int).reshape(-1, 2), np.array(written, int).reshape(-1, 2)


def _equal_rows(before: Array, after: Array, tolerance: float) -> list[tuple[int, int]]:
    """Match rows before and after that nearly agree, by one weighted sum of each first."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, before.shape[1])
    keys, wanted = before @ weights, after @ weights
    order = keys.argsort()
    near = tolerance * np.maximum(wanted, 0)
    low = np.searchsorted(keys[order], wanted - near)
    high = np.searchsorted(keys[order], wanted + near, side="right")
    matched = []
    for o in range(len(wanted)):
        rows = order[low[o] : high[o]]
        if not len(rows):
            continue
        error = np.abs(before[rows] - after[o]).max(axis=1)
        best = int(error.argmin())
        others = np.delete(error, best)
        if len(others) and others.min() < _UNIQUE * error[best]:
            continue  # so slow a pair that another partner would do as well
        matched.append((int(rows[best]), o))
    return matched
