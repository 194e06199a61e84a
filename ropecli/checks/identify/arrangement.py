"""The order of the pairs: a layout that has a name, or the pairs as they were found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.rotary.layout import named_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.pairing import Pairing

    Index = NDArray[np.int64]

#: Share of the pairs that a layout must explain. Slow ones may have been taken for others.
_MOST = 0.8


@dataclass(frozen=True, kw_only=True, eq=False)
class Arrangement:
    """Pairs in the order of their frequencies in the table."""

    read: Index  #: (pairs, 2).
    written: Index  #: (pairs, 2).
    found: NDArray[np.bool_]  #: (pairs,), whether the data showed the pair; else its layout did.
    open_end: bool  #: Whether the layout does not say where it ends (interleaved).
    named: bool  #: Whether it is a layout that has a name.


@dataclass(frozen=True, kw_only=True)
class _Layout:
    name: str
    offset: int
    count: int | None  #: Pairs, where the layout says it.


def arranged(
    pairing: Pairing, slopes: NDArray[np.float64], sure: NDArray[np.bool_], head_dim: int
) -> Arrangement:
    """The pairs that were found, in order, with those that their layout has besides.

    Args:
        pairing: What was found; read and written agree in which of the two is first.
        slopes: Radians per position of the pairs found.
        sure: Which of them clearly turn: no layout is right that does without one.
        head_dim: Coordinates.
    """
    flipped = (pairing.read[:, 0] > pairing.read[:, 1])[:, None]
    read, written = (np.where(flipped, e[:, ::-1], e) for e in (pairing.read, pairing.written))
    layouts = _layout(read, head_dim), _layout(written, head_dim)
    if layouts[0] and layouts[1]:
        named = _named(read, written, layouts[0], layouts[1], sure, head_dim)
        if named:
            return named
    order = np.argsort(-np.abs(slopes), kind="stable")
    return Arrangement(
        read=read[order],
        written=written[order],
        found=np.ones(len(order), bool),
        open_end=False,
        named=False,
    )


def _layout(pairs: Index, head_dim: int) -> _Layout | None:
    """The layout that most pairs belong to."""
    steps, counts = np.unique(pairs[:, 1] - pairs[:, 0], return_counts=True)
    step = int(steps[counts.argmax()])
    mine = pairs[pairs[:, 1] - pairs[:, 0] == step, 0]
    if step < 1 or len(mine) < _MOST * len(pairs):
        return None
    if step > 1 or head_dim == 2:
        offset = int(mine.min())
        return _Layout(name="half", offset=offset, count=step)
    even = [mine[mine % 2 == parity] for parity in (0, 1)]
    mine = max(even, key=len)
    return _Layout(name="interleaved", offset=int(mine.min()), count=None)


def _named(
    read: Index,
    written: Index,
    inward: _Layout,
    outward: _Layout,
    sure: NDArray[np.bool_],
    head_dim: int,
) -> Arrangement | None:
    """All pairs of two layouts, if most of those found are among them."""
    counts = [each.count for each in (inward, outward) if each.count is not None]
    count = counts[0] if counts else (head_dim - max(inward.offset, outward.offset)) // 2
    if any(each.offset + 2 * count > head_dim for each in (inward, outward)):
        return None
    whole = [
        np.array(named_pairs(each.name, rotary_dim=2 * count, rotary_offset=each.offset))
        for each in (inward, outward)
    ]
    rank = {(*a, *b): i for i, (a, b) in enumerate(zip(*(w.tolist() for w in whole), strict=True))}
    ranks = [rank.get((*a, *b)) for a, b in zip(read.tolist(), written.tolist(), strict=True)]
    found = np.zeros(count, bool)
    found[[place for place in ranks if place is not None]] = True
    strange = np.array([place is None for place in ranks])
    if found.sum() < _MOST * len(read) or (strange & sure).any():
        return None
    return Arrangement(
        read=whole[0], written=whole[1], found=found, open_end=not counts, named=True
    )
