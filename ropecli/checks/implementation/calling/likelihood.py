"""Combinations of choices, likely ones first and one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def likely_first(
    choices: Sequence[Sequence[T]], fits: Callable[[tuple[T, ...]], bool] = lambda _: True
) -> Iterator[tuple[T, ...]]:
    """Yield one of each of the choices, by the sum of their ranks.

    Combinations of one sum come in the order of `itertools.product`.
    """
    if all(choices):
        for total in range(_largest_sum(choices) + 1):
            yield from of_sum(choices, total, fits)


def of_sum(
    choices: Sequence[Sequence[T]],
    total: int,
    fits: Callable[[tuple[T, ...]], bool] = lambda _: True,
    before: tuple[T, ...] = (),
) -> Iterator[tuple[T, ...]]:
    """Yield the combinations whose ranks add up to a total, each after what comes before it."""
    if not choices:
        yield from [before] if total == 0 else []
        return
    first, rest = choices[0], choices[1:]
    least = max(0, total - _largest_sum(rest))
    for rank in range(least, min(total, len(first) - 1) + 1):
        begin = (*before, first[rank])
        if fits(begin):
            yield from of_sum(rest, total - rank, fits, begin)


def _largest_sum(choices: Sequence[Sequence[T]]) -> int:
    return sum(len(each) - 1 for each in choices)
