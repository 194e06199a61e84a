"""Time competitors in turn, A B A B ..., so that a machine's drift affects all equally."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the report."""

    what: str  #: The two competitors.
    target: str  #: Target of the ratio or time.
    ratio: float  #: Median of the rounds' ratios; milliseconds without a competitor.
    ours: float  #: Median, milliseconds.
    other: float | None  #: Median, milliseconds.
    met: bool  #: The target is met.

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
    """Measure the speed of ours relative to the other's; the target is `least`."""
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
    """Measure the time of ours relative to the other's; the target is `most`."""
    mine, theirs = race(ours, other, rounds=rounds)
    ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
    return _row(what, f"<= {most:g}x", ratio, mine, theirs, met=ratio <= most)


def duration(what: str, ours: Callable[[], object], *, most: float, rounds: int = 11) -> Row:
    """Measure the milliseconds of ours; the target is `most`."""
    (mine,) = race(ours, rounds=rounds)
    middle = statistics.median(mine)
    return Row(
        what=what, target=f"<= {most:g} ms", ratio=middle, ours=middle, other=None,
        met=middle <= most,
    )  # fmt: skip


def processor(
    what: str, words: Sequence[str], environment: dict[str, str], *, most: float, rounds: int = 5
) -> Row:
    """Measure the processor time and memory of a command; the target is `most` milliseconds."""
    used, peaks = zip(*(_resources(words, environment) for _ in range(rounds)), strict=True)
    middle = statistics.median(used)
    return Row(
        what=f"{what}, of processor; {max(peaks):.0f} MB",
        target=f"<= {most:g} ms", ratio=middle, ours=middle, other=None, met=middle <= most,
    )  # fmt: skip


def _resources(words: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Milliseconds of processor, and MB, of a process that ends with 0."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *words],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, kilobytes = done.stdout.split()
    return float(seconds) * 1e3, int(kilobytes) / 1024


#: A small process starts the command, as memory of the parent counts as the child's.
_CHILD = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(code)
"""


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
