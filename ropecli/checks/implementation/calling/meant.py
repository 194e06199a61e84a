"""Evidence that a call is meant, and does not only run: rows are those of the call, rotated.

Each vector of such a call is one vector times a number of its own, so that a row of the result
shows by its length which vector it was, and by its direction at which position it was rotated. The
direction at each position is seen in a call of one sequence with one head, where no axis can be
taken for another one.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, on_all_axes
from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Unsupported,
    WrongResult,
)
from ropecli.checks.implementation.convention import TABLES, Convention, letters

#: Names that say where the tokens are.
PLACES = {"positions", "places", "offset", "offsets"}
#: Outcomes of a call: it raises, returns another shape than x's, runs, or shows that it is meant.
RAISES, RESHAPES, RUNS, MEANT = range(4)
#: Sequences and heads of a call, all lengths different and none of them 1; the later ones where
#: those before raise.
SIZES = ((4, 7), (2, 3), (1, 3), (1, 1))
#: Of calls that show the direction of each position, the plainest first.
REFERENCES = ((1, 1), (2, 3))
#: Irregular positions: no two differ by as much as two others, so that what is rotated by those of
#: other tokens is not, by chance, rotated by its own and a constant.
RULER = np.array([0, 1, 4, 9, 11])
MARGIN = 3  #: Positions on both sides that no call has: a constant may be added to all.
POSITIONS = int(RULER[-1]) + 2 * MARGIN  #: Of a call that shows directions, from 0 on.
ENOUGH = 3  #: Tokens of one head that show it.
RATIO = 1.01  #: Of the length of a vector to the next longer one.
BLOCKS = 4  #: Shares of the coordinates, one of which may show it where others are wrong.
#: Relative error of a row: half precision has less, and a row in another place has more.
NEAR = 2.0**-5


#: Makes a call, and returns the rows as float64.
Rotate = Callable[[Call], NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class Trials:
    """Calls that show whether a convention is meant."""

    convention: Convention
    rotate: Rotate
    dim: int
    axes: int  #: Coordinates of a position.
    context: int  #: Positions that are taken.
    dtype: str

    def meaning(self, batch: int, heads: int) -> int:
        """Return the outcome of calls of a batch of heads: `RAISES`, ..., `MEANT`."""
        folded = "h*d" in self.convention.axes_of_x
        if folded and heads == 1:
            return RAISES  # it may be one head that is wider
        may_be_one = folded and "heads" not in self.convention.names
        tokens = next((n for n in (5, 3) if RULER[n - 1] < self.context), self.context)
        random = np.random.default_rng(7)
        powers = random.permutation(batch * heads * tokens).reshape(batch, heads, tokens)
        factors: NDArray[np.float64] = RATIO ** powers.astype(np.float64)
        directions_of = functools.cache(self._directions)
        came = RAISES
        for places in _places_to_try(self.convention, batch, tokens, self.context):
            try:
                got = self._rows(factors, places)
            except WrongResult:
                came = max(came, RESHAPES)
                continue
            except (ImplementationError, Unsupported):
                continue
            came = RUNS
            for size in dict.fromkeys(sizes_of(self.convention, pair) for pair in REFERENCES):
                directions = directions_of(size)
                if directions is None:
                    continue
                seen = got, factors, places, directions
                if _is_meant(*seen, heads_needed=2 if may_be_one else 1):
                    return MEANT
                if may_be_one and self._is_one_of_several(*seen):
                    return MEANT
        return came

    def _is_one_of_several(
        self,
        got: NDArray[np.float64],
        factors: NDArray[np.float64],
        places: NDArray[np.int64],
        directions: NDArray[np.float64],
    ) -> bool:
        """Return True if a head is as one alone, and the others are not what one wide head has.

        All frequencies of a wide head are others, but that of its first pair. If a fixed number of
        its coordinates is rotated, the rest is as it was given.
        """
        if self.dim == 2 or not _heads_that_show_it(
            got, factors, np.atleast_2d(places), directions
        ):
            return False
        others = got[:, 1:].reshape(-1, self.dim)
        along = others @ self._vector / (self._vector @ self._vector)
        off = np.linalg.norm(others - along[:, None] * self._vector, axis=-1)
        as_given = (along > 0) & (off <= NEAR * np.linalg.norm(others, axis=-1))
        return not as_given.all()

    def _directions(self, size: tuple[int, int]) -> NDArray[np.float64] | None:
        """Return the rows of one vector at positions from 0 on; None if such calls raise."""
        for length in (POSITIONS, len(RULER)):  # one call, or several of fewer tokens
            with contextlib.suppress(ImplementationError, Unsupported):
                return self._count(size, length)
        return None

    def _count(self, size: tuple[int, int], length: int) -> NDArray[np.float64]:
        """Return the rows of one vector at positions from 0 on, in calls of a length."""
        last = min(POSITIONS, self.context)
        if not self.convention.names & {*PLACES, *TABLES}:
            last = min(last, length)  # it counts from 0 itself
        rows = []
        for first in range(0, last, length):
            places = np.arange(first, min(first + length, last))
            rows.append(self._rows(np.ones((*size, len(places))), places)[0, 0])
        return np.concatenate(rows)

    def _rows(self, factors: NDArray[np.float64], places: NDArray[np.int64]) -> NDArray[np.float64]:
        x = (factors[..., None] * self._vector).astype(DTYPES[self.dtype])
        positions = on_all_axes(places, self.axes)
        return self.rotate(Call.of(x, positions, per_sequence=places.ndim > 1))

    @functools.cached_property
    def _vector(self) -> NDArray[np.float64]:
        random = np.random.default_rng(5)
        return random.choice([-1.0, 1.0], self.dim) * random.uniform(0.75, 1.25, self.dim)


def sizes_of(convention: Convention, size: tuple[int, int]) -> tuple[int, int]:
    """Return sequences and heads of a call that has a place for them."""
    axes = convention.axes_of_x
    return size[0] if "b" in axes else 1, size[1] if "h" in axes else 1


def in_other_order(one: str, other: str) -> bool:
    """Return True if two arrangements take axes that both have in different order."""
    tokens = [text.replace("b*s", "s") for text in (one, other)]
    flat = [[c for axis in letters("axes", text) for c in axis] for text in tokens]
    first, second = ([c for c in axes if c in flat[0] and c in flat[1]] for axes in flat)
    return first != second


def _places_to_try(
    convention: Convention, batch: int, tokens: int, context: int
) -> list[NDArray[np.int64]]:
    """Return positions, (tokens,) or (batch, tokens), irregular ones first where they are given."""
    names = convention.names
    first = min(MARGIN, context - tokens)
    counted = np.arange(tokens)
    if not names & (PLACES - {"offset", "offsets"} | {*TABLES}):
        if "offsets" in names:
            return [first + counted + np.arange(batch)[:, None]]
        return [counted + (first if "offset" in names else 0)]
    if RULER[tokens - 1] >= context:  # which leaves no room for gaps
        return [counted]
    irregular = min(MARGIN, context - 1 - int(RULER[tokens - 1])) + RULER[:tokens]
    # Of a prime number of tokens, two sequences have one token at most at the same position.
    irregular_places = irregular[counted * (1 + np.arange(batch)[:, None]) % tokens]
    in_batch = "positions" in names and "b" in convention.axes_of_positions
    in_batch |= bool(names & {*TABLES}) and "b" in convention.axes_of_tables
    return [*([irregular_places] if in_batch else []), irregular_places[-1], first + counted]


def _is_meant(
    got: NDArray[np.float64],
    factors: NDArray[np.float64],
    places: NDArray[np.int64],
    directions: NDArray[np.float64],
    *,
    heads_needed: int,
) -> bool:
    """Return True if some heads have rows of one head at the positions of one sequence.

    These are three tokens of one sequence, rotated by their positions there plus one constant.
    `directions` are the rows of the one vector at positions from 0 on.
    """
    dim = got.shape[-1]
    blocks = [slice(None), *(slice(i, None, BLOCKS) for i in range(min(BLOCKS, dim)))]
    return any(
        len(
            _heads_that_show_it(
                got[..., block], factors, np.atleast_2d(places), directions[:, block]
            )
        )
        >= heads_needed
        for block in blocks
    )


def _heads_that_show_it(
    got: NDArray[np.float64],
    factors: NDArray[np.float64],
    places: NDArray[np.int64],
    directions: NDArray[np.float64],
) -> set[int]:
    with np.errstate(all="ignore"):  # a result may be anything
        vectors, found_at, near = _read(got, factors, directions)
    tokens = got.shape[2]
    sources, source_tokens = np.divmod(vectors, tokens)
    found = near & (source_tokens == np.arange(tokens))
    ahead = found_at[..., None] - places.T  # of each token, by the sequence whose positions it has
    # Of each two tokens of a head: whether they are of one sequence and as far ahead.
    alike = found[..., None] & found[..., None, :] & (sources[..., None] == sources[..., None, :])
    agree = alike[..., None] & (ahead[:, :, :, None] == ahead[:, :, None])
    shown = agree.sum(axis=3).max(axis=(2, 3)) >= min(ENOUGH, tokens)
    return set(np.flatnonzero(shown.any(axis=0)).tolist())


def _read(
    got: NDArray[np.float64], factors: NDArray[np.float64], directions: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
    """Return of each row the number of its vector, its position, and whether that is clear."""
    rows = got.reshape(-1, got.shape[-1])
    known = (directions**2).sum(axis=-1)
    along = rows @ directions.T  # (rows, positions)
    where = (along / np.sqrt(known)).argmax(axis=1)
    index = np.arange(len(rows)), where
    order = np.argsort(factors, axis=None)
    # The factors are powers of one number.
    power = np.log(along[index] / known[where]) / np.log(RATIO)
    power = np.nan_to_num(np.rint(power), nan=0.0).clip(0, factors.size - 1)
    which = order[power.astype(np.int64)]
    size = (rows**2).sum(axis=-1)
    left = ((rows - factors.ravel()[which, None] * directions[where]) ** 2).sum(axis=-1)
    near = (left <= NEAR**2 * size) & (size > 0)
    shape = got.shape[:3]
    return which.reshape(shape), where.reshape(shape), near.reshape(shape)
