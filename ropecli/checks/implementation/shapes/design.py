"""The shapes in which an implementation is called: every pair of values meets in one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

Factors = Mapping[str, Sequence[Any]]
Case = dict[str, Any]


def both_sides(*lengths: int) -> list[int]:
    """Return each length with its neighbours, those below 1 left out."""
    return sorted({n + d for n in lengths for d in (-1, 0, 1) if n + d >= 1})


LENGTHS = both_sides(*(2**i for i in range(13)), 48, 96, 192, 384)
HEADS = [n for n in both_sides(2, 4, 8, 16, 32) if n <= 33]
BATCHES = [*range(1, 10)]
#: Rows of most calls, and of those in which two sizes are large at once.
ROWS = (1024, 4400)


def cover(
    factors: Factors, *limits: Callable[[Case], bool], first: Sequence[Case] = ()
) -> list[Case]:
    """Return cases in which every two values of different factors meet, if a case fits.

    Each case begins with a pair that has not met yet, and takes for every other factor the value
    that adds most new pairs. The first value of a factor is the plain one. What decides which
    values of others fit must be the first factor.
    """
    names = list(factors)
    seeds = [
        dict(zip(chosen, values, strict=True))
        for chosen in itertools.combinations(names, 2)
        for values in itertools.product(*(factors[name] for name in chosen))
    ]
    waiting = _Waiting(seeds)
    cases = [*first]
    for case in cases:
        waiting.meet(case)
    for fits in limits or (lambda _case: True,):
        for seed in seeds:
            whole = None
            if waiting.has(seed):
                whole = _complete(seed, factors, waiting, fits, len(cases))
            if whole is not None:
                waiting.meet(whole)
                cases.append(whole)
    return cases[len(first) :]


def one_at_a_time(factors: Factors, fits: Callable[[Case], bool] = lambda _: True) -> list[Case]:
    """Return the plain case, and one for each other value, all else plain."""
    plain = {name: values[0] for name, values in factors.items()}
    others = [
        {**plain, name: value}
        for name, values in factors.items()
        for value in values
        if value != plain[name]
    ]
    return [case for case in (plain, *others) if fits(case)]


def rows(case: Case) -> int:
    """Return the rows of the queries of a case."""
    return math.prod((case["batch"], case["heads"], case["length"]))


class _Waiting:
    """Pairs of values that have not met yet."""

    def __init__(self, pairs: Sequence[Case]) -> None:
        #: By one value and the name of the other factor: the values of that.
        self._others: dict[tuple[str, Any, str], set[Any]] = {}
        for pair in pairs:
            (a, one), (b, other) = pair.items()
            self.of(a, one, b).add(other)
            self.of(b, other, a).add(one)

    def of(self, name: str, value: Any, other: str) -> set[Any]:
        """Return the values of another factor that a value has not met."""
        return self._others.setdefault((name, value, other), set())

    def has(self, pair: Case) -> bool:
        """Return True if two values have not met."""
        (a, one), (b, other) = pair.items()
        return other in self.of(a, one, b)

    def meet(self, case: Case) -> None:
        """Take away the pairs of a case."""
        for (a, one), (b, other) in itertools.permutations(case.items(), 2):
            self.of(a, one, b).discard(other)


def _complete(
    start: Case,
    factors: Factors,
    waiting: _Waiting,
    fits: Callable[[Case], bool],
    turn: int,
) -> Case | None:
    """Return a whole case that has these values; None if none fits.

    Where several values add as many pairs that have not met, one is drawn for each factor: where
    all took turns, some would never meet in threes.
    """
    trial = {name: values[0] for name, values in factors.items()} | start
    case = dict(start)
    for name, values in factors.items():
        if name in case:
            continue
        new = [waiting.of(other, value, name) for other, value in case.items()]
        gains = {}
        for value in values:
            trial[name] = value
            if fits(trial):
                gains[value] = sum(value in each for each in new)
        if not gains:
            return None
        most = max(gains.values())
        best = [value for value, gain in gains.items() if gain == most]
        case[name] = trial[name] = best[crc32(f"{turn} {name}".encode()) % len(best)]
    return {name: case[name] for name in factors}
