"""The shapes in which an implementation is called: every pair of values meets in one of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Factors = Mapping[str, Sequence[Any]]
Case = dict[str, Any]
Values = tuple[tuple[str, Any], ...]


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
    that adds most new pairs. The first value of a factor is the plain one.

    Args:
        factors: Values of each factor.
        *limits: Whether a case may be made, the strictest limit first: a pair that fits no case
            of one waits for the next.
        first: Cases that are made anyway.
    """
    names = list(factors)
    waiting: dict[Values, None] = {
        tuple(zip(chosen, values, strict=True)): None
        for chosen in itertools.combinations(names, 2)
        for values in itertools.product(*(factors[name] for name in chosen))
    }
    cases = [*first]
    for case in cases:
        _meet(case, names, waiting)
    for fits in limits or (lambda _case: True,):
        for seed in list(waiting):
            whole = None
            if seed in waiting:
                whole = _complete(dict(seed), factors, waiting, fits, len(cases))
            if whole is not None:
                _meet(whole, names, waiting)
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


def _complete(
    start: Case,
    factors: Factors,
    waiting: Mapping[Values, None],
    fits: Callable[[Case], bool],
    turn: int,
) -> Case | None:
    """Return a whole case that has these values; None if none fits.

    Where several values add as much, they take turns.
    """
    plain = {name: values[0] for name, values in factors.items()}
    if not fits({**plain, **start}):
        return None
    case = dict(start)
    for name, values in factors.items():
        if name not in case:
            fitting = [value for value in values if fits({**plain, **case, name: value})]
            gains = [_gain(case, name, value, factors, waiting) for value in fitting]
            best = [v for v, gain in zip(fitting, gains, strict=True) if gain == max(gains)]
            case[name] = best[turn % len(best)] if best else values[0]
    return {name: case[name] for name in factors}


def _gain(
    case: Case, name: str, value: Any, factors: Factors, waiting: Mapping[Values, None]
) -> int:
    """Return how many new pairs a value makes with those of a case."""
    both = {**case, name: value}
    order = [each for each in factors if each in both]
    place = order.index(name)
    pairs = [(each, name) for each in order[:place]] + [(name, each) for each in order[place + 1 :]]
    return sum(((a, both[a]), (b, both[b])) in waiting for a, b in pairs)


def _meet(case: Case, names: Sequence[str], waiting: dict[Values, None]) -> None:
    for chosen in itertools.combinations(names, 2):
        waiting.pop(tuple((name, case[name]) for name in chosen), None)
