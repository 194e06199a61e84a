"""Frequency, axis, direction and starting point of every pair, as the data show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.arrangement import arranged
from ropecli.checks.identify.pairing import Pairing
from ropecli.checks.identify.phases import line, root_mean_square, turns
from ropecli.checks.identify.precision import HALVES, rounded_to
from ropecli.checks.identify.table import CLEARLY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]

_BETTER = 8.0  #: By which positions in half precision must explain the data better.
_TURNED = 0.3  #: Radians, root mean square, below which phases follow a line.


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """A rotation as it was seen."""

    pairing: Pairing
    read: Index  #: (pairs, 2), in the order of a table.
    written: Index  #: (pairs, 2).
    found: NDArray[np.bool_]  #: (pairs,), whether the data alone show the pair.
    open_end: bool  #: Whether pairs at the end are in the layout only perhaps.
    named: bool  #: Whether the layout has a name.
    slope: Array  #: (pairs,), radians per position, above 0 for a forward turn.
    intercept: Array  #: (pairs,).
    uncertainty: Array  #: (pairs,), of slope.
    loose: Array  #: (pairs,), of intercept.
    off: Array  #: (rows, pairs), what the lines leave, radians.
    axis: Index  #: (pairs,).
    apart: Array  #: (pairs,), how unlike the vectors of one position are turned.
    mirrored: NDArray[np.bool_]  #: (pairs,), whether it is a reflection that follows a line.
    rounded: str  #: What positions were rounded to: a key of HALVES, or "exact".
    positions: Array  #: (rows, axes), rounded so.

    @property
    def visible(self) -> NDArray[np.bool_]:
        """Pairs that clearly turn."""
        seen: NDArray[np.bool_] = np.abs(self.slope) > CLEARLY * self.uncertainty
        return seen

    @property
    def follows(self) -> NDArray[np.bool_]:
        """Pairs whose phases follow a line."""
        good: NDArray[np.bool_] = root_mean_square(self.off) < _TURNED
        return good


def measured(sight: Sight, pairing: Pairing) -> Measured:
    """The order of pairs, of which there are some, and a line through the phases of each."""
    rounded, positions, first = _positions(sight, pairing)
    if first.mirrored.any():
        pairing = _unmirrored(pairing, first)
        first = _lines(sight, pairing.read, pairing.written, pairing.factor, positions)
    sure = (np.abs(first.slope) > CLEARLY * first.uncertainty) & (
        root_mean_square(first.off) < _TURNED
    )
    order = arranged(pairing, first.slope, sure, sight.head_dim)
    every = _lines(sight, order.read, order.written, pairing.factor, positions)
    turning = np.abs(every.slope) > CLEARLY * every.uncertainty
    slope = _unaliased(every.slope, every.axis, every.gap, turning)
    return Measured(
        pairing=pairing,
        read=order.read,
        written=order.written,
        found=order.found,
        open_end=order.open_end,
        named=order.named,
        slope=slope,
        intercept=every.intercept,
        uncertainty=every.uncertainty,
        loose=every.loose,
        off=every.off,
        axis=every.axis,
        apart=every.apart,
        mirrored=every.mirrored,
        rounded=rounded,
        positions=positions,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Lines:
    slope: Array
    intercept: Array
    uncertainty: Array
    loose: Array
    off: Array
    axis: Index
    apart: Array
    gap: Index  #: What all distances between positions seen are multiples of; 0 if nothing.
    mirrored: NDArray[np.bool_]


def _lines(sight: Sight, read: Index, written: Index, factor: float, positions: Array) -> _Lines:
    """Lines along the axis that each pair follows best."""
    seen = turns(sight, read, written, factor)
    axes = [axis for axis in range(positions.shape[1]) if np.ptp(positions[:, axis]) > 0]
    lines = [line(seen.turned, positions[:, axis], sight.unit) for axis in axes]
    left = np.array([each.rms for each in lines])
    best = left.argmin(axis=0)
    mirrored = np.zeros(len(read), bool)
    lost = np.flatnonzero(left.min(axis=0, initial=np.inf) > _TURNED)
    if len(lost):
        again = [line(seen.mirrored[:, lost], positions[:, a], sight.unit) for a in axes]
        mirrored[lost] = np.array([each.rms for each in again]).min(axis=0) < _TURNED

    def chosen(name: str) -> Array:
        every = np.array([getattr(each, name) for each in lines])
        return np.asarray(np.take_along_axis(every, best[None], axis=0)[0])

    off = np.stack([each.off for each in lines])
    return _Lines(
        slope=chosen("slope"),
        intercept=chosen("intercept"),
        uncertainty=chosen("uncertainty"),
        loose=chosen("loose"),
        off=np.take_along_axis(off, best[None, None], axis=0)[0],
        axis=np.array(axes)[best],
        apart=seen.apart,
        gap=_gaps(positions[:, np.array(axes)[best]], ~np.isnan(seen.turned)),
        mirrored=mirrored,
    )


def _positions(sight: Sight, pairing: Pairing) -> tuple[str, Array, _Lines]:
    """Positions as given, or rounded, whichever the phases follow; and the lines."""

    def followed(positions: Array) -> tuple[_Lines, float]:
        lines = _lines(sight, pairing.read, pairing.written, pairing.factor, positions)
        return lines, float(np.sqrt((lines.off**2).mean())) + sight.unit

    lines, least = followed(sight.positions)
    best = ("exact", sight.positions, lines)
    if least <= _BETTER * sight.unit:
        return best
    for name in HALVES:
        rounded = rounded_to(sight.positions, name)
        if (rounded == sight.positions).all():
            continue
        if not np.isfinite(rounded).all() or not np.ptp(rounded, axis=0).any():
            continue
        lines, left = followed(rounded)
        if left * _BETTER < least:
            best, least = (name, rounded, lines), left
    return best


def _gaps(positions: Array, seen: NDArray[np.bool_]) -> Index:
    """Greatest common divisor of the distances between the positions of each pair, (pairs,)."""
    return np.array([_gap(m[rows]) for m, rows in zip(positions.T, seen.T, strict=True)])


def _gap(positions: Array) -> int:
    apart = np.diff(np.unique(positions))
    if (apart != np.rint(apart)).any():
        return 0
    return int(np.gcd.reduce(apart.astype(np.int64), initial=0))


def _unaliased(slope: Array, axis: Index, gap: Index, turning: NDArray[np.bool_]) -> Array:
    """Frequencies that positions tell only up to whole turns, in the ratio of the slower ones.

    Where all positions are a multiple of g apart, theta and theta + 2 pi / g turn alike.
    """
    slope = slope.copy()
    for each in np.unique(axis):
        own = np.flatnonzero((axis == each) & turning)
        for i in range(len(own) - 3, -1, -1):
            here, next_, after = own[i : i + 3]
            if not gap[here] or slope[next_] / slope[after] < 1:
                continue
            period = 2 * np.pi / gap[here]
            expected = slope[next_] ** 2 / slope[after]
            if period / 2 < abs(expected) < np.pi:
                slope[here] += period * np.rint((expected - slope[here]) / period)
    return slope


def _unmirrored(pairing: Pairing, lines: _Lines) -> Pairing:
    """The pairing with those pairs written the other way round that mirror what they read.

    y = (sin x + cos x', cos x - sin x') is a turn whose two outputs change places, if nothing is
    turned at position 0.
    """
    swap = lines.mirrored
    written = np.where(swap[:, None], pairing.written[:, ::-1], pairing.written)
    return Pairing(
        read=pairing.read,
        written=written,
        moved=pairing.moved,
        single=pairing.single,
        factor=pairing.factor,
        spread=pairing.spread,
        swapped=True,
    )
