"""Coordinates that hardly turn, and are written to other places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.units import TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]

_ALIKE = 0.9  #: Correlation of what turns by less than half a radian with itself.


def sources(sight: Sight, written: Index) -> tuple[Index, Index]:
    """Where coordinates that hardly turn were read, and where they were written.

    Args:
        sight: The vectors.
        written: Coordinates after that no pair is known to have written.

    Returns:
        Coordinates before, and the same ones after, in the order of the former.
    """
    if not len(written):
        return written, written
    x, y = (each.reshape(-1, sight.head_dim) for each in (sight.x, sight.y))
    y = y[:, written]
    size = np.linalg.norm(y, axis=0)[:, None] * np.linalg.norm(x, axis=0)
    alike = y.T @ x / np.maximum(size, TINY)
    best = alike.argmax(axis=1)
    mine = np.arange(len(written))
    good = (alike[mine, best] > _ALIKE) & (alike.argmax(axis=0)[best] == mine)
    order = best[good].argsort()
    return best[good][order], written[good][order]


def coupled(read: Index, written: Index, pairs: Index) -> tuple[Index, Index]:
    """What stands still, in pairs of some kind: as far apart as most others are, or as they come.

    Args:
        read: Coordinates that were read, in order.
        written: Where each of them was written.
        pairs: Pairs that are known, (count, 2).
    """
    apart = np.abs(pairs[:, 1] - pairs[:, 0])
    step = int(np.bincount(apart).argmax()) if len(apart) else 1
    left = {int(a): int(o) for a, o in zip(read, written, strict=True)}
    couples = [
        ((a, a + step), (left.pop(a), left.pop(a + step)))
        for a in sorted(left)
        if a in left and a + step in left
    ]
    rest = [(a, o) for a, o in left.items() if a != o]
    rest += [(a, o) for a, o in left.items() if a == o][: len(rest) % 2]
    for (a, o), (b, p) in zip(rest[::2], rest[1::2], strict=False):
        couples.append(((a, b), (o, p)))
    # What neither moved nor has a partner that moved is copied.
    couples = [couple for couple in couples if couple[0] != couple[1]]
    both = np.array(couples, int).reshape(-1, 2, 2)
    return both[:, 0], both[:, 1]
