"""The formula, position offset and precision that explain the phases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ropecli.arrays import Array, Complex, Index, Mask, evenly_spread
from ropecli.checks.accuracy import angle_roundings, formula_roundings, phase_tolerance
from ropecli.checks.identify.family import (
    FACTOR,
    Fit,
    Frequencies,
    fit_formulas,
    fit_geometric,
    is_round,
    round_numbers,
)
from ropecli.checks.identify.lines import CLEARLY, count_seen, mean_seen, phasors, wrap
from ropecli.checks.identify.observe import HALVES, round_to
from ropecli.checks.identify.precision import FULL, Precision, find_precision
from ropecli.checks.identify.table import Measurement
from ropecli.rotary.formula import Formula
from ropecli.units import SINGLE, TINY, UNIT

_HALF = (UNIT["float16"], UNIT["bfloat16"])
_ROWS = 512  #: Positions on which a formula is judged, the furthest among them.
_NEAR = 8.0  #: Error of the simplest formula, at most, relative to that of the closest table.
#: Relative uncertainty of a slope whose phases are on no line: CLEARLY times it is less than the
#: distance of neighbours, 13 % in 64 pairs of base 10,000.
_LOST = 0.02
_APART = 16  #: Distance of numbers in half precision, at least, over the error of a frequency.
_FEWEST = 6  #: Frequencies that show that all are in half precision.
_ROUNDINGS = 4  #: Of a frequency in half precision: a quotient, a power, its inverse, its cast.
_SLACK = 2.0**-6  #: Radians that rounding in half precision may add to a phase.
_TURNS = 64  #: Whole turns of the slowest pair before position 0 to try.
_STATIC = 2.0**-100  #: Radians per position, too few to divide by.
_SURE = 0.5  #: Radians that a guess may be off for the next faster pair to refine it.


@dataclass(frozen=True, kw_only=True, eq=False)
class Explanation:
    """Positions are step * those given + offset, and pairs rotate by table radians for each."""

    fit: Fit | None  #: None for a table that no formula gives.
    table: Array  #: (pairs,), at least 0.
    step: float
    factor: float  #: The attention factor.
    offset: Array  #: (axes,).
    consistent: bool  #: Whether one offset explains the phases of all pairs.
    precision: Precision

    @property
    def formula(self) -> Formula | None:
        """The formula of the table, if there is one."""
        return None if self.fit is None else self.fit.formula

    @property
    def is_round(self) -> bool:
        """True if the table is that of round numbers in a formula."""
        return self.fit is not None and self.fit.is_round

    @property
    def full(self) -> bool:
        """True if nothing but rounding in full precision is left."""
        return self.consistent and self.precision.name in FULL

    @property
    def exact(self) -> bool:
        """True if nothing but rounding in float64 is left."""
        return self.consistent and self.precision.name == FULL[0]

    @property
    def complete(self) -> bool:
        """True if nothing but rounding in some precision is left."""
        return self.consistent and self.precision.explains


def explain(measured: Measurement) -> Explanation:
    """Return the simplest formula that leaves nothing unexplained, or what comes closest."""
    pairs = measured.pairs
    turning = pairs.turning | _displaced_pairs(measured)
    theta = np.where(turning, np.maximum(measured.sign * pairs.slope, TINY), 0.0)
    plain = _Trial(measured, None, theta, 1.0, full=True).explain()
    partly: list[Explanation] = []
    for unit in (SINGLE, *_HALF):
        for step, fit in _fit_steps(measured, unit):
            found = _Trial(measured, fit, fit.table, step, full=unit == SINGLE).explain()
            if found.exact or (unit != SINGLE and found.complete):
                return found
            partly.append(found)
        if rounded := [explanation for explanation in partly if explanation.full]:
            return _keep_measured(rounded[0], plain)
    known = [
        explanation for explanation in partly if explanation.consistent and explanation.is_round
    ]
    if plain.exact or (plain.full and not known):
        half = _half_of_table(measured, plain.table)
        if half is not None:
            named = replace(plain.precision, name=f"{half} frequencies")
            return replace(plain, precision=named)
        return plain  # better than a formula that is off by more than its tolerance
    if not any(explanation.complete for explanation in partly):
        partly = [
            _Trial(
                measured, explanation.fit, explanation.table, explanation.step, full=False
            ).explain()
            for explanation in partly[:4]
        ]
    tried = [explanation for explanation in partly if explanation.complete]
    tried = tried or [*(explanation for explanation in partly if explanation.consistent), plain]
    least = min(explanation.precision.left for explanation in tried)
    return next(
        explanation for explanation in tried if explanation.precision.left <= _NEAR * least
    )  # the simplest


def _displaced_pairs(measured: Measurement) -> Mask:
    """Return pairs that are off their place at position 0, if too slow to be seen turning."""
    pairs, observed = measured.pairs, measured.observed
    phasor = phasors(observed, pairs.read, pairs.written, measured.factor).rotated
    middle = mean_seen(phasor)
    noise = np.sqrt(mean_seen(np.abs(phasor - middle) ** 2) / count_seen(phasor)) + observed.unit
    away: Mask = pairs.shown & (np.abs(middle - 1) > 2 * CLEARLY * noise)
    return away & observed.known


def _half_of_table(measured: Measurement, table: Array) -> str | None:
    """Return the half precision that a formula's frequencies were computed in, or None.

    All are numbers of it, and near the formula's, but not those rounded once: a power may be
    rounded first, and its inverse after that.
    """
    pairs = measured.pairs
    off = CLEARLY * pairs.slope_uncertainty + SINGLE * table
    for name, unit in zip(reversed(HALVES), reversed(_HALF), strict=True):
        sure = pairs.turning & (off * _APART < unit * table)
        on_grid = (np.abs(table - round_to(table, name)) <= off)[pairs.turning].all()
        if sure.sum() >= _FEWEST and on_grid and any(_fit_steps(measured, _ROUNDINGS * unit)):
            return name
    return None


def _keep_measured(found: Explanation, own: Explanation) -> Explanation:
    """Use the measured table and its precision if a formula's parameters are only measured, too."""
    if found.is_round or not own.full:
        return found
    table = np.where(own.table > 0, own.table, found.table)
    return replace(found, table=table, precision=own.precision)


def _fit_steps(measured: Measurement, unit: float) -> Iterator[tuple[float, Fit]]:
    """Yield steps of the positions and formulas that fit the frequencies, simple ones first.

    Where several axes rotate a pair, frequencies are learned, and no formula gives them.
    """
    pairs = measured.pairs
    if pairs.is_mixed:
        return
    theta = measured.sign * pairs.slope
    uncertainty = np.where(pairs.linear, pairs.slope_uncertainty, np.abs(theta) * _LOST)
    relative = np.full(len(theta), unit)
    if unit == SINGLE:
        relative *= angle_roundings(theta)
    else:  # tables rounded so far tilt the line of a pair that hardly turns
        uncertainty = uncertainty + unit / 2 / pairs.furthest(measured.observed.reach)
    seen = Frequencies(
        theta=theta,
        uncertainty=uncertainty,
        relative=relative,
        head_dim=measured.observed.head_dim,
        axis=pairs.axis,
    )
    geometric = fit_geometric(seen)
    steps = [1.0]
    if geometric is not None:
        # The line through logarithms begins with the first frequency, or through others near it.
        sure = 4 * relative[: geometric[2]].max() + float(seen.tolerance[0] / abs(theta[0]))
        if math.exp(geometric[0]) > 1 + sure:
            steps = round_numbers(math.exp(geometric[0]), sure)
            if abs(steps[-1] / (2 * math.pi) - 1) <= sure:  # positions that are turns
                steps.insert(0, 2 * math.pi)
    dims: tuple[int, ...] = (2 * len(pairs),)
    if not measured.named:  # exponents may count all coordinates that move
        moving = int(measured.pairing.moved.sum())
        dims = tuple(dict.fromkeys((*dims, moving + moving % 2)))
    for step in steps:
        scaled = replace(seen, theta=theta / step, uncertainty=seen.uncertainty / step)
        for fit in fit_formulas(scaled, dims, measured.factor):
            if fit.misfit > 1:
                break
            yield step, fit


@dataclass(frozen=True, eq=False)
class _Trial:
    """A table of frequencies, compared with the phases that were observed."""

    measured: Measurement
    fit: Fit | None  #: What made the table; None for one that was measured.
    table: Array
    step: float  #: Of the positions.
    full: bool  #: Whether to keep to the tolerance of full precision.

    def explain(self) -> Explanation:
        """Explain the phases by the table."""
        pairs, table = self.measured.pairs, self.table
        rows, kept = self._rows(), pairs.shown | pairs.turning
        factor, consistent = self._attention_factor()
        phasor = self._phasor(kept, factor)
        points = self.measured.positions[rows] * self.step
        offset = np.zeros(points.shape[1])
        for axis in np.unique(pairs.axis[kept]):
            members = np.flatnonzero(kept & (pairs.axis == axis) & (table != 0))
            if len(members):
                offset[axis], fits_all = self._offset(points, members)
                consistent &= fits_all
        if pairs.is_mixed and offset.any():
            consistent = False  # a pair does not tell the offsets of its axes apart
        points = points + offset
        m = pairs[kept].follow(points)
        if consistent and self._is_measured:
            table = self._refine_frequencies(phasor, m, kept)
        precision = find_precision(
            phasor,
            m,
            self.measured.sign * table[kept],
            self._roundings(table)[kept],
            unit=self.measured.observed.unit,
            factor=factor,
            furthest=pairs[kept].furthest(points),
            halves=not self.full,
        )
        return Explanation(
            fit=self.fit,
            table=table,
            step=self.step,
            factor=factor,
            offset=offset,
            consistent=consistent,
            precision=precision,
        )

    @property
    def _is_measured(self) -> bool:
        return self.fit is None or not is_round(self.fit.base)

    def _roundings(self, table: Array) -> Array:
        return formula_roundings(table, None if self.fit is None else self.fit.formula)

    def _rows(self) -> Index:
        positions = self.measured.observed.positions
        furthest = int(np.abs(positions).max(axis=1).argmax())
        return np.union1d(evenly_spread(len(positions), _ROWS), furthest)

    def _phasor(self, which: Mask | Index, factor: float) -> Complex:
        pairs, observed = self.measured.pairs[which], self.measured.observed
        return phasors(observed, pairs.read, pairs.written, factor, self._rows()).rotated

    def _attention_factor(self) -> tuple[float, bool]:
        """Return the factor, the formula's if it has one, and whether that is near enough."""
        measured = self.measured.factor
        if self.fit is None or self.fit.attention_factor == 1:
            return measured, True
        tolerance = max(4 * self.measured.factor_uncertainty, 0 if self.full else FACTOR)
        near = abs(self.fit.attention_factor - measured) <= tolerance * measured
        return (self.fit.attention_factor if near else measured), near

    def _offset(self, points: Array, own: Index) -> tuple[float, bool]:
        """Return the offset of one axis, by the table or else by the lines, and whether it fits."""
        pairs, unit = self.measured.pairs[own], self.measured.observed.unit
        m, furthest = pairs.follow(points), pairs.furthest(points)
        if not self.full:
            m, pairs = m[:, pairs.linear], pairs[pairs.linear]
            theta = pairs.slope / self.step
            longest = float(np.abs(m).max(initial=0.0))
            slack = np.maximum(_SLACK, _HALF[0] / 2 * np.abs(theta) * longest)
            return position_offset(theta, pairs.intercept, pairs.intercept_uncertainty, slack)
        theta = self.measured.sign * self.table[own]
        angle = m * theta
        left = self._phasor(own, self.measured.factor) * np.exp(-1j * angle)
        middle = mean_seen(left)
        noise = np.sqrt(mean_seen(np.abs(left - middle) ** 2)) + unit
        uncertainty = noise / np.sqrt(count_seen(left))
        if self._is_measured:
            uncertainty = uncertainty + pairs.slope_uncertainty / self.step * np.abs(m.mean(axis=0))
        # An offset makes positions of it that may be off by a rounding, even of a pair that is not.
        roundings = np.maximum(self._roundings(self.table)[own], 1)
        single = phase_tolerance(furthest, theta, roundings).max(axis=0)
        return position_offset(theta, np.angle(middle), uncertainty, np.maximum(2 * unit, single))

    def _refine_frequencies(self, phasor: Complex, m: Array, kept: Mask) -> Array:
        """Correct each frequency by the phases that it leaves, or all by their common base."""
        theta, sign = self.table.copy(), self.measured.sign
        m = np.where(np.isnan(phasor), 0.0, m)  # rows that do not show a pair must not move it
        phasor = np.where(np.isnan(phasor), 1.0, phasor)
        for _ in range(3):
            left = np.angle(phasor * np.exp(-1j * sign * m * theta[kept])) * sign
            if self.fit is None:
                with np.errstate(divide="ignore", invalid="ignore"):
                    step = np.nan_to_num((m * left).sum(axis=0) / (m**2).sum(axis=0))
                    turn = np.nan_to_num(2 * np.pi / np.abs(m.mean(axis=0)), posinf=0.0)
                better = theta[kept] + step
                better = np.where(better < 0, better + turn, better)
                theta[kept] = np.where(theta[kept] > 0, better, 0.0)
            else:
                by_base = -theta * 2 * np.arange(len(theta)) / self.fit.dim  # d theta / d ln(base)
                slope = m * by_base[kept]
                total = (slope**2).sum()
                if total == 0:
                    break
                theta = theta + by_base * (slope * left).sum() / total
        return theta


def position_offset(
    theta: Array, phase: Array, uncertainty: Array, slack: Array | float
) -> tuple[float, bool]:
    """Return the position at which phases begin, and whether it explains them all (Eq. 30, 33).

    Phases at 0 are frequencies times the offset. Slow pairs show it roughly and without whole turns
    in doubt, faster ones refine it. 0 is preferred if it explains everything.
    """
    tolerance = CLEARLY * uncertainty + slack
    if (np.abs(wrap(phase)) <= tolerance).all():
        return 0.0, True
    slowest = int(np.where(np.abs(theta) > _STATIC, np.abs(theta), np.inf).argmin())
    first = (0.0, False)
    for turn in sorted(range(-_TURNS, _TURNS + 1), key=abs):
        guess = (phase[slowest] + 2 * np.pi * turn) / theta[slowest]
        offset = _refine_offset(float(guess), theta, phase, tolerance)
        if offset[1]:
            return offset
        first = offset if turn == 0 else first
    return first


def _refine_offset(
    guess: float, theta: Array, phase: Array, tolerance: Array
) -> tuple[float, bool]:
    """Refine a guess from the slowest pair by each faster pair for which it is sure enough."""
    error = np.inf
    for pair in np.argsort(np.abs(theta)):
        rate = abs(theta[pair])
        if rate <= _STATIC:
            continue
        if np.isfinite(error) and rate * error > _SURE:
            continue
        guess += float(wrap(phase[pair] - theta[pair] * guess)) / float(theta[pair])
        error = min(error, float(tolerance[pair] / rate))
    if np.isfinite(error) and abs(guess - round(guess)) <= error:
        guess = float(round(guess))
    left = np.abs(wrap(phase - theta * guess))
    fits_all = (left <= tolerance + np.abs(theta) * error).all()
    return guess, bool(np.isfinite(error) and fits_all)
