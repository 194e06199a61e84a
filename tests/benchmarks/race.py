"""Time competitors in turn, A B A B ..., so that a machine's drift meets all of them alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report."""

    what: str  #: What was measured against what.
    target: str  #: What the ratio, or the time, should be.
    ratio: float  #: Median of the rounds' ratios, or milliseconds where there is no other.
    ours: float  #: Median, milliseconds.
    other: float | None  #: Median, milliseconds.
    met: bool  #: Whether the target is met.

    def markdown(self) -> str:
        """The row of a table."""
        other = "" if self.other is None else f"{self.other:.1f}"
        ratio = "" if self.other is None else f"{self.ratio:.2f}"
        verdict = "yes" if self.met else "**no**"
        return f"| {self.what} | {self.ours:.1f} | {other} | {ratio} | {self.target} | {verdict} |"


def race(*competitors: Callable[[], object], rounds: int = 11) -> list[list[float]]:
    """Milliseconds of each competitor in each round, after one round that is not counted."""
    times: list[list[float]] = [[] for _ in competitors]
    for number in range(rounds + 1):
        for competitor, kept in zip(competitors, times, strict=True):
            begin = time.perf_counter()
            competitor()
            if number:
                kept.append((time.perf_counter() - begin) * 1e3)
    return times


def speed(
    what: str, ours: Callable[[], object], other: Callable[[], object], *, least: float
) -> Row:
    """How many times as fast as the other ours is; at least so many is wanted."""
    mine, theirs = race(ours, other)
    ratio = statistics.median(b / a for a, b in zip(mine, theirs, strict=True))
    return _row(what, f">= {least:g}x", ratio, mine, theirs, met=ratio >= least)


def share(
    what: str,
    ours: Callable[[], object],
    other: Callable[[], object],
    *,
    most: float,
    rounds: int = 11,
) -> Row:
    """How many times as long as the other ours takes; at most so many is wanted."""
    mine, theirs = race(ours, other, rounds=rounds)
    ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
    return _row(what, f"<= {most:g}x", ratio, mine, theirs, met=ratio <= most)


def alone(what: str, ours: Callable[[], object], *, most: float, rounds: int = 11) -> Row:
    """How many milliseconds ours takes; at most so many are wanted."""
    (mine,) = race(ours, rounds=rounds)
    middle = statistics.median(mine)
    return Row(
        what=what, target=f"<= {most:g} ms", ratio=middle, ours=middle, other=None,
        met=middle <= most,
    )  # fmt: skip


def _row(
    what: str, target: str, ratio: float, mine: list[float], theirs: list[float], *, met: bool
) -> Row:
    return Row(
        what=what,
        target=target,
        ratio=ratio,
        ours=statistics.median(mine),
        other=statistics.median(theirs),
        met=met,
    )
