"""The formula that explains the phases, from which position on, and in what precision."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.family import Fit, fits
from ropecli.checks.identify.phases import mean, turns
from ropecli.checks.identify.precision import Precision, angle_roundings, precision_of
from ropecli.checks.identify.scaled import FACTOR
from ropecli.checks.identify.start import start_of
from ropecli.checks.identify.table import (
    CLEARLY,
    FLOAT32,
    Seen,
    geometric_start,
    is_round,
    roundings,
)
from ropecli.units import SINGLE, TINY, UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.identify.measured import Measured
    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]

_HALF = (UNIT["float16"], UNIT["bfloat16"])  #: Relative rounding of float16 and bfloat16.
_ROWS = 512  #: Positions on which a formula is judged, the furthest among them.
_NEAR = 8.0  #: By how much less a formula may explain than a table that is only measured.
#: Relative: CLEARLY times it are less than neighbours are apart, 13 % in 64 pairs of base 10,000.
_LOST = 0.02
_SLACK = 2.0**-6  #: Radians that rounding in half precision may add to a phase.
FULL = ("exact", "float32 angles")


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """Positions are step * those given + start, and pairs turn by table radians for each."""

    fit: Fit | None  #: None for a table that no formula gives.
    table: Array  #: (pairs,), at least 0.
    step: float
    factor: float  #: The attention factor.
    start: Array  #: (axes,).
    consistent: bool  #: Whether one start explains the phases of all pairs.
    precision: Precision

    @property
    def full(self) -> bool:
        """Whether nothing but rounding in full precision is left."""
        return self.consistent and self.precision.name in FULL

    @property
    def exact(self) -> bool:
        """Whether not even float32 was used."""
        return self.consistent and self.precision.name == FULL[0]


def explained(
    seen: Measured, sight: Sight, attention: tuple[float, float], sign: int
) -> Explanation:
    """The simplest formula that leaves nothing unexplained, or what comes closest.

    Args:
        seen: Frequencies and phases, sign * slope at least 0.
        sight: The data.
        attention: The attention factor as measured, and its relative error.
        sign: 1, or -1 where positions turn backward.
    """
    factor = attention[0]
    judge = _Judge(seen=seen, sight=sight, attention=attention, sign=sign)
    turning = seen.visible | _displaced(seen, sight, factor)
    theta = np.where(turning, np.maximum(sign * seen.slope, TINY), 0.0)
    own = judge(None, theta, 1.0, full=True)
    partly: list[Explanation] = []
    for relative in (FLOAT32, *_HALF):
        for step, fit in _formulas(seen, sight, factor, sign, relative):
            found = judge(fit, fit.table, step, full=relative == FLOAT32)
            if found.exact:
                return found
            if relative != FLOAT32 and _settles(found):
                return found
            partly.append(found)
        if rounded := [each for each in partly if each.full]:
            return _exact_if(rounded[0], own)
    known = [each for each in partly if each.consistent and each.fit and each.fit.is_round]
    if own.exact or (own.full and not known):
        return own  # a formula that is off by more than it may be is better than a table so rough
    if not any(map(_settles, partly)):
        partly = [judge(each.fit, each.table, each.step, full=False) for each in partly[:4]]
    good = [each for each in partly if _settles(each)]
    better = [each for each in partly if each.consistent]
    tried = good or [*better, own]
    least = min(each.precision.left for each in tried)
    return next(each for each in tried if each.precision.left <= _NEAR * least)  # the simplest


def _displaced(seen: Measured, sight: Sight, factor: float) -> NDArray[np.bool_]:
    """Pairs that stand elsewhere than at position 0, though too few positions show them turning."""
    phasor = turns(sight, seen.read, seen.written, factor).turned
    middle = mean(phasor)
    noise = np.sqrt(mean(np.abs(phasor - middle) ** 2) / _count(phasor)) + sight.unit
    away: NDArray[np.bool_] = seen.found & (np.abs(middle - 1) > 2 * CLEARLY * noise)
    return away & sight.known


def _count(phasor: NDArray[np.complex128]) -> NDArray[np.int64]:
    """Rows where each pair was seen, at least 1."""
    return np.asarray(np.maximum((~np.isnan(phasor)).sum(axis=0), 1))


def _exact_if(found: Explanation, own: Explanation) -> Explanation:
    """Numbers that are not round are only measured: what they leave says nothing of precision."""
    if found.fit is None or found.fit.is_round or not own.full:
        return found
    table = np.where(own.table > 0, own.table, found.table)
    return replace(found, table=table, precision=own.precision)


def _settles(found: Explanation) -> bool:
    return found.consistent and found.precision.explains


def _formulas(
    seen: Measured, sight: Sight, factor: float, sign: int, relative: float
) -> Iterator[tuple[float, Fit]]:
    """Steps of the positions and formulas that fit the frequencies, simple ones first."""
    theta = sign * seen.slope
    uncertainty = np.where(seen.follows, seen.uncertainty, np.abs(theta) * _LOST)
    if relative in _HALF:  # tables rounded so far tilt the line of a pair that hardly turns
        uncertainty = uncertainty + relative / 2 / sight.reach[seen.axis]
    table = Seen(
        theta=theta,
        uncertainty=uncertainty,
        relative=relative,
        head_dim=sight.head_dim,
        axis=seen.axis,
    )
    found = geometric_start(table)
    steps = [1.0]
    if found is not None:
        # The line through logarithms begins with the first frequency, or through others near it.
        sure = 4 * relative + float(table.tolerance[0] / abs(theta[0]))
        if math.exp(found[0]) > 1 + sure:
            steps = roundings(math.exp(found[0]), sure)
    for step in steps:
        scaled = replace(table, theta=theta / step, uncertainty=table.uncertainty / step)
        for fit in fits(scaled, _dims(seen), factor):
            if fit.off > 1:
                break
            yield step, fit


def _dims(seen: Measured) -> tuple[int, ...]:
    """Denominators that exponents may have: pairs found, and coordinates that move."""
    count = 2 * len(seen.slope)
    if seen.named:
        return (count,)
    moving = int(seen.pairing.moved.sum())
    return tuple(dict.fromkeys((count, moving + moving % 2)))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Judge:
    """Puts tables to the phases that were seen."""

    seen: Measured
    sight: Sight
    attention: tuple[float, float]
    sign: int

    def __call__(self, fit: Fit | None, table: Array, step: float, *, full: bool) -> Explanation:
        """Judge a table; with full, by the tolerance of full precision alone."""
        rows, kept = self._rows(), self.seen.found | self.seen.visible
        factor, consistent = self._factor(fit, full=full)
        phasor = turns(
            self.sight, self.seen.read[kept], self.seen.written[kept], factor, rows
        ).turned
        axis = self.seen.axis[kept]
        points = self.seen.positions[rows] * step
        start = np.zeros(points.shape[1])
        measured = fit is None or not is_round(fit.base)
        for which in np.unique(axis):
            pairs = np.flatnonzero(kept)[axis == which]
            pairs = pairs[table[pairs] != 0]
            if len(pairs):
                start[which], fits_all = self._start(
                    points[:, which], table, step, pairs, full=full, measured=measured
                )
                consistent &= fits_all
        m = (points + start)[:, axis]
        if consistent and measured:
            table = self._sharpened(fit, table, phasor, m, kept)
        precision = precision_of(
            phasor,
            m,
            self.sign * table[kept],
            unit=self.sight.unit,
            factor=factor,
            halves=not full,
        )
        return Explanation(
            fit=fit,
            table=table,
            step=step,
            factor=factor,
            start=start,
            consistent=consistent,
            precision=precision,
        )

    def _factor(self, fit: Fit | None, *, full: bool) -> tuple[float, bool]:
        """The attention factor, the formula's if it has one; and whether that is near enough."""
        seen, sure = self.attention
        if fit is None or fit.attention_factor == 1:
            return seen, True
        near = abs(fit.attention_factor - seen) <= max(4 * sure, 0 if full else FACTOR) * seen
        return (fit.attention_factor if near else seen), near

    def _start(
        self, m: Array, table: Array, step: float, pairs: Index, *, full: bool, measured: bool
    ) -> tuple[float, bool]:
        """The start of the pairs of one axis: by the table, or by the lines that were seen."""
        theta = self.sign * table[pairs]
        if not full:
            follow = self.seen.follows[pairs]
            pairs, theta = pairs[follow], self.seen.slope[pairs][follow] / step
            slack = np.maximum(_SLACK, _HALF[0] / 2 * np.abs(theta) * float(np.abs(m).max()))
            return start_of(theta, self.seen.intercept[pairs], self.seen.loose[pairs], slack)
        rows = self._rows()
        phasor = turns(
            self.sight, self.seen.read[pairs], self.seen.written[pairs], self.attention[0], rows
        ).turned
        angle = m[:, None] * theta
        left = phasor * np.exp(-1j * angle)
        middle = mean(left)
        noise = np.sqrt(mean(np.abs(left - middle) ** 2)) + self.sight.unit
        loose = noise / np.sqrt(_count(left))
        if measured:
            loose = loose + self.seen.uncertainty[pairs] / step * abs(float(m.mean()))
        single = SINGLE * angle_roundings(theta) * np.abs(angle).max(axis=0)
        rounding = np.maximum(2 * self.sight.unit, single)
        return start_of(theta, np.angle(middle), loose, rounding)

    def _sharpened(
        self,
        fit: Fit | None,
        table: Array,
        phasor: NDArray[np.complex128],
        m: Array,
        kept: NDArray[np.bool_],
    ) -> Array:
        """The table corrected by what it leaves of the phases, now that positions are known.

        Each frequency by itself, or all by the one base that they come from.
        """
        theta = table.copy()
        m = np.where(np.isnan(phasor), 0.0, m)  # where a pair was not seen, nothing is off
        phasor = np.where(np.isnan(phasor), 1.0, phasor)
        for _ in range(3):
            left = np.angle(phasor * np.exp(-1j * self.sign * m * theta[kept])) * self.sign
            if fit is None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    step = np.nan_to_num((m * left).sum(axis=0) / (m**2).sum(axis=0))
                    turn = np.nan_to_num(2 * np.pi / np.abs(m.mean(axis=0)), posinf=0.0)
                better = theta[kept] + step
                better = np.where(better < 0, better + turn, better)
                theta[kept] = np.where(theta[kept] > 0, better, 0.0)
            else:
                slope = m * self._by_base(fit, theta)[kept]
                total = (slope**2).sum()
                if total == 0:
                    break
                theta = theta + self._by_base(fit, theta) * (slope * left).sum() / total
        return theta

    @staticmethod
    def _by_base(fit: Fit, theta: Array) -> Array:
        """What the frequencies change by with the logarithm of the base."""
        return -theta * 2 * np.arange(len(theta)) / fit.dim

    def _rows(self) -> Index:
        count = len(self.sight.positions)
        furthest = int(np.abs(self.sight.positions).max(axis=1).argmax())
        spread = np.linspace(0, count - 1, min(count, _ROWS)).astype(int)
        return np.unique(np.append(spread, furthest))
