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

from ropecli.arrays import as_real, dtype_name
from ropecli.errors import ArgumentError
from ropecli.numbers import between
from ropecli.results import Result
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
    found: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    # A file of float32 may hold what was computed in a smaller dtype.
    for unit in sorted({own, *(each for each in UNIT.values() if each > own)}):
        angles, sigma = _angles(rope, _rows(x), _rows(y), unit)
        if not found:
            found = [_solve(np.array(row), angles, sigma, limit) for row in rope.frequencies]
            continue
        for (value, error), row in zip(found, rope.frequencies, strict=True):
            unknown = ~np.isfinite(error)
            value[unknown], error[unknown] = _solve(
                np.array(row), angles[unknown], sigma[unknown], limit
            )
    shape = (*x.shape[:-3], x.shape[-2], rope.axes)
    value, error = (np.stack(each, axis=-1).reshape(shape) for each in zip(*found, strict=True))
    if rope.axes == 1:
        return RecoveredPositions(positions=value[..., 0], error=error[..., 0])
    return RecoveredPositions(positions=value, error=error.max(axis=-1))


def _rows(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array as (rows, heads, tokens, head_dim)."""
    return array.reshape((1, 1, *array.shape)[-4:])


def _angles(
    rope: Rotary, before: NDArray[Any], after: NDArray[Any], unit: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the angle of each pair, and its standard error, (rows times tokens, pairs)."""
    x, y = (
        _complex(each, pairs) for each, pairs in ((before, rope.pairs_in), (after, rope.pairs_out))
    )
    with np.errstate(all="ignore"):
        product = y * x.conj()
        joined = product.sum(axis=1)
        noise = ROUNDINGS * unit * np.sqrt(np.square(np.abs(product)).sum(axis=1))
        sigma = np.where(np.abs(joined) > 0, noise / np.abs(joined), np.inf)
    angle = np.angle(joined) * (1 if rope.direction == "forward" else -1)
    count = len(rope.pairs_in)
    sigma[~np.isfinite(sigma) | ~np.isfinite(angle)] = np.inf
    return np.nan_to_num(angle).reshape(-1, count), sigma.reshape(-1, count)


def _complex(vectors: NDArray[Any], pairs: NDArray[np.int64]) -> NDArray[np.complex128]:
    wide = vectors.astype(np.float64)
    found: NDArray[np.complex128] = wide[..., pairs[:, 0]] + 1j * wide[..., pairs[:, 1]]
    return found


def _solve(
    inv_freq: NDArray[np.float64],
    angle: NDArray[np.float64],
    sigma: NDArray[np.float64],
    longest: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the position of each row on one axis, and its error; infinite where uncertain.

    Pairs that this axis does not rotate have the frequency 0.
    """
    order = np.argsort(np.abs(inv_freq))
    order = order[inv_freq[order] != 0]
    value, error = np.full(len(angle), np.nan), np.full(len(angle), np.inf)
    if not len(order):
        return value, error
    rows = max(1, BLOCK // ((_turns(inv_freq[order], longest) + 2) * len(order)))
    for start in range(0, len(angle), rows):
        part = slice(start, start + rows)
        value[part], error[part] = _fit(
            inv_freq[order], angle[part][:, order], sigma[part][:, order], longest
        )
    return value, error


def _turns(inv_freq: NDArray[np.float64], longest: int) -> int:
    """Return how often the slowest pair may turn."""
    return int(np.ceil(longest * abs(inv_freq[0]) / (2 * np.pi)))


def _fit(
    inv_freq: NDArray[np.float64],
    angle: NDArray[np.float64],
    sigma: NDArray[np.float64],
    longest: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the position that fits the angles of each row best, from the slowest pair on."""
    # One turn more than there are, for a position just below 0.
    whole_turns = np.arange(-1, _turns(inv_freq, longest) + 1) * np.sign(inv_freq[0])
    weight = 1 / np.square(np.minimum(sigma, 1e9))
    top = np.zeros((len(angle), len(whole_turns)))
    bottom = np.zeros((len(angle), 1))
    at = np.zeros_like(top)
    for pair, frequency in enumerate(inv_freq):
        if pair == 0:
            unwrapped = angle[:, :1] + 2 * np.pi * whole_turns
        else:
            apart = at * frequency - angle[:, pair, None]
            unwrapped = angle[:, pair, None] + 2 * np.pi * np.round(apart / (2 * np.pi))
        top += weight[:, pair, None] * frequency * unwrapped
        bottom += weight[:, pair, None] * frequency**2
        at = top / bottom
    left = _left(at, inv_freq, angle, weight)
    left[(at < BELOW) | (at > longest)] = np.inf
    best = left.argmin(axis=1)[:, None]
    value = np.take_along_axis(at, best, axis=1)[:, 0]
    fit = np.take_along_axis(left, best, axis=1)[:, 0]
    others = np.where(np.abs(at - value[:, None]) < 0.5, np.inf, left).min(axis=1)
    error = SIGMAS / np.sqrt(bottom[:, 0])
    rounded = np.round(value)
    whole = np.abs(value - rounded) <= np.maximum(error, SINGLE * np.abs(value))
    known = (fit <= FITS**2) & (others > APART * np.maximum(fit, 1)) & (error < 0.5)
    return np.where(whole, rounded, value) + 0.0, np.where(known, error, np.inf)


def _left(
    at: NDArray[np.float64],
    inv_freq: NDArray[np.float64],
    angle: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the mean square of what positions leave of the angles, in units of their bound.

    Angles computed in float32 are off by a unit of themselves, which counts for far positions.
    """
    total = np.zeros_like(at)
    for pair, frequency in enumerate(inv_freq):
        turned = at * frequency
        apart = turned - angle[:, pair, None]
        apart -= 2 * np.pi * np.round(apart / (2 * np.pi))
        bound = 1 / weight[:, pair, None] + np.square(SINGLE * turned)
        total += np.square(apart) / bound
    return total / len(inv_freq)
