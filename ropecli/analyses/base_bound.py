"""The context that a base can hold: where the sum of cosines first turns negative (Men et al.)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ropecli.analyses.encoding_result import EncodingResult
from ropecli.errors import ArgumentError
from ropecli.numbers import between, even, positive
from ropecli.results import Drawable
from ropecli.rotary.rotary import Rotary, check_rope, check_rotation
from ropecli.units import DOUBLE

POSITIONS = 2**20  #: Searched by default.
LONGEST = 2**32  #: Most positions of a search, which takes a minute at 64 pairs.
BASES = 1000  #: Of a scan.
MOST_BASES = 10**6
WIDTH = 256  #: Distances of a row of a block.
ROWS = (16, 256)  #: Of the first block, in which most bases of a scan fail, and of a long one.
BINS = 64  #: Of a curve, for each doubling of the position.
BEYOND = 4  #: A curve goes on to this multiple of the first negative position.


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseBound(EncodingResult):
    """The longest context of an encoding by the sum of its cosines, B(m) = sum_i cos(m theta_i).

    The sum is over the pairs that turn. Coordinates that never turn add the same at every distance.
    A context L holds if B(m) >= 0 for every distance m = 0 ... L (Men et al. 2024, Eq. 10). A
    text of L tokens has no distance beyond L - 1: counted so, every length is larger by one.
    """

    context_length: int | None  #: The context asked about, in positions.
    searched: int  #: The last distance that was searched for a negative sum.
    first_negative: int | None  #: The first distance with B(m) < 0; None if there is none.
    position: NDArray[np.int64]  #: First distance of each part of the curve, (parts,).
    last_position: NDArray[np.int64]  #: Last distance of each part, (parts,).
    lowest: NDArray[np.float64]  #: Smallest B(m) in each part, (parts,).
    highest: NDArray[np.float64]  #: Largest B(m) in each part, (parts,).

    @property
    def turning(self) -> int:
        """Number of pairs that turn, over which the sum is."""
        return int(np.count_nonzero(self.rope.diagonal_inv_freq))

    @property
    def longest_context(self) -> int | None:
        """The largest L with B(m) >= 0 for m = 0 ... L; None if all that was searched holds."""
        return None if self.first_negative is None else self.first_negative - 1

    @property
    def holds(self) -> bool | None:
        """True if B(m) >= 0 up to the context length; None without one."""
        if self.context_length is None:
            return None
        return self.first_negative is None or self.first_negative > self.context_length


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseScan(Drawable, view="base_scan"):
    """Bases of a grid, and those of them that hold a context, for plain RoPE.

    The bases that hold are not an interval: below `safe_above`, those that hold and those that do
    not alternate, and islands narrower than the grid's spacing stay unseen.
    """

    head_dim: int  #: Coordinates of a head.
    rotary_dim: int  #: Of those, coordinates that are rotated.
    context_length: int  #: A base holds it if no B(m) is negative for m from 0 to it.
    base: NDArray[np.float64]  #: Bases of the grid, rising, (bases,).
    first_negative: NDArray[np.int64]  #: First m <= L with B(m) < 0; -1 if none, (bases,).
    proven_above: float | None  #: Every base from this one on holds, by a bound on each cosine.

    @property
    def holds(self) -> NDArray[np.bool_]:
        """True for each base of the grid that holds the context, (bases,)."""
        return self.first_negative < 0

    @property
    def smallest(self) -> float | None:
        """The smallest base of the grid that holds the context; None if none does."""
        return float(self.base[int(self.holds.argmax())]) if self.holds.any() else None

    @property
    def safe_above(self) -> float | None:
        """The largest base of the grid that fails; None if none does."""
        failing = self.base[~self.holds]
        return float(failing[-1]) if len(failing) else None

    @property
    def recommended(self) -> float | None:
        """The base that the last run begins with, rounded up to two digits; None if it fails.

        All bases of the grid from there on hold the context.
        """
        if not self.holds[-1]:
            return None
        start = self.runs[-1][0]
        digit = 10.0 ** (math.floor(math.log10(start)) - 1)
        return float(f"{math.ceil(start / digit) * digit:.2g}")

    @property
    def runs(self) -> tuple[tuple[float, float], ...]:
        """First and last base of each run of neighbours in the grid that hold."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self.holds, [False]])))
        return tuple(
            (float(self.base[a]), float(self.base[b - 1])) for a, b in edges.reshape(-1, 2)
        )

    @property
    def ratio(self) -> float:
        """Ratio of neighbouring bases of the grid."""
        count = len(self.base)
        return float(self.base[-1] / self.base[0]) ** (1 / (count - 1)) if count > 1 else 1.0


def base_bound(
    rope: Rotary,
    *,
    context_length: int | None = None,
    positions: int = POSITIONS,
    name: str | None = None,
) -> BaseBound:
    """Find the first distance m at which B(m) = sum_i cos(m theta_i) is negative.

    B(m) is, up to a factor, how much more a query of random coordinates attends to a key that
    resembles it than to a random one at distance m (Men et al. 2024, arXiv:2405.14591, Theorem
    1). It is taken of the float64 frequencies as they are. A sum that rounding might have given
    the wrong sign is computed again with as many digits as its sign needs.

    Args:
        rope: The encoding, of any rope type.
        context_length: The context asked about, in positions, up to 2^32.
        positions: Last distance to search, unless the context is beyond it, up to 2^32.
        name: Name of the encoding, such as a model's.

    Raises:
        ArgumentError: A value out of range, or no pair that turns.
        ArgumentTypeError: Not an integer.
    """
    check_rope(rope)
    if context_length is not None:
        context_length = between("context length", context_length, 1, LONGEST)
    last = max(between("positions", positions, 1, LONGEST), context_length or 0)
    check_rotation(rope, "the sum of cosines is")
    table = _turning(rope)
    crossing = _first_negative(table, last)
    end = last if crossing < 0 else min(last, max(context_length or 0, BEYOND * crossing))
    starts, ends, lowest, highest = _curve(table, end)
    return BaseBound(
        rope=rope,
        name=name,
        context_length=context_length,
        searched=last,
        first_negative=None if crossing < 0 else crossing,
        position=starts,
        last_position=ends,
        lowest=lowest,
        highest=highest,
    )


def base_scan(
    *,
    context_length: int,
    head_dim: int = 128,
    rotary_dim: int | None = None,
    low: float | None = None,
    high: float | None = None,
    grid: int = BASES,
    progress: Callable[[int, int], None] | None = None,
) -> BaseScan:
    """Find which bases of a grid hold a context L: B(m) >= 0 for m = 0 ... L.

    Every base is searched on its own, since a larger base may hold less than a smaller one.

    Args:
        context_length: L, in positions, up to 2^32.
        head_dim: Coordinates of one head's vector.
        rotary_dim: Coordinates that are rotated; all of head_dim by default.
        low: First base of the grid; L by default, below all that hold: with more and more pairs
            the least that holds comes down to 1.62 L.
        high: Last base of the grid; by default the least for which a bound on each cosine proves
            that it and all above hold.
        grid: Number of bases, evenly spaced in their logarithm.
        progress: Called after each base with the number of those done and of all.

    Raises:
        ArgumentError: A value out of range, or no high where no base is proven to hold.
        ArgumentTypeError: A value of the wrong type.
    """
    context = between("context length", context_length, 1, LONGEST)
    dim = even("head dim", head_dim)
    rotated = dim if rotary_dim is None else between("rotary dim", rotary_dim, 2, dim)
    count = between("grid", grid, 2, MOST_BASES)

    def table(base: float) -> NDArray[np.float64]:
        return _turning(Rotary(head_dim=dim, rotary_dim=rotated, base=base))

    proven = _proven_above(context, table)
    if high is None and proven is None:
        raise ArgumentError(
            f"high must be given where no base is proven to hold, as with rotary dim {rotated}"
        )
    last = positive("high", max(proven or 0.0, 2.0) if high is None else high)
    first = positive("low", min(float(context), last / 2) if low is None else low)
    if first >= last:
        raise ArgumentError(f"low must be below high, got {first:g} and {last:g}")
    tried = np.geomspace(first, last, count)
    bounds = []
    for done, base in enumerate(tried.tolist()):
        bounds.append(_first_negative(table(base), context))
        if progress is not None:
            progress(done + 1, count)
    return BaseScan(
        head_dim=dim,
        rotary_dim=rotated,
        context_length=context,
        base=tried,
        first_negative=np.array(bounds, dtype=np.int64),
        proven_above=proven,
    )


def _turning(rope: Rotary) -> NDArray[np.float64]:
    """Return the frequencies of the pairs that turn: the sum says nothing of the others."""
    inv_freq = rope.diagonal_inv_freq
    turning: NDArray[np.float64] = inv_freq[inv_freq != 0]
    if not len(turning):
        raise ArgumentError("the sum of cosines is over pairs that rotate, and none does")
    return turning


def _first_negative(inv_freq: NDArray[np.float64], last: int) -> int:
    """Return the first m = 0 ... last with B(m) < 0; -1 if there is none."""
    for begin, sums in _blocks(inv_freq, last):
        error = _largest_error(inv_freq, begin + len(sums))
        for m in (begin + np.flatnonzero(sums < error)).tolist():
            if sums[m - begin] < -error or _is_negative(inv_freq, m):
                return m if m <= last else -1
    return -1


def _blocks(inv_freq: NDArray[np.float64], last: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield B(m) for m = 0 ... last and somewhat beyond, block by block after its first distance.

    Since e^{i(a+b) theta} = e^{ia theta} e^{ib theta}, the sums over pairs of a block are a product
    of two matrices, of the first distances a of its rows and of the offsets b in them.
    """
    offsets = np.outer(inv_freq, -np.arange(WIDTH))  # for the minus in Re zw = ac - bd
    by_offset = np.concatenate([np.cos(offsets), np.sin(offsets)])
    begin, (rows, most) = 0, ROWS
    while begin <= last:
        end = begin + rows * WIDTH
        starts = np.outer(np.arange(begin, end, WIDTH), inv_freq)
        by_start = np.concatenate([np.cos(starts), np.sin(starts)], axis=1)
        yield begin, (by_start @ by_offset).ravel()
        begin, rows = end, min(2 * rows, most)


def _largest_error(inv_freq: NDArray[np.float64], m: int) -> float:
    """Return the largest error of the sums of a block up to distance m.

    With u = 2^-53, the angle m theta rounds by at most u m theta in both its parts. cos and sin are
    off by at most 4 u each, whichever code NumPy has for a processor: by 4 sqrt(2) u together, in
    both of the complex numbers that a pair multiplies. The 2 P products of P pairs, whose sizes
    add up to at most P, are off by 2 P u P in whatever order they are summed. 1.01 covers products
    of two errors.
    """
    pairs = len(inv_freq)
    rounding = pairs * (8 * math.sqrt(2) + 2 * pairs)
    return 1.01 * DOUBLE * (m * float(np.abs(inv_freq).sum()) + rounding)


def _is_negative(inv_freq: NDArray[np.float64], m: int) -> bool:
    """Return whether B(m) < 0, with as many digits as that takes.

    B(m) of a float64 table is never 0 for m > 0: by Lindemann and Weierstrass powers of e with
    different algebraic exponents do not cancel, and every cosine counts with the same sign.
    """
    from mpmath import mp, mpf

    digits = 40
    while True:
        with mp.workdps(digits + len(str(m)) + 10):
            total = mp.fsum(mp.cos(m * mpf(float(theta))) for theta in inv_freq)
            if abs(total) > mpf(10) ** -digits * len(inv_freq):
                return bool(total < 0)
        digits *= 2


def _proven_above(context: int, table: Callable[[float], NDArray[np.float64]]) -> float | None:
    """Return a base from which on every base holds; None if no base is large enough for that.

    A pair with L theta <= pi has cos(m theta) >= cos(L theta) for m = 0 ... L, and any other at
    least -1. The sum of these bounds does not fall as the base rises, so it may be bisected.
    """

    def bound(exponent: float) -> float:
        theta = table(10.0**exponent)
        return float(np.cos(np.minimum(context * theta, math.pi)).sum()) - 1e-9 * len(theta)

    low, high = 0.0, 300.0  # of the exponent; 1e-9 is far above the rounding of a cosine
    if bound(high) < 0:
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if bound(middle) >= 0 else (middle, high)
    return float(10.0**high)


def extend_curve(found: BaseBound, end: int) -> BaseBound:
    """Return the result with its curve up to that distance."""
    if found.last_position[-1] >= end:
        return found
    starts, ends, low, high = _curve(_turning(found.rope), end)
    return replace(found, position=starts, last_position=ends, lowest=low, highest=high)


def _curve(
    inv_freq: NDArray[np.float64], end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return first and last distance, lowest and highest B of the parts of 0 ... end.

    Distances up to BINS have a part each; beyond, a part is a BINS-th of a doubling.
    """
    doublings = math.log2(max(end, 1))
    edges = np.exp2(np.arange(0, doublings, 1 / BINS)).round().astype(np.int64)
    starts = np.unique(np.concatenate([[0], edges[edges <= end]]))
    ends = np.append(starts[1:] - 1, end)
    lowest, highest = np.full(len(starts), np.inf), np.full(len(starts), -np.inf)
    for begin, block in _blocks(inv_freq, end):
        sums = block[: end + 1 - begin]
        first = int(np.searchsorted(starts, begin, side="right")) - 1
        last = int(np.searchsorted(starts, begin + len(sums)))
        cuts = np.maximum(starts[first:last] - begin, 0)
        part = slice(first, last)
        lowest[part] = np.minimum(lowest[part], np.minimum.reduceat(sums, cuts))
        highest[part] = np.maximum(highest[part], np.maximum.reduceat(sums, cuts))
    return starts, ends, lowest, highest
