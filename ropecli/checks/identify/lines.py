"""Phases of rotated pairs, and a line through those of each (Eq. 30)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, Complex, Index, evenly_spread
from ropecli.checks.identify.observe import Observations
from ropecli.checks.identify.planes import fit_plane
from ropecli.rotary.pairs import as_complex
from ropecli.units import TINY

CLEARLY = 6.0  #: Standard deviations that chance does not reach.
_BETTER = 8.0  #: Residual of one axis, at least, relative to that of several.
_FOLLOWED = 0.5  #: Radians, root mean square, up to which phases are on the line of a stretch.
_WIDER = 3.0  #: Length of a stretch of positions, relative to that of the one before.
_PLANES = 8  #: Pairs on no line that are tried first; in a rotation all of them are on planes.
_MOST_TURNS = 4096  #: Whole turns between neighbours to try, if no two are one step apart.


class Phasors(NamedTuple):
    """Factors between vectors before and after as complex numbers; NaN where a pair is zero."""

    rotated: Complex  #: (rows, pairs), after / before, without the attention factor.
    mirrored: Complex  #: (rows, pairs), after / conj(before), without the attention factor.
    disagreement: Array  #: (pairs,), relative difference among the vectors of one position.


def phasors(
    observed: Observations, read: Index, written: Index, factor: float, rows: Index | None = None
) -> Phasors:
    """Measure pairs, read and written at the coordinates given, at all rows or some."""
    x, y = (array if rows is None else array[rows] for array in (observed.x, observed.y))
    z, w = as_complex(x, read), as_complex(y, written) / factor
    weight = (np.abs(z) ** 2).sum(axis=1)
    rotated = (w * z.conj()).sum(axis=1) / np.maximum(weight, TINY)
    mirrored = (w * z).sum(axis=1) / np.maximum(weight, TINY)
    difference = np.abs(w - rotated[:, None] * z) ** 2
    rotated[weight == 0] = mirrored[weight == 0] = np.nan
    disagreement = difference.sum(axis=(0, 1)) / np.maximum(weight.sum(axis=0), TINY)
    return Phasors(rotated, mirrored, np.sqrt(disagreement))


def mean_seen(values: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of each pair over the rows that show it; 0 for one that none shows."""
    return np.asarray(np.where(np.isnan(values), 0, values).sum(axis=0) / count_seen(values))


def count_seen(values: NDArray[Any]) -> Index:
    """Return the number of rows that show each pair, at least 1."""
    return np.asarray(np.maximum((~np.isnan(values)).sum(axis=0), 1))


def wrap(angle: Array | float) -> Array:
    """Return an angle within a half turn."""
    return np.asarray((angle + np.pi) % (2 * np.pi) - np.pi)


def fit_lines(phasor: Complex, positions: Array, unit: float) -> tuple[Array, Array]:
    """Fit a line to the phases of each pair, along the axis of the positions that it follows best.

    A pair that follows several axes at once follows a direction between them.

    Returns:
        A unit vector for each pair, (pairs, axes), and five rows of a number for each: slope and
        intercept of its line, one standard deviation of both, and the root mean square of the
        phases about it.
    """
    axes = np.flatnonzero(np.ptp(positions, axis=0) > 0)
    lines = np.array([_fit_axis(phasor, positions[:, axis], unit) for axis in axes])
    best = lines[:, -1].argmin(axis=0)
    line = np.take_along_axis(lines, best[None, None], axis=0)[0]
    along = np.eye(positions.shape[1])[axes[best]]
    lost = np.flatnonzero((line[-1] > _BETTER * unit) & (len(axes) > 1))
    some = lost[evenly_spread(len(lost), _PLANES)]
    planes = {pair: fit_plane(phasor[:, pair], positions, axes, unit) for pair in some}
    if any(p is not None and p[1][-1] * _BETTER < line[-1, pair] for pair, p in planes.items()):
        # All pairs then, also those that follow other axes too little for it to show by itself.
        for pair in range(len(along)):
            plane = fit_plane(phasor[:, pair], positions, axes, unit)
            if plane is not None and plane[1][-1] < line[-1, pair]:
                along[pair], line[:, pair] = plane
    return along, line


def _fit_axis(phasor: Complex, positions: Array, unit: float) -> Array:
    """Fit lines along one axis, each through the rows that show its pair."""
    seen = ~np.isnan(phasor)
    if seen.all():
        return _fit_full(phasor, positions, unit)
    unknown = np.array([[0, 0, np.pi / _least_gap(np.sort(positions)), np.pi, 0]]).T
    lines = [
        _fit_full(pair[rows, None], positions[rows], unit)
        if len(np.unique(positions[rows])) > 1
        else unknown
        for pair, rows in zip(phasor.T, seen.T, strict=True)
    ]
    return np.concatenate(lines, axis=1)


def _fit_full(phasor: Complex, positions: Array, unit: float) -> Array:
    """Fit lines to pairs that are seen at all positions, from neighbouring ones outward."""
    order = np.argsort(positions, kind="stable")
    u, m = phasor[order], positions[order]
    origin, slope = _start_slopes(u, m)
    intercept = np.angle(u[origin])
    distance = np.abs(m - m[origin])
    held = np.zeros(u.shape[1])  # distance from the origin up to which each line was followed
    alive = np.ones(u.shape[1], bool)
    radius, furthest = _least_gap(m) * 2, distance.max()
    while alive.any():
        near = distance <= radius
        better = _least_squares(
            u[near][:, alive], m[near] - m[origin], slope[alive], intercept[alive]
        )
        good = better[2] < _FOLLOWED
        which = np.flatnonzero(alive)
        slope[which[good]], intercept[which[good]] = better[0][good], better[1][good]
        held[which[good]] = min(radius, furthest)
        alive[which[~good]] = False
        if radius >= furthest:
            break
        radius *= _WIDER
    off = np.angle(phasor * np.exp(-1j * (slope * (positions - m[origin])[:, None] + intercept)))
    rms = np.sqrt((off**2).mean(axis=0))
    near = distance[:, None] <= np.maximum(held, radius / 1e9)
    spread = np.sqrt(np.where(near, (m - m[origin])[:, None] ** 2, 0.0).mean(axis=0))
    noise = rms + unit
    count = np.sqrt(len(m))
    unknown = np.full_like(noise, np.pi / _least_gap(m))
    uncertainty = np.divide(noise, count * spread, out=unknown, where=spread > 0)
    at_zero = noise / count + uncertainty * abs(m[origin])
    return np.array([slope, wrap(intercept - slope * m[origin]), uncertainty, at_zero, rms])


def _least_gap(positions: Array) -> float:
    """Return the least distance between different positions, which are sorted."""
    gap = np.diff(positions)
    return float(gap[gap > 0].min())


def _start_slopes(u: Complex, m: Array) -> tuple[int, Array]:
    """Return the first of two neighbours among sorted positions, and slopes to start from."""
    gap = np.diff(m)
    least = _least_gap(m)
    near = np.flatnonzero(gap == least)
    origin = int(near[np.abs(m[near]).argmin()])
    turn = (u[near + 1] * u[near].conj()).sum(axis=0)
    slope = np.angle(turn) / least
    multiples = (m - m[0]) / least
    if np.abs(multiples - np.rint(multiples)).max() < 1e-9 or len(np.unique(m)) == 2:
        return origin, slope  # no two positions could distinguish more turns from fewer
    # Other whole turns between these neighbours fit them as well: all rows decide.
    step = np.gcd.reduce(np.rint(np.diff(np.unique(m)) * 2**20).astype(np.int64)) / 2**20
    tried = min(int(least / step), _MOST_TURNS)
    extra = 2 * np.pi * (np.arange(tried) - tried // 2) / least
    some = evenly_spread(len(m), 64)
    best = np.zeros(u.shape[1])
    for pair in range(u.shape[1]):
        angles = np.outer(slope[pair] + extra, m[some] - m[origin])
        score = np.abs((u[some, pair] * np.exp(-1j * angles)).sum(axis=1))
        best[pair] = slope[pair] + extra[score.argmax()]
    return origin, best


def _least_squares(
    u: Complex, m: Array, slope: Array, intercept: Array
) -> tuple[Array, Array, Array]:
    """Improve slopes and intercepts that are nearly right; return them and what they leave, rms."""
    off = np.angle(u * np.exp(-1j * (slope * m[:, None] + intercept)))
    centre = m.mean()
    spread = ((m - centre) ** 2).sum()
    step = ((m - centre)[:, None] * off).sum(axis=0) / spread if spread > 0 else 0 * slope
    shift = off.mean(axis=0) - step * centre
    left = np.sqrt(((off - step * m[:, None] - shift) ** 2).mean(axis=0))
    return slope + step, intercept + shift, left
