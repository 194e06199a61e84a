"""Why something is not a rotation by position."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.identify.pairing import KEPT, find_pairs
from ropecli.checks.identify.phases import line, turns
from ropecli.checks.identify.precision import ROUNDINGS
from ropecli.checks.identify.residual import listed
from ropecli.rotary.layout import NAMED, named_pairs
from ropecli.units import TINY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.identify.sight import Sight

    Array = NDArray[np.float64]

_CLOSE = 0.05  #: Relative: an explanation that leaves no more is taken.
_COVERED = 0.9  #: Share of the coordinates that move which pairs must account for.
_ROUGH = 0.2  #: The same, where a frequency is known to 1 % alone.
_NEAR = 8  #: Positions within which a frequency need not be known better than to 2 %.
_FEWEST = 5  #: Of them.
_NOT_ONE = 1e-3  #: By which a factor is another number than 1.
_GRID = np.geomspace(1e-5, np.pi, 1024)  #: Frequencies that are tried, 1.2 % apart.


def why_not(sight: Sight) -> str:
    """The reason that fits, in a sentence; tried from the most to the least telling."""
    for explained in (
        _added, _scaled, _partly_scaled, _uneven, _growing, _mirrored, _unlike, _mixed,
    ):  # fmt: skip
        if reason := explained(sight):
            return reason
    if _lengths_kept(sight):
        return "lengths are kept, but no pairs of coordinates turn with the position"
    return "lengths are not kept, and nothing known explains how they change"


def _along(sight: Sight) -> Array:
    """Positions along the axis on which they lie furthest apart."""
    return np.asarray(sight.positions[:, sight.reach.argmax()])


def _lengths_kept(sight: Sight) -> bool:
    before, after = (np.linalg.norm(each, axis=2) for each in (sight.x, sight.y))
    good = before > 0
    ratio = after[good] / before[good]
    return bool(np.ptp(ratio) < _CLOSE * ratio.mean())


def _added(sight: Sight) -> str | None:
    """The same vector is added to all vectors of one position."""
    added = sight.y - sight.x
    size = np.linalg.norm(added, axis=2)
    if sight.x.shape[1] > 1:
        alike = np.linalg.norm(added - added[:, :1], axis=2).max() < _CLOSE * size.max()
    else:  # each coordinate by itself runs along a sinusoid, whatever the vectors
        alike = _sinusoids(added[:, 0], sight) > 1 - _CLOSE
    if not alike:
        return None
    return "a vector is added at each position: an additive encoding, not a rotation"


def _sinusoids(added: Array, sight: Sight) -> float:
    """The least share of any coordinate of what is added that one frequency explains."""
    m = _along(sight)
    near = np.flatnonzero(np.abs(m - m[0]) <= 4 * _NEAR)
    if len(near) < 2 * _FEWEST:
        return 0.0
    m, added = m[near], added[near]
    total = (added**2).sum(axis=0)
    rounding = (2 * sight.unit) ** 2 * (sight.x[near, 0] ** 2 + sight.y[near, 0] ** 2).sum(axis=0)
    left = np.full(len(total), np.inf)
    for theta in _GRID:
        basis = np.linalg.qr(np.column_stack([np.cos(m * theta), np.sin(m * theta)]))[0]
        left = np.minimum(left, total - ((basis.T @ added) ** 2).sum(axis=0))
    return float(1 - (np.maximum(left - rounding, 0) / np.maximum(total, TINY)).max())


def _scaled(sight: Sight) -> str | None:
    """Each vector only gets longer or shorter."""
    along = (sight.x * sight.y).sum(axis=2)
    size = np.linalg.norm(sight.x, axis=2) * np.linalg.norm(sight.y, axis=2)
    if (along < (1 - 1e-6) * size).any():
        return None
    return "vectors keep their directions and change only in length: nothing is turned"


def _partly_scaled(sight: Sight) -> str | None:
    """Some coordinates are only multiplied, and by another number than 1."""
    rows = (0, 1)
    times = (sight.x * sight.y).sum(axis=rows) / np.maximum((sight.x**2).sum(axis=rows), TINY)
    left = np.abs(sight.y - times * sight.x).max(axis=rows)
    size = np.abs(sight.x).max(axis=rows)
    still = (size > 0) & (left <= ROUNDINGS * sight.unit * size)
    where = np.flatnonzero(still & (np.abs(times - 1) > max(_NOT_ONE, ROUNDINGS * sight.unit)))
    if not len(where) or len(where) == sight.head_dim or np.ptp(times[where]) > _CLOSE:
        return None
    what = f"coordinates that are in no pair ({listed(where)}) are"
    if len(where) == 1:
        what = f"the coordinate that is in no pair ({where[0]}) is"
    return f"{what} multiplied by {times[where].mean():.4g}, not copied"


def _unlike(sight: Sight) -> str | None:
    """Each vector of a position is turned, but they are paired differently."""
    if sight.x.shape[1] < 2:
        return None
    alone = [
        find_pairs(replace(sight, x=sight.x[:, [i]], y=sight.y[:, [i]]))
        for i in range(sight.x.shape[1])
    ]
    if any(each.spread > KEPT for each in alone):
        return None
    if any(2 * len(each.read) < _COVERED * each.moved.sum() for each in alone):
        return None
    kinds = {tuple(np.sort(np.sort(each.read, axis=1), axis=0).ravel().tolist()) for each in alone}
    if len(kinds) < 2:
        return None
    return "vectors at one position are not paired alike: heads are rotated in different layouts"


def _pairs(sight: Sight) -> list[tuple[str, NDArray[np.int64]]]:
    dim = sight.head_dim
    return [(name, np.array(named_pairs(name, rotary_dim=dim, rotary_offset=0))) for name in NAMED]


def _uneven(sight: Sight) -> str | None:
    """Pairs turn, and each is made longer or shorter by a factor of its own."""
    for name, pairs in _pairs(sight):
        before, after = (
            np.hypot(each[..., pairs[:, 0]], each[..., pairs[:, 1]]) for each in (sight.x, sight.y)
        )
        if not before.all():
            continue
        times = (after / before).reshape(-1, len(pairs))
        mean = times.mean(axis=0)
        if np.abs(times - mean).max() < _CLOSE * mean.min() and np.ptp(mean) > _CLOSE * mean.max():
            return (
                f"pairs ({name}) are each multiplied by a factor of its own, "
                f"from {mean.min():.3g} to {mean.max():.3g}"
            )
    return None


def _growing(sight: Sight) -> str | None:
    """Pairs turn, and their lengths grow or shrink with the position."""
    m = _along(sight)
    for name, pairs in _pairs(sight):
        z, w = (each[..., pairs[:, 0]] + 1j * each[..., pairs[:, 1]] for each in (sight.x, sight.y))
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.log(np.abs(w) / np.abs(z)).mean(axis=1)
        if not np.isfinite(log).all() or np.abs(log).max() < 1e-3:
            continue
        rate = ((m - m.mean())[:, None] * log).sum(axis=0) / ((m - m.mean()) ** 2).sum()
        left = np.abs(log - log.mean(axis=0) - rate * (m - m.mean())[:, None]).max()
        change = np.abs(rate).max() * np.ptp(m)
        if left < _CLOSE * change and change > _CLOSE:
            return (
                f"pairs ({name}) turn, but their lengths grow or shrink with the position, by up "
                f"to {np.abs(rate).max():.3g} in the logarithm each, as in xPos"
            )
    return None


def _mirrored(sight: Sight) -> str | None:
    """Pairs are reflected instead of turned."""
    for name, pairs in _pairs(sight):
        seen = turns(sight, pairs, pairs, 1.0)
        if (np.abs(np.abs(seen.mirrored) - 1) > _CLOSE).any():
            continue
        if line(seen.mirrored, _along(sight), sight.unit).rms.max() < _CLOSE:
            return f"pairs ({name}) are reflected, not turned: a sign is wrong in one of two rows"
    return None


def _mixed(sight: Sight) -> str | None:
    """Each coordinate takes its partner from one layout and its angle from the other."""
    dim = sight.head_dim
    m = _along(sight)
    near = np.abs(m - m[0]) <= _NEAR
    m = m[near]
    if len(m) < _FEWEST:
        return None
    partner = {}
    for name, pairs in _pairs(sight):
        partner[name] = np.empty(dim, int)
        partner[name][pairs[:, 0]], partner[name][pairs[:, 1]] = pairs[:, 1], pairs[:, 0]
    for name, other in partner.items():
        fits = [_combined(sight, near, m, a, other[a]) for a in (0, other[0], 1, other[1])]
        if max(fit[0] for fit in fits) > _ROUGH:
            continue
        (_, first, sign), (_, second, opposite) = fits[:2]
        if abs(first / second - 1) < _CLOSE and sign == opposite:
            return f"pairs ({name}) are not turned: sin has the same sign in both rows of each"
        if abs(first / second - 1) > _CLOSE or abs(fits[2][1] / fits[3][1] - 1) > _CLOSE:
            return (
                f"coordinates are combined as in the {name} layout, but the two of a pair turn by "
                "different angles: cos and sin are laid out for the other layout"
            )
    return None


def _combined(
    sight: Sight, near: NDArray[np.bool_], m: Array, a: int, b: int
) -> tuple[float, float, int]:
    """How badly cos x + sign sin x' explains a change, at which frequency, with which sign."""
    x, beside, y = (
        sight.x[near][..., a], sight.x[near][..., b], sight.y[near][..., a],
    )  # fmt: skip
    rounding = ROUNDINGS * sight.unit * float(np.linalg.norm(x))
    changed = max(float(np.linalg.norm(y - x)), rounding, TINY)
    best = (np.inf, 1.0, 1)
    for theta in _GRID:
        cos, sin = np.cos(m * theta)[:, None], np.sin(m * theta)[:, None]
        for sign in (1, -1):
            left = float(np.linalg.norm(y - cos * x - sign * sin * beside))
            best = min(best, (left / changed, float(theta), sign))
    return best
