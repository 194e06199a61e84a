"""The shapes in which an implementation is called: every value meets every kind of any other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any
from zlib import crc32

Factors = Mapping[str, Sequence[Any]]
Case = dict[str, Any]
Kinds = Mapping[str, Callable[[Any], Any]]  #: By factor: what a value has in common with others.


def both_sides(*lengths: int) -> list[int]:
    """Return each length with its neighbours, those below 1 left out."""
    return sorted({n + d for n in lengths for d in (-1, 0, 1) if n + d >= 1})


LENGTHS = both_sides(*(2**i for i in range(13)), 48, 96, 192, 384)
HEADS = [n for n in both_sides(2, 4, 8, 16, 32) if n <= 33]
BATCHES = [*range(1, 10)]
BITS = 5  #: Powers of two that sizes of one kind span.
#: Rows of most calls, and of those in which two sizes are large at once.
ROWS = (1024, 4400)


def kind_of_size(size: int) -> tuple[int, int]:
    """Return the magnitude of a size, and on which side of a power of two it is.

    Code branches on thresholds, on blocks, and on what is left after whole blocks.
    """
    power = round(math.log2(size)) if size else -1
    return -(-power // BITS), (size > 2**power) - (size < 2**power)


def cover(
    factors: Factors,
    *limits: Callable[[Case], bool],
    first: Sequence[Case] = (),
    kinds: Kinds = MappingProxyType({}),
) -> list[Case]:
    """Return cases in which every value meets every kind of the others, if a case fits.

    Without kinds every two values of different factors meet.

    Each case begins with a pair that has not met yet, and takes for every other factor the value
    that adds most new pairs. The first value of a factor is the plain one. What decides which
    values of others fit must be the first factor.
    """
    seeds = [
        (a, one, {b: other})
        for a, b in itertools.combinations(factors, 2)
        for one, other in itertools.product(factors[a], factors[b])
    ]
    waiting = _Waiting(factors, kinds)
    cases = [*first]
    for case in cases:
        waiting.meet(case)
    for fits in limits or (lambda _case: True,):
        for name, value, other in seeds:
            complete = None
            if waiting.gain(name, value, other):
                start = {name: value, **other}
                complete = _complete(start, factors, waiting, fits, len(cases))
            if complete is not None:
                waiting.meet(complete)
                cases.append(complete)
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
    """Values, each with the kinds of others that it has not met yet."""

    def __init__(self, factors: Factors, kinds: Kinds) -> None:
        self._kind = {
            (name, value): kinds[name](value) if name in kinds else value
            for name, values in factors.items()
            for value in values
        }
        self._left = {
            (*one, name, kind)
            for one in self._kind
            for (name, _), kind in self._kind.items()
            if name != one[0]
        }

    def gain(self, name: str, value: Any, others: Case) -> int:
        """Return how many kinds would be met if a value came to others."""
        kind, left = self._kind[name, value], self._left
        return sum(
            ((name, value, other, self._kind[other, known]) in left)
            + ((other, known, name, kind) in left)
            for other, known in others.items()
        )

    def meet(self, case: Case) -> None:
        """Take away what meets in a case."""
        for name, value in case.items():
            for other, known in case.items():
                self._left.discard((name, value, other, self._kind.get((other, known))))


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
        gains = {}
        for value in values:
            trial[name] = value
            if fits(trial):
                gains[value] = waiting.gain(name, value, case)
        if not gains:
            return None
        most = max(gains.values())
        best = [value for value, gain in gains.items() if gain == most]
        case[name] = trial[name] = best[crc32(f"{turn} {name}".encode()) % len(best)]
    return {name: case[name] for name in factors}
