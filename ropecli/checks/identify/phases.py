"""How far each pair is turned at each position, and the line through that (Eq. 30)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.units import TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]
    Index = NDArray[np.int64]

_LOST = 0.5  #: Radians, root mean square: more is no line, or a line through wrong turns.
_WIDER = 3.0  #: By how much the stretch of positions grows from one fit to the next.
_TRIED = 4096  #: Whole turns between neighbours that are tried out, where none stand close.


@dataclass(frozen=True, kw_only=True, eq=False)
class Turns:
    """What is seen of each pair at each position: NaN where the pair is zero."""

    turned: NDArray[np.complex128]  #: (rows, pairs): after / before as complex numbers, factor out.
    mirrored: NDArray[np.complex128]  #: after / conj(before) likewise.
    apart: Array  #: (pairs,), how far the vectors of one position are from `turned`, relative.


@dataclass(frozen=True, kw_only=True, eq=False)
class Line:
    """phase = slope * position + intercept, a line for each pair."""

    slope: Array  #: (pairs,), radians per position.
    intercept: Array  #: (pairs,), radians.
    uncertainty: Array  #: Of the slopes.
    loose: Array  #: (pairs,), Of the intercepts.
    off: Array  #: (rows, pairs), radians that are left, within a half turn.

    @property
    def rms(self) -> Array:
        """Root mean square of what is left."""
        return root_mean_square(self.off)


def root_mean_square(off: Array) -> Array:
    """Of each pair, over the rows."""
    return np.asarray(np.sqrt((off**2).mean(axis=0)))


def turns(
    sight: Sight, read: Index, written: Index, factor: float, rows: Index | None = None
) -> Turns:
    """Phases of pairs, read and written where the indices say, at all rows or some."""
    x, y = (each if rows is None else each[rows] for each in (sight.x, sight.y))
    z = x[..., read[:, 0]] + 1j * x[..., read[:, 1]]
    w = (y[..., written[:, 0]] + 1j * y[..., written[:, 1]]) / factor
    weight = (np.abs(z) ** 2).sum(axis=1)
    turned = (w * z.conj()).sum(axis=1) / np.maximum(weight, TINY)
    mirrored = (w * z).sum(axis=1) / np.maximum(weight, TINY)
    difference = np.abs(w - turned[:, None] * z) ** 2
    turned[weight == 0] = mirrored[weight == 0] = np.nan
    apart = np.sqrt(difference.sum(axis=(0, 1)) / np.maximum(weight.sum(axis=0), TINY))
    return Turns(turned=turned, mirrored=mirrored, apart=apart)


def mean(values: NDArray[Any]) -> NDArray[Any]:
    """Of each pair, over the rows where it was seen; 0 of one that never was."""
    seen = ~np.isnan(values)
    return np.asarray(np.where(seen, values, 0).sum(axis=0) / np.maximum(seen.sum(axis=0), 1))


def line(phasor: NDArray[np.complex128], positions: Array, unit: float) -> Line:
    """The line through the phases of each pair, found from neighbours outward.

    Args:
        phasor: (rows, pairs), NaN where a pair was not seen.
        positions: (rows,), not all the same.
        unit: Relative rounding of the data: no phase is known better.
    """
    seen = ~np.isnan(phasor)
    if seen.all():
        return _through_all(phasor, positions, unit)
    lines = []
    for pair, rows in zip(phasor.T, seen.T, strict=True):
        if len(np.unique(positions[rows])) < 2:
            lines.append(_unknown(positions))
            continue
        one = _through_all(pair[rows, None], positions[rows], unit)
        off = np.full((len(positions), 1), float(one.rms[0]))  # what was not seen is as good
        off[rows] = one.off
        lines.append(replace(one, off=off))
    parts = ("slope", "intercept", "uncertainty", "loose", "off")
    return Line(
        **{name: np.concatenate([getattr(each, name) for each in lines], axis=-1) for name in parts}
    )


def _unknown(positions: Array) -> Line:
    """Of a pair that was seen at one position, or none."""
    unknown = np.array([np.pi / float(np.diff(np.unique(positions)).min())])
    none = np.zeros(1)
    return Line(
        slope=none,
        intercept=none,
        uncertainty=unknown,
        loose=np.full(1, np.pi),
        off=np.zeros((len(positions), 1)),
    )


def _through_all(phasor: NDArray[np.complex128], positions: Array, unit: float) -> Line:
    """The lines of pairs that were seen at all positions."""
    order = np.argsort(positions, kind="stable")
    u, m = phasor[order], positions[order]
    start, slope = _closest(u, m)
    intercept = np.angle(u[start])
    distance = np.abs(m - m[start])
    held = np.zeros(u.shape[1])  # how far from the start the line could be followed
    alive = np.ones(u.shape[1], bool)
    radius, furthest = float(np.diff(np.unique(m)).min()) * 2, distance.max()
    while alive.any():
        near = distance <= radius
        better = _fitted(u[near][:, alive], m[near] - m[start], slope[alive], intercept[alive])
        good = better[2] < _LOST
        which = np.flatnonzero(alive)
        slope[which[good]], intercept[which[good]] = better[0][good], better[1][good]
        held[which[good]] = min(radius, furthest)
        alive[which[~good]] = False
        if radius >= furthest:
            break
        radius *= _WIDER
    off = np.angle(phasor * np.exp(-1j * (slope * (positions - m[start])[:, None] + intercept)))
    near = distance[:, None] <= np.maximum(held, radius / 1e9)
    spread = np.sqrt(np.where(near, (m - m[start])[:, None] ** 2, 0.0).mean(axis=0))
    noise = root_mean_square(off) + unit
    count = np.sqrt(len(m))
    unknown = np.pi / float(np.diff(np.unique(m)).min())
    uncertainty = np.divide(
        noise, count * spread, out=np.full_like(noise, unknown), where=spread > 0
    )
    return Line(
        slope=slope,
        intercept=wrapped(intercept - slope * m[start]),
        uncertainty=uncertainty,
        loose=noise / count + uncertainty * abs(m[start]),
        off=off,
    )


def _closest(u: NDArray[np.complex128], m: Array) -> tuple[int, Array]:
    """The first of two neighbours among sorted positions, and the slopes that all of them show."""
    gap = np.diff(m)
    smallest = gap[gap > 0].min()
    near = np.flatnonzero(gap == smallest)
    start = int(near[np.abs(m[near]).argmin()])
    turn = (u[near + 1] * u[near].conj()).sum(axis=0)
    slope = np.angle(turn) / smallest
    whole = (m - m[0]) / smallest
    if np.abs(whole - np.rint(whole)).max() < 1e-9 or len(np.unique(m)) == 2:
        return start, slope  # no two positions could tell more turns from fewer
    # Neighbours stand apart: other whole turns between them are as good, until all rows are asked.
    step = np.gcd.reduce(np.rint(np.diff(np.unique(m)) * 2**20).astype(np.int64)) / 2**20
    tried = min(int(smallest / step), _TRIED)
    extra = 2 * np.pi * (np.arange(tried) - tried // 2) / smallest
    some = np.unique(np.linspace(0, len(m) - 1, 64).astype(int))
    best = np.zeros(u.shape[1])
    for pair in range(u.shape[1]):
        angles = np.outer(slope[pair] + extra, m[some] - m[start])
        score = np.abs((u[some, pair] * np.exp(-1j * angles)).sum(axis=1))
        best[pair] = slope[pair] + extra[score.argmax()]
    return start, best


def _fitted(
    u: NDArray[np.complex128], m: Array, slope: Array, intercept: Array
) -> tuple[Array, Array, Array]:
    """Slopes and intercepts by least squares, from ones that are nearly right; and what is left."""
    off = np.angle(u * np.exp(-1j * (slope * m[:, None] + intercept)))
    centre = m.mean()
    spread = ((m - centre) ** 2).sum()
    step = ((m - centre)[:, None] * off).sum(axis=0) / spread if spread > 0 else 0 * slope
    shift = off.mean(axis=0) - step * centre
    left = np.sqrt(((off - step * m[:, None] - shift) ** 2).mean(axis=0))
    return slope + step, intercept + shift, left


def wrapped(angle: Array | float) -> Array:
    """Within a half turn."""
    return np.asarray((angle + np.pi) % (2 * np.pi) - np.pi)
