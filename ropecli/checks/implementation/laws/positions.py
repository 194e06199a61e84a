"""Positions of every kind, each row against the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation import hypotheses
from ropecli.checks.implementation.compare import by_oracle, rows_by_oracle
from ropecli.checks.implementation.failure import TargetError, WrongResult
from ropecli.checks.implementation.law import Law, Outcome, raised, silent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import ArrayLike

    from ropecli.checks.implementation.subject import Subject

#: Where counters of few bits, half precisions and caches end.
EDGES = (0, 1, 2, 127, 128, 255, 256, 257, 511, 512, 1000, 2047, 2048, 2049, 2051, 4095, 4096)
FAR_EDGES = (4097, 8191, 8193, 15_968, 16_385, 32_767, 32_769, 65_503, 65_505, 65_537, 99_991)
_LOOKED_UP = 48  #: Negative positions that must be rows from the end of a table.
_LONGEST_TABLE = 2**24  #: Rows that are looked for.
AS_THE_ORACLE = "the rounding of one rotation, and the phase that float32 tables lose"


def _at(*lists: ArrayLike) -> Callable[[Subject], Iterator[Outcome]]:
    """The law of some lists of positions; one as long as another shows what a cache goes by."""

    def judge(subject: Subject) -> Iterator[Outcome]:
        for positions in lists:
            places = subject.places(positions)
            yield by_oracle(subject, subject.vectors(len(places), salt=5), places)

    return judge


def long_positions(subject: Subject) -> Iterator[Outcome]:
    """Rows up to the end of the context, in every dtype."""
    for dtype in subject.dtypes:
        places = subject.places(up_to(subject.context))
        x = subject.vectors(len(places), dtype, salt=6)
        try:
            yield by_oracle(subject, x, places, dtype)
        except TargetError as error:
            yield refused(subject, error, dtype)


def beyond(subject: Subject) -> Outcome:
    """Rows past the end of the context: right, or refused."""
    end = subject.context
    positions = [0, 1, end - 1, end, end + 1, end + end // 2, 2 * end - 1, 2 * end + 3]
    places = subject.places(positions)
    return by_oracle(subject, subject.vectors(len(places), salt=7), places)


def negative(subject: Subject) -> Outcome:
    """R_{-m}, as relative positions and left padding need: right, or refused."""
    places = subject.places([-1, -2, -3, -17, 0, 5, -100])
    try:
        outcome = by_oracle(subject, subject.vectors(len(places), salt=8), places)
        if outcome.passed or subject.axes > 1:
            return outcome
        rows = hypotheses.table_of(outcome.note) or _from_the_end(subject)
    except WrongResult:
        raise
    except TargetError as error:
        return silent(f"refuses negative positions: {error}")
    if rows is None:
        return outcome
    return silent(f"they count from the end of a table of {rows:,} rows, as indices do")


def _from_the_end(subject: Subject) -> int | None:
    """Rows of the table that negative positions are looked up in as indices, if they are.

    No model asks for them, and every table that is looked up in does so.
    """
    rows = _first_row(subject)
    places = subject.places(range(-_LOOKED_UP, 0))
    x = subject.vectors(len(places), salt=8)
    got = subject.turn(x, places)
    return rows if rows_by_oracle(subject, x, places + rows, got).passed else None


def _first_row(subject: Subject) -> int:
    """How far below 0 a table begins: position -n turns as 0, and any before that, or raises."""
    x = subject.vectors(1, salt=8)
    first = subject.turn(x, subject.places([0]))
    low, high = _LOOKED_UP, _LONGEST_TABLE
    while low < high:
        middle = (low + high) // 2
        try:
            inside = not np.array_equal(subject.turn(x, subject.places([-middle])), first)
        except TargetError:
            inside = False
        low, high = (middle + 1, high) if inside else (low, middle)
    return low


def axes(subject: Subject) -> Outcome:
    """Each pair turns by its own coordinate of the position."""
    if subject.axes == 1:
        return silent("positions have one axis")
    found, expect = subject.found, subject.expect
    rope = None if found is None else found.rotary
    if rope is not None and expect is not None and not subject.as_expected:
        named = zip(rope.input_pairs, expect.input_pairs, rope.axis, expect.axis, strict=False)
        for pair, (here, there, axis, wanted) in enumerate(named):
            if here == there and axis != wanted:
                text = f"pair {pair} follows axis {axis} of the position, expected {wanted}"
                return Outcome(passed=False, counterexample=text)
    steps = np.arange(1, 1 + subject.axes)
    places = (np.arange(12)[:, None] * steps + steps[::-1] * 3) % 29
    return by_oracle(subject, subject.vectors(len(places), salt=9), places)


def up_to(context: int) -> list[int]:
    """Positions where implementations go wrong, below the end of a context."""
    near = [p for p in (*EDGES, *FAR_EDGES) if p < context]
    return sorted({*near, *range(min(8, context)), context // 3, context // 2, context - 1})


def refused(subject: Subject, error: TargetError, dtype: str) -> Outcome:
    """A call within the context that raised: a failure, unless nobody promised that context.

    Args:
        subject: What was called.
        error: What it raised; a wrong result is no refusal.
        dtype: Of the data; any but the first may be refused.
    """
    if isinstance(error, WrongResult) or (dtype == subject.dtype and subject.context_given):
        return raised(error, dtype)
    what = f"positions up to {subject.context - 1:,}" if dtype == subject.dtype else f"{dtype} data"
    return Outcome(passed=None, note=f"refuses {what}: {error}", dtype=dtype)


LAWS = (
    Law(
        name="offset positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=_at(range(7, 23), range(30, 46)),
        by_oracle=True,
    ),
    Law(
        name="gaps in positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=_at((0, 1, 2, 3, 4, 5, 6, 7, 8, 47), (0, 1, 4, 5, 9, 16, 17, 25, 40, 47)),
        by_oracle=True,
    ),
    Law(
        name="repeated positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=_at((3, 3, 3, 0, 0, 7, 7, 8), (3, 3, 5, 5, 5, 0, 0, 8)),
        by_oracle=True,
    ),
    Law(
        name="positions backwards",
        equation="34",
        because=AS_THE_ORACLE,
        judge=_at(range(15, -1, -1)),
        by_oracle=True,
    ),
    Law(
        name="packed sequences",
        equation="34",
        because=AS_THE_ORACLE,
        judge=_at(
            (0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6),
            (0, 1, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6),
        ),
        by_oracle=True,
    ),
    Law(
        name="negative positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=negative,
        by_oracle=True,
    ),
    Law(name="axes", equation="34", because=AS_THE_ORACLE, judge=axes, by_oracle=True),
)
LONG = (
    Law(
        name="long positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=long_positions,
        by_oracle=True,
    ),
    Law(
        name="beyond the cache",
        equation="34",
        because=AS_THE_ORACLE,
        judge=beyond,
        by_oracle=True,
    ),
)
