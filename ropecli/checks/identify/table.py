"""The table of rotated pairs: layout, order, axis, frequency and direction, as measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from ropecli.arrays import Array, Index, Mask
from ropecli.checks.identify.family import round_numbers
from ropecli.checks.identify.lines import CLEARLY, fit_lines, phasors
from ropecli.checks.identify.observe import HALVES, Observations, round_to
from ropecli.checks.identify.pairing import Pairing
from ropecli.rotary.pairs import named_pairs
from ropecli.units import SINGLE

_FOLLOWED = 0.3  #: Radians, root mean square, below which phases are on a line.
_BETTER = 8.0  #: Residual of exact positions, at least, relative to that of rounded ones.
#: Share of the pairs that a layout must explain. Slow ones may have been paired wrongly.
_MOST = 0.8
_LONGER = 1e-3  #: |attention factor - 1| from which it shows in every rotated coordinate.


@dataclass(frozen=True, kw_only=True, eq=False)
class PairTable:
    """Rotated pairs, a row each: their coordinates, and the line through their phases (Eq. 30)."""

    read: Index  #: (pairs, 2), coordinates that each is read from.
    written: Index  #: (pairs, 2), coordinates that it is written to.
    shown: Mask  #: (pairs,), whether the data show the pair, not only its layout.
    along: Array  #: (pairs, axes), unit vector in the direction of the positions that rotate it.
    slope: Array  #: (pairs,), radians per position along it, above 0 for a forward rotation.
    intercept: Array  #: (pairs,), radians at position 0.
    slope_uncertainty: Array  #: (pairs,), one standard deviation.
    intercept_uncertainty: Array  #: (pairs,), one standard deviation.
    rms: Array  #: (pairs,), root mean square of its phases about the line, radians.
    disagreement: Array  #: (pairs,), relative difference among the vectors of one position.
    mirrored: Mask  #: (pairs,), whether it is a reflection that follows a line.
    spacing: Index  #: (pairs,), common divisor of the distances of its positions; 0 if not whole.

    def __len__(self) -> int:
        return len(self.slope)

    def __getitem__(self, rows: slice | Mask | Index) -> PairTable:
        return PairTable(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @property
    def axis(self) -> Index:
        """The axis that each pair follows, or follows most, (pairs,)."""
        return np.asarray(np.abs(self.along).argmax(axis=1))

    @property
    def is_mixed(self) -> bool:
        """True if several axes rotate a pair."""
        return bool((np.count_nonzero(self.along, axis=1) > 1).any())

    def follow(self, positions: Array) -> Array:
        """Return the position that each pair follows, (rows, pairs)."""
        return np.asarray(positions @ self.along.T)

    def furthest(self, positions: Array) -> Array:
        """Return the distances from 0 that rounding is relative to, (rows, pairs)."""
        return np.asarray(np.abs(positions) @ np.abs(self.along.T))

    @property
    def turning(self) -> Mask:
        """Pairs that clearly turn with the position."""
        return np.asarray(np.abs(self.slope) > CLEARLY * self.slope_uncertainty)

    @property
    def linear(self) -> Mask:
        """Pairs whose phases are on a line."""
        return np.asarray(self.rms < _FOLLOWED)


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A rotation as it was measured."""

    observed: Observations
    pairing: Pairing
    pairs: PairTable  #: In the order of a table of frequencies.
    named: bool  #: Whether the layout has a name.
    open_end: bool  #: Whether the layout leaves open how many pairs there are (interleaved).
    rounded: str  #: What positions were rounded to: one of HALVES, or "exact".
    positions: Array  #: (rows, axes), rounded so.
    sign: int = 1  #: -1 if pairs turn in reverse.

    @property
    def factor(self) -> float:
        """Attention factor, 1 if rounding may have made the difference."""
        if abs(self.pairing.factor - 1) <= self.factor_uncertainty:
            return 1.0
        return round_numbers(self.pairing.factor, self.factor_uncertainty / 4)[0]

    @property
    def factor_uncertainty(self) -> float:
        """Relative uncertainty of the factor: four standard deviations of a mean over all rows."""
        observed = self.observed
        deviation = max(observed.unit, self.pairing.spread) / math.sqrt(len(observed.positions))
        return max(4 * deviation, 2 * SINGLE)  # under float64 data tables may be in float32

    @property
    def direction(self) -> str:
        """Direction of the rotation."""
        return "forward" if self.sign == 1 else "reversed"


def measure(observed: Observations, pairing: Pairing) -> Measurement:
    """Put pairs, of which there are some, in order, and fit a line to the phases of each."""
    rounded, positions, pairs = _fit_positions(observed, pairing)
    if pairs.mirrored.any():
        # y = (sin x + cos x', cos x - sin x') is a rotation whose two outputs are exchanged, if
        # nothing is rotated at position 0.
        written = np.where(pairs.mirrored[:, None], pairing.written[:, ::-1], pairing.written)
        pairing = replace(pairing, written=written, swapped=True)
        pairs = _fit_pairs(observed, pairing, positions)
    order = _arrange(pairs, observed.head_dim)
    pairing = replace(pairing, read=order.read, written=order.written)
    pairs = _fit_pairs(observed, pairing, positions)
    return Measurement(
        observed=observed,
        pairing=pairing,
        pairs=replace(pairs, slope=_resolve_aliases(pairs), shown=order.shown),
        named=order.named,
        open_end=order.open_end,
        rounded=rounded,
        positions=positions,
    )


def _fit_positions(observed: Observations, pairing: Pairing) -> tuple[str, Array, PairTable]:
    """Return the name and values of positions, exact or rounded, that the phases follow best."""
    best, least = ("exact", observed.positions), np.inf
    for name in ("exact", *HALVES):
        positions = round_to(observed.positions, name)
        if name != "exact":
            if least <= _BETTER * observed.unit:
                break
            if (positions == observed.positions).all():
                continue
            if not np.isfinite(positions).all() or not np.ptp(positions, axis=0).any():
                continue
        fitted = _fit_pairs(observed, pairing, positions)
        left = float(np.sqrt((fitted.rms**2).mean())) + observed.unit
        if left * _BETTER < least:
            best, least, pairs = (name, positions), left, fitted
    return *best, pairs


def _fit_pairs(observed: Observations, pairing: Pairing, positions: Array) -> PairTable:
    """Fit a line to each pair, along the axis that it follows best."""
    seen = phasors(observed, pairing.read, pairing.written, pairing.factor)
    along, line = fit_lines(seen.rotated, positions, observed.unit)
    slope, intercept, slope_uncertainty, intercept_uncertainty, rms = line
    mirrored = np.zeros(len(along), bool)
    lost = np.flatnonzero(rms > _FOLLOWED)
    if len(lost):
        again = fit_lines(seen.mirrored[:, lost], positions, observed.unit)[1]
        mirrored[lost] = again[-1] < _FOLLOWED
    rows = ~np.isnan(seen.rotated)
    followed = positions @ along.T
    spacing = [_common_divisor(followed[rows[:, i], i]) for i in range(len(along))]
    return PairTable(
        read=pairing.read,
        written=pairing.written,
        shown=np.ones(len(along), bool),
        along=along,
        slope=slope,
        intercept=intercept,
        slope_uncertainty=slope_uncertainty,
        intercept_uncertainty=intercept_uncertainty,
        rms=rms,
        disagreement=seen.disagreement,
        mirrored=mirrored,
        spacing=np.array(spacing),
    )


def _common_divisor(positions: Array) -> int:
    apart = np.diff(np.unique(positions))
    if (apart != np.rint(apart)).any():
        return 0
    return int(np.gcd.reduce(apart.astype(np.int64), initial=0))


class _Layout(NamedTuple):
    name: str
    offset: int
    pairs: int | None  #: Number of pairs, if it follows from the layout.


class _Order(NamedTuple):
    read: Index
    written: Index
    shown: Mask
    named: bool
    open_end: bool


def _arrange(pairs: PairTable, head_dim: int) -> _Order:
    """Put pairs into a named layout, with all that it has, or else fastest first."""
    flipped = (pairs.read[:, 0] > pairs.read[:, 1])[:, None]
    read, written = (
        np.where(flipped, components[:, ::-1], components)
        for components in (pairs.read, pairs.written)
    )
    inward, outward = _layout_of(read, head_dim), _layout_of(written, head_dim)
    if inward and outward:
        sure = pairs.turning & pairs.linear
        if named := _name_order(read, written, inward, outward, sure, head_dim):
            return named
    order = np.argsort(-np.abs(pairs.slope), kind="stable")
    return _Order(read[order], written[order], np.ones(len(pairs), bool), False, False)


def _layout_of(pairs: Index, head_dim: int) -> _Layout | None:
    """Return the layout that most pairs belong to."""
    steps, counts = np.unique(pairs[:, 1] - pairs[:, 0], return_counts=True)
    step = int(steps[counts.argmax()])
    mine = pairs[pairs[:, 1] - pairs[:, 0] == step, 0]
    if step < 1 or len(mine) < _MOST * len(pairs):
        return None
    if step > 1 or head_dim == 2:
        return _Layout("half", offset=int(mine.min()), pairs=step)
    mine = max((mine[mine % 2 == parity] for parity in (0, 1)), key=len)
    return _Layout("interleaved", offset=int(mine.min()), pairs=None)


def _name_order(
    read: Index, written: Index, inward: _Layout, outward: _Layout, sure: Mask, head_dim: int
) -> _Order | None:
    """Return all pairs of two layouts, if most of those read and written are among them."""
    counts = [order.pairs for order in (inward, outward) if order.pairs is not None]
    count = counts[0] if counts else (head_dim - max(inward.offset, outward.offset)) // 2
    if any(order.offset + 2 * count > head_dim for order in (inward, outward)):
        return None
    orders = [
        np.array(named_pairs(order.name, rotary_dim=2 * count, rotary_offset=order.offset))
        for order in (inward, outward)
    ]
    rank = {(*a, *b): i for i, (a, b) in enumerate(zip(*(w.tolist() for w in orders), strict=True))}
    ranks = [rank.get((*a, *b)) for a, b in zip(read.tolist(), written.tolist(), strict=True)]
    shown = np.zeros(count, bool)
    shown[[place for place in ranks if place is not None]] = True
    foreign = np.array([place is None for place in ranks])
    if shown.sum() < _MOST * len(read) or (foreign & sure).any():
        return None
    return _Order(orders[0], orders[1], shown, named=True, open_end=not counts)


def _resolve_aliases(pairs: PairTable) -> Array:
    """Return slopes that are known only up to whole turns in the ratio of the slower pairs."""
    slope = pairs.slope.copy()
    for axis in np.unique(pairs.axis):
        members = np.flatnonzero((pairs.axis == axis) & pairs.turning)
        for here, slower, slowest in reversed(
            list(zip(members, members[1:], members[2:], strict=False))
        ):
            if not pairs.spacing[here] or slope[slower] / slope[slowest] < 1:
                continue
            # With all positions multiples of g apart, theta and theta + 2 pi / g turn alike.
            period = 2 * np.pi / pairs.spacing[here]
            expected = slope[slower] ** 2 / slope[slowest]
            if period / 2 < abs(expected) < np.pi:
                slope[here] += period * np.rint((expected - slope[here]) / period)
    return slope


def trim_unsupported_pairs(measured: Measurement) -> Measurement:
    """Drop pairs at an open end that stand still where the ratio of pairs has them turn."""
    pairs = measured.pairs
    last = int(np.flatnonzero(pairs.shown).max()) + 1
    if not measured.open_end or last == len(pairs):
        return measured
    moved = np.any(measured.pairing.moved[pairs.read], axis=1)
    moved[:last] = True
    end = int(np.flatnonzero(moved).max()) + 1
    expected = extrapolate(pairs)
    # An attention factor would show in every rotated coordinate; and one pair has no ratio.
    if abs(measured.pairing.factor - 1) <= _LONGER and expected is not None:
        static = (expected > CLEARLY * pairs.slope_uncertainty) & ~pairs.turning
        distance = _typical_distance(measured)
        static |= ~moved & (expected * distance > CLEARLY * measured.observed.unit)
        static[:end] = False
        end = int(static.argmax()) if static.any() else len(static)
    return replace(measured, pairs=pairs[:end])


def _typical_distance(measured: Measurement) -> Array:
    """Return the median |position| of each pair; 0 if positions may begin elsewhere."""
    pairs = measured.pairs
    from_zero = np.abs(pairs.intercept) <= CLEARLY * pairs.intercept_uncertainty
    if not measured.observed.known or not from_zero[pairs.turning].all():
        return np.zeros(len(pairs))
    return np.asarray(np.median(np.abs(pairs.follow(measured.positions)), axis=0))


def extrapolate(pairs: PairTable) -> Array | None:
    """Return frequencies of all pairs, in the ratio of the last ones that are seen to turn."""
    turning = np.flatnonzero(pairs.turning & pairs.shown)
    if len(turning) < 2:
        return None
    first, last = turning[max(0, len(turning) - 8)], turning[-1]
    size = np.abs(pairs.slope)
    step = math.log(size[last] / size[first]) / (last - first)
    return np.asarray(size[last] * np.exp(step * (np.arange(len(size)) - last)))


def orient(measured: Measurement) -> Measurement:
    """Let all pairs turn one way.

    A pair that turns the other way is read in reverse: no vectors distinguish the two. In a layout
    without a name, where no coordinate of a pair is the first, all of them turn forward.
    """
    pairs = measured.pairs
    if pairs.is_mixed:  # learned frequencies have either sign
        way = np.where(pairs.slope < 0, -1.0, 1.0)
        along, slope = way[:, None] * pairs.along, way * pairs.slope
        return replace(measured, pairs=replace(pairs, along=along, slope=slope))
    way = np.sign(pairs.slope) * pairs.turning
    sign = 1 if (way > 0).any() else -1
    other = way == -sign
    pairs = replace(
        pairs,
        read=np.where(other[:, None], pairs.read[:, ::-1], pairs.read),
        written=np.where(other[:, None], pairs.written[:, ::-1], pairs.written),
        slope=np.where(other, -pairs.slope, pairs.slope),
        intercept=np.where(other, -pairs.intercept, pairs.intercept),
    )
    return replace(measured, pairs=pairs, sign=sign)
