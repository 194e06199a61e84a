"""Positions that vectors were rotated by, from their values before and after: `identify` reversed.

The angle of a pair gives the position modulo its wavelength, so that the slowest pair gives a few
candidates within the longest context. Pair by pair, from slow to fast, each candidate becomes more
precise, and the one that fits all pairs best is the position. The rounding of the data bounds the
error of each angle, and with it that of the position.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array, as_real, dtype_name
from ropecli.errors import ArgumentError
from ropecli.numbers import between
from ropecli.results import Result
from ropecli.rotary.pairs import as_complex
from ropecli.rotary.rotary import Rotary, check_rope
from ropecli.units import SINGLE, UNIT

LONGEST = 2**20  #: Positions among which one is looked for by default.
BELOW = -1.5  #: The least position that is looked for: a count may begin one too early.
BLOCK = 2**22  #: Candidates times pairs that are held at a time.
#: Roundings of an angle: of both coordinates before and after, each of which moves it by half a
#: unit times sqrt(2) at most, and of cos and sin to the dtype of the data.
ROUNDINGS = 4
FITS = 3.0  #: Root mean square of what is left of the angles, in units of their bound.
APART = 9.0  #: A position is certain if another leaves that many times the square of it.
SIGMAS = 5.0  #: Standard deviations within which a position is known.


@dataclass(frozen=True, kw_only=True, eq=False)
class RecoveredPositions(Result, view="recovered"):
    """Positions that vectors were rotated by."""

    positions: NDArray[np.float64]  #: (tokens,) or (rows, tokens); with several axes, these last.
    error: NDArray[np.float64]  #: How far each may be off; infinite where nothing shows it.

    @property
    def uncertain(self) -> int:
        """Positions that the vectors do not show, on any axis."""
        return int(np.count_nonzero(~np.isfinite(self.error)))


def recover_positions(
    rope: Rotary, before: Any, after: Any, *, longest: int = LONGEST
) -> RecoveredPositions:
    """Recover the positions that vectors were rotated by, RoFormer Eq. 34 solved for m.

    Heads of a token have its position, so their angles are joined. A position is whole where the
    error allows it, and uncertain where no position explains the angles, or several do.

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
    own = max(UNIT.get(str(dtype_name(each.dtype)), SINGLE) for each in (x, y))
    angle, spread = _angles(rope, *(each.reshape((1, 1, *each.shape)[-4:]) for each in (x, y)))
    positions = np.full((rope.axes, len(angle)), np.nan)
    error = np.full(positions.shape, np.inf)
    # A file of float32 may hold what was computed in a smaller dtype.
    for unit in sorted({own, *(each for each in UNIT.values() if each > own)}):
        for axis, inv_freq in enumerate(rope.frequencies):
            unknown = np.isinf(error[axis])
            positions[axis, unknown], error[axis, unknown] = _solve(
                np.array(inv_freq), angle[unknown], unit * spread[unknown], limit
            )
    shape = (*x.shape[:-3], x.shape[-2])
    return RecoveredPositions(
        positions=positions.T.reshape(shape if rope.axes == 1 else (*shape, rope.axes)),
        error=error.max(axis=0).reshape(shape),
    )


def _angles(rope: Rotary, before: NDArray[Any], after: NDArray[Any]) -> tuple[Array, Array]:
    """Return the angle of each pair, and its standard error in units, (rows times tokens, pairs).

    The vectors are (rows, heads, tokens, head_dim).
    """
    with np.errstate(all="ignore"):
        x, y = as_complex(before, rope.pairs_in), as_complex(after, rope.pairs_out)
        product = y * x.conj()
        joined = product.sum(axis=1)
        noise = ROUNDINGS * np.sqrt(np.square(np.abs(product)).sum(axis=1))
        spread = np.where(np.abs(joined) > 0, noise / np.abs(joined), np.inf)
    angle = np.angle(joined) * (1 if rope.direction == "forward" else -1)
    spread[~np.isfinite(spread) | ~np.isfinite(angle)] = np.inf
    pairs = len(rope.pairs_in)
    return np.nan_to_num(angle).reshape(-1, pairs), spread.reshape(-1, pairs)


def _solve(inv_freq: Array, angle: Array, sigma: Array, longest: int) -> tuple[Array, Array]:
    """Return the position of each row on one axis, and its error; infinite where uncertain.

    Pairs that this axis does not rotate have the frequency 0.
    """
    order = np.argsort(np.abs(inv_freq))
    order = order[inv_freq[order] != 0]
    position, error = np.full(len(angle), np.nan), np.full(len(angle), np.inf)
    if not len(order):
        return position, error
    slowest = inv_freq[order[0]]
    # One turn more than there may be, for a position just below 0.
    turns = np.arange(-1, np.ceil(longest * abs(slowest) / (2 * np.pi)) + 1) * np.sign(slowest)
    rows = max(1, BLOCK // (len(turns) * len(order)))
    for start in range(0, len(angle), rows):
        part = slice(start, start + rows)
        position[part], error[part] = _best_position(
            inv_freq[order], angle[part][:, order], sigma[part][:, order], turns, longest
        )
    return position, error


def _best_position(
    inv_freq: Array, angle: Array, sigma: Array, turns: Array, longest: int
) -> tuple[Array, Array]:
    """Return the position that fits the angles of each row best, from the slowest pair on.

    Each number of turns of the slowest pair makes a candidate, the weighted least squares of the
    pairs so far, and each next pair is taken to be in the turn that is nearest to it.
    """
    weight = 1 / np.square(np.minimum(sigma, 1e9))
    candidates = (angle[:, :1] + 2 * np.pi * turns) / inv_freq[0]
    weighted_sum, total_weight = np.zeros_like(candidates), np.zeros((len(angle), 1))
    for pair, frequency in enumerate(inv_freq):
        own, its_angle = weight[:, pair, None], angle[:, pair, None]
        unwrapped = its_angle + _whole_turns(candidates * frequency - its_angle)
        weighted_sum += own * frequency * unwrapped
        total_weight += own * frequency**2
        candidates = weighted_sum / total_weight
    misfit = _misfit(candidates, inv_freq, angle, weight)
    misfit[(candidates < BELOW) | (candidates > longest)] = np.inf
    best = misfit.argmin(axis=1)[:, None]
    position = np.take_along_axis(candidates, best, axis=1)
    least = np.take_along_axis(misfit, best, axis=1)[:, 0]
    others = np.where(np.abs(candidates - position) < 0.5, np.inf, misfit).min(axis=1)
    position = position[:, 0]
    error = SIGMAS / np.sqrt(total_weight[:, 0])
    known = (least <= FITS**2) & (others > APART * np.maximum(least, 1)) & (error < 0.5)
    rounded = np.round(position)
    is_whole = np.abs(position - rounded) <= np.maximum(error, SINGLE * np.abs(position))
    return np.where(is_whole, rounded, position) + 0.0, np.where(known, error, np.inf)


def _misfit(candidates: Array, inv_freq: Array, angle: Array, weight: Array) -> Array:
    """Return the mean square of what positions leave of the angles, in units of their bound.

    Angles computed in float32 are off by a unit of themselves, which counts for far positions.
    """
    total = np.zeros_like(candidates)
    for pair, frequency in enumerate(inv_freq):
        turned = candidates * frequency
        apart = turned - angle[:, pair, None]
        bound = 1 / weight[:, pair, None] + np.square(SINGLE * turned)
        total += np.square(apart - _whole_turns(apart)) / bound
    return total / len(inv_freq)


def _whole_turns(angle: Array) -> Array:
    """Return the whole turns that are nearest to an angle, in radians."""
    return 2 * np.pi * np.round(angle / (2 * np.pi))
