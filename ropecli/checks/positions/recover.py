"""Positions that vectors were rotated by, from their values before and after: `identify` reversed.

The angle of a pair gives the position modulo its wavelength, so that the slowest pair gives a few
candidates within the longest context. Pair by pair, from slow to fast, each candidate becomes more
precise, and the one that fits all pairs best is the position.

What the best candidates leave of the angles is the noise of the file, whatever made it: its dtype,
a smaller one before it, or a quantised cache. Rows and axes that leave far more are those of
another rotation. From the noise follow the error of each position and which candidates fit. A
position is certain if one candidate alone does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, as_real, dtype_name
from ropecli.checks.accuracy import phase_tolerance, table_roundings
from ropecli.errors import ArgumentError
from ropecli.numbers import between
from ropecli.results import Result
from ropecli.rotary.pairs import as_complex
from ropecli.rotary.rotary import Rotary, check_rope
from ropecli.units import SINGLE, TINY, UNIT

LONGEST = 2**20  #: Positions among which one is looked for by default.
BELOW = -1.5  #: The least position that is looked for: a count may begin one too early.
BLOCK = 2**16  #: Candidates that are held at a time.
SAMPLE = 256  #: Rows, evenly spaced, that show the noise of the file.
SIGMAS = 5.0  #: Standard deviations within which a position, or what it leaves, is known.
#: Most noise that an angle may have, in radians: int4 has less. More is another rotation.
NOISIEST = 0.1
STEPS = 256  #: Levels of noise that are tried.
LEAST = 1e-3  #: Share of an angle that counts as nothing.
SHOWN = 0.5  #: Error below which one whole number alone may be the position.
FAINT = 1e9  #: Standard error of the angle of a vector that is 0.
MISFIT = 9.0  #: A row that leaves so many times what may be left is not this rotation's.
ODDS = 36.0  #: Twice the logarithm of the odds against a position, beyond which it is ruled out.
BEST = 0.1  #: Share of the rows and axes that leave least, which show the noise:
OUTLYING = 1e3  #: one that leaves so many times their squares is another rotation's.


@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveredPositions(Result, view="recovered"):
    """Positions that vectors were rotated by.

    Errors are infinite where positions far apart explain the vectors, and NaN where none does. A
    position is shown if its error is below `SHOWN`, and known about where it is not.
    """

    positions: NDArray[np.float64]  #: (tokens,) or (rows, tokens), with axes last; NaN: unknown.
    error: NDArray[np.float64]  #: How far each may be off, in the same shape.
    axes: int  #: Coordinates of a position.
    noise: float  #: Standard error of the angles of all vectors, in radians.

    @property
    def uncertain(self) -> int:
        """Positions that the vectors do not show on some axis."""
        shown = (self.error < SHOWN).reshape(-1, self.axes)
        return int(np.count_nonzero(~shown.all(axis=1)))

    @property
    def by_row(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Positions and errors as (rows, tokens), or (rows, tokens, axes)."""
        ndim = 3 if self.axes > 1 else 2
        positions, error = (
            array.reshape((1, *array.shape)[-ndim:]) for array in (self.positions, self.error)
        )
        return positions, error


def recover_positions(
    rope: Rotary, before: Any, after: Any, *, longest: int = LONGEST
) -> RecoveredPositions:
    """Recover the positions that vectors were rotated by, RoFormer Eq. 34 solved for m.

    Heads of a token have its position, so their angles are joined. A position is whole where the
    error allows it.

    Args:
        rope: The encoding.
        before: Vectors before the rotation, (tokens, head_dim), (heads, tokens, head_dim) or
            (rows, heads, tokens, head_dim), of any float dtype.
        after: The same after it.
        longest: Number of positions from 0 on among which each is looked for.

    Raises:
        ArgumentError: Shapes that do not fit.
        ArgumentTypeError: Not arrays of real numbers.
    """
    check_rope(rope)
    if rope.axis is None:
        raise ArgumentError("positions are not recovered where several axes rotate one pair")
    limit = between("longest", longest, 1, 2**32)
    x, y = as_real("before", before), as_real("after", after)
    if x.shape != y.shape or x.ndim not in (2, 3, 4) or x.shape[-1] != rope.head_dim or not x.size:
        raise ArgumentError(
            f"before and after must have one shape (tokens, {rope.head_dim}), (heads, tokens, "
            f"{rope.head_dim}) or (rows, heads, tokens, {rope.head_dim}), "
            f"got {x.shape} and {y.shape}"
        )
    # cos and sin of other code are float32 in float64 vectors, too.
    least = max(SINGLE, *(UNIT.get(str(dtype_name(array.dtype)), SINGLE) for array in (x, y))) / 2
    angle, spreads = _angles(rope, *(array.reshape((1, 1, *array.shape)[-4:]) for array in (x, y)))
    some = np.unique(np.linspace(0, len(angle) - 1, SAMPLE).astype(np.int64))
    fits = _fit_axes(rope, angle[some], NOISIEST * np.max(spreads, axis=0)[some], limit)
    noise = _noise([*fits.values()], [spread[some] for spread in spreads], least)
    sigma = np.max([level * spreads[kind] for kind, level in noise.items()], axis=0)
    most = max(noise.values())
    positions = np.full((len(angle), rope.axes), np.nan)
    error = np.full(positions.shape, np.inf)
    for axis, fit in _fit_axes(rope, angle, sigma, limit).items():
        positions[:, axis], error[:, axis] = fit.position, fit.error(most)
    away = np.abs(positions - np.round(positions))
    is_whole = away <= 2 * error  # most are, and noise has longer tails than a normal one
    positions = np.where(is_whole, np.round(positions) + 0.0, positions)
    shape = (*x.shape[:-3], x.shape[-2], *([rope.axes] if rope.axes > 1 else []))
    return RecoveredPositions(
        positions=np.where(np.isfinite(error), positions, np.nan).reshape(shape),
        error=(error + np.where(is_whole, away, 0)).reshape(shape),
        axes=rope.axes,
        noise=most,
    )


def _angles(rope: Rotary, before: NDArray[Any], after: NDArray[Any]) -> tuple[Array, list[Array]]:
    """Return the angle of each pair, and by what its error may spread, (rows times tokens, pairs).

    The vectors are (rows, heads, tokens, head_dim). Errors of a head are in proportion to the
    length of the pair, as of roundings, or of the vector, channel or tensor, as of integers with a
    scale for each. Heads may share those of cos and sin, which turn a pair by sin(2 angle) units.
    """
    with np.errstate(all="ignore"):
        x, y = as_complex(before, rope.pairs_in), as_complex(after, rope.pairs_out)
        seen = np.isfinite(x) & np.isfinite(y)
        x, y = np.where(seen, x, 0), np.where(seen, y, 0)
        joined = (y * x.conj()).sum(axis=1)
        angle = np.angle(joined) * (1 if rope.direction == "forward" else -1)
        of_x, of_y = np.square(np.abs(x)), np.square(np.abs(y))
        # Noise lengthens what it outweighs, so that a pair counts as no longer than it was before.
        stretch = np.sqrt(of_y.sum(axis=(1, 3)) / of_x.sum(axis=(1, 3)))[..., None]
        length = np.minimum(np.abs(joined), stretch * of_x.sum(axis=1))
        spreads = []
        for axis, shared in product(((), (-1,), (0, 2), (0, 1, 2, 3)), (1, 0)):
            own = (of_x * of_y.mean(axis=axis, keepdims=True)).sum(axis=1) / np.square(length)
            spread = np.sqrt(own + shared * np.square(np.sin(2 * angle)))
            spreads.append(np.where(np.isfinite(spread), spread, np.inf))
    pairs = len(rope.pairs_in)
    return angle.reshape(-1, pairs), [width.reshape(-1, pairs) for width in spreads]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Fit:
    """The positions on one axis that fit the angles of each row best.

    Squares are sums over the pairs of what is left of the angles, in units of their variance.
    """

    pairs: NDArray[np.int64]  #: That this axis rotates, from slow to fast.
    inv_freq: Array  #: (pairs,)
    angle: Array  #: (rows, pairs)
    sigma: Array  #: Standard error of the angles.
    left: Array  #: What the best position leaves of them, radians.
    rounding: Array  #: By what code in float32 may turn them too far.
    position: Array  #: The best of each row, (rows,).
    square: Array  #: What it leaves.
    other: Array  #: The least that another leaves; infinite if there is no other.
    alone: NDArray[np.bool_]  #: True where no other explains the angles.

    @property
    def shown(self) -> NDArray[np.bool_]:
        """False for angles of vectors that are 0 or not finite, and where nothing is rotated."""
        return np.asarray(np.isfinite(self.sigma) & (self.angle != 0))

    @property
    def share(self) -> Array:
        """The share of each angle's error that the position leaves, small where it decides."""
        variance = np.square(np.minimum(self.sigma, FAINT)) + np.square(self.rounding)
        weight = np.square(self.inv_freq) / variance
        return np.asarray(self.shown * (1 - weight / weight.sum(axis=1, keepdims=True)))

    @property
    def freedom(self) -> Array:
        """Angles of each row beyond the one that gives the position."""
        return np.asarray(self.share.sum(axis=1))

    @property
    def is_measure(self) -> bool:
        """True if the best positions fit much better than the best of several do by chance.

        By chance, d/2 ln(other / square) of d degrees of freedom has the exponential distribution.
        """
        used = self.freedom > LEAST
        square = np.maximum(self.square, self.freedom * SINGLE**2)[used]
        gain = np.log(np.maximum(self.other[used], TINY) / square) * self.freedom[used] / 2
        return bool(used.any() and gain.sum() > 3 * len(gain) + 20)

    def error(self, level: float) -> Array:
        """Return how far each position may be off; NaN where none explains the angles."""
        inv_freq = np.abs(self.inv_freq)
        variance = np.square(np.minimum(self.sigma, FAINT))
        weight = inv_freq / (variance + np.square(self.rounding))
        total = np.cumsum(weight * inv_freq, axis=1)
        noise = np.sqrt(np.cumsum(np.square(weight) * variance, axis=1)) / total
        error = SIGMAS * noise + np.cumsum(weight * self.rounding, axis=1) / total
        # The slower pairs must give the turn of the next one.
        turned = (error[:, :-1] * inv_freq[1:] < np.pi).all(axis=1)
        most = _most(len(inv_freq))
        known = self.alone & turned & (self.square <= most)
        misfit = self.square > MISFIT * most
        # Of noise that nothing measures, a few rows may have more; most do not.
        misfit &= turned | bool(level >= NOISIEST and np.mean(misfit) > 0.5)
        return np.where(known, error[:, -1], np.where(misfit, np.nan, np.inf))


def _fit_axes(rope: Rotary, angle: Array, sigma: Array, longest: int) -> dict[int, _Fit]:
    """Return the fit of each axis that rotates pairs."""
    # One rounding more is that of a position that float32 does not hold.
    roundings, found = table_roundings(rope) + 1, {}
    for axis, table in enumerate(map(np.array, rope.frequencies)):
        pairs = np.argsort(np.abs(table))
        pairs = pairs[table[pairs] != 0]
        if not len(pairs):
            continue
        inv_freq = table[pairs]
        drift = phase_tolerance(1.0, inv_freq, roundings[pairs])
        # One turn more than there may be, for a position just below 0.
        most = np.ceil(longest * abs(inv_freq[0]) / (2 * np.pi))
        turns = np.arange(-1, most + 1) * np.sign(inv_freq[0])
        rows = max(1, BLOCK // len(turns))
        parts = [
            _best_positions(
                inv_freq,
                drift,
                angle[start : start + rows, pairs],
                sigma[start : start + rows, pairs],
                turns,
                longest,
            )
            for start in range(0, len(angle), rows)
        ]
        found[axis] = _Fit(
            pairs=pairs,
            inv_freq=inv_freq,
            angle=angle[:, pairs],
            sigma=sigma[:, pairs],
            **{name: np.concatenate([part[name] for part in parts]) for name in parts[0]},
        )
    return found


def _best_positions(
    inv_freq: Array, drift: Array, angle: Array, sigma: Array, turns: Array, longest: int
) -> dict[str, Array]:
    """Return the fields of `_Fit` that follow from candidates, from the slowest pair on.

    Each number of turns of the slowest pair makes a candidate, the weighted least squares of the
    pairs so far, and each next pair is taken to be in the turn that is nearest to it. Of those that
    fit, one far away is less likely than one nearby: it fits as the angles of float32 drift there.
    """
    variance = np.square(np.minimum(sigma, FAINT))
    candidates = (angle[:, :1] + 2 * np.pi * turns) / inv_freq[0]
    weighted_sum, total_weight = np.zeros_like(candidates), np.zeros_like(candidates)
    for pair, frequency in enumerate(inv_freq):
        its_angle = angle[:, pair, None]
        weight = frequency / (variance[:, pair, None] + np.square(drift[pair] * candidates))
        unwrapped = its_angle + _whole_turns(candidates * frequency - its_angle)
        weighted_sum += weight * unwrapped
        total_weight += weight * frequency
        candidates = weighted_sum / total_weight
    candidates = np.clip(candidates, BELOW, longest + 0.5)
    square = np.zeros_like(candidates)
    for pair, frequency in enumerate(inv_freq):
        left = _left(candidates * frequency, angle[:, pair, None])
        square += left**2 / (variance[:, pair, None] + np.square(drift[pair] * candidates))
    row, column = np.nonzero(square <= _most(len(inv_freq)))
    far = np.square(drift * candidates[row, column, None]) / variance[row]
    loss = np.full_like(square, np.inf)
    loss[row, column] = square[row, column] + np.log1p(far).sum(axis=1)
    least = loss.min(axis=1, keepdims=True)
    best = np.where(np.isfinite(least), loss, square).argmin(axis=1)[:, None]
    position = np.take_along_axis(candidates, best, axis=1)
    # Candidates of other turns that come as near as the angles allow are the same position.
    reach = SIGMAS / np.sqrt(np.take_along_axis(total_weight, best, axis=1))
    others = np.abs(candidates - position) >= np.maximum(SHOWN, reach)
    return {
        "left": _left(position * inv_freq, angle),
        "rounding": drift * np.abs(position),
        "position": position[:, 0],
        "square": np.take_along_axis(square, best, axis=1)[:, 0],
        "other": np.where(others, square, np.inf).min(axis=1),
        "alone": ~(others & (loss < least + ODDS)).any(axis=1),
    }


def _most(pairs: int) -> float:
    """Return the square that noise leaves of the angles of as many pairs, at most."""
    return float((np.sqrt(pairs) + SIGMAS) ** 2)


def _left(turned: Array, angle: Array) -> Array:
    """Return by how much two angles differ, apart from whole turns, in radians."""
    apart = turned - angle
    return np.abs(apart - _whole_turns(apart))


def _noise(fits: Sequence[_Fit], spreads: Sequence[Array], least: float) -> dict[int, float]:
    """Return the noise of each spread that may explain what is left of the angles.

    Nothing is known of the noise if no axis measures it.
    """
    if not any(fit.shown.any() for fit in fits):
        return {0: max(least, UNIT["bfloat16"])}  # nothing was rotated
    measures = [fit for fit in fits if fit.is_measure]
    if not measures:
        return dict.fromkeys(range(len(spreads)), NOISIEST)
    angle, left, rounding, share = (
        np.concatenate([getattr(fit, name) for fit in measures], axis=1)
        for name in ("angle", "left", "rounding", "share")
    )
    free = np.stack([fit.freedom for fit in measures], axis=1)
    squares = [np.square(fit.left * (fit.share > 0)).sum(axis=1) for fit in measures]
    mean, measured = np.stack(squares, axis=1) / np.maximum(free, LEAST), free > LEAST
    best = max(np.quantile(mean[measured], BEST), SINGLE**2)  # exact angles leave next to nothing
    used = measured & (mean <= OUTLYING * best)
    shown = (share > 0) & np.repeat(used, [len(fit.pairs) for fit in measures], axis=1)
    pairs = np.concatenate([fit.pairs for fit in measures])
    angle, left, rounding = (np.square(array[shown]) for array in (angle, left, rounding))
    found = [
        _level(angle, left, rounding, np.square(spread[:, pairs][shown]), share[shown])
        for spread in spreads
    ]
    least_loss = min(loss for loss, _ in found)
    return {
        kind: max(level, least)
        for kind, (loss, level) in enumerate(found)
        if loss < least_loss + ODDS
    }


def _level(
    angle: Array, left: Array, rounding: Array, spread: Array, share: Array
) -> tuple[float, float]:
    """Return how badly a spread explains what is left of angles, and the least noise that does.

    All but the noise are squares. An angle counts for as much of its freedom as is due to noise,
    and not at all if it is lost in it: a vector that is turned by less than it is rounded by comes
    back as it was. What is left is taken to be as little of the noise as chance allows.
    """
    levels = np.geomspace(SINGLE / 64, NOISIEST, STEPS)
    low, high = 0, STEPS - 1
    while low < high:
        middle = (low + high) // 2
        noise = levels[middle] ** 2 * spread
        part = noise / (noise + rounding) * (angle > SIGMAS**2 * noise)
        count = max(float((part * share).sum()), TINY)
        chance = max(1 - 2 / (9 * count) - SIGMAS * np.sqrt(2 / (9 * count)), 0) ** 3
        enough = (part * left / (noise + rounding)).sum() < count * chance
        low, high = (low, middle) if enough else (middle + 1, high)
    variance = levels[low] ** 2 * spread + rounding
    return float((left / variance + share * np.log(variance)).sum()), float(levels[low])


def _whole_turns(angle: Array) -> Array:
    """Return the whole turns that are nearest to an angle, in radians."""
    return 2 * np.pi * np.round(angle / (2 * np.pi))
