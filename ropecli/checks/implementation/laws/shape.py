"""What a call may do to its arguments, and what it must return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.compare import same
from ropecli.checks.implementation.failure import TargetError
from ropecli.checks.implementation.framework import known_dtype
from ropecli.checks.implementation.law import Law, Outcome, raised
from ropecli.checks.implementation.target import values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject

SEQUENCE = 6


def input_untouched(subject: Subject) -> Outcome:
    """No argument is written into."""
    lead = subject.target.lead
    count = min(SEQUENCE, subject.context)
    x = subject.vectors(count, salt=11).astype(DTYPES[subject.dtype])
    first = 0 if subject.target.form == "decoder" else min(3, subject.context - count)
    places = subject.places(np.arange(first, first + count))
    for name, before, now in subject.target.watched(x.reshape(*lead, *x.shape), places):
        after = now.astype(np.float64)
        changed = np.argwhere(after != before.astype(np.float64))
        if len(changed):
            index = tuple(int(i) for i in changed[0])
            text = f"{name}{list(index)} was {float(before[index]):.6g}, is {after[index]:.6g}"
            return Outcome(
                passed=False, samples=1, counterexample=text, note=f"{name} is written into"
            )
    return Outcome(passed=True, samples=1)


def dtype_and_shape(subject: Subject) -> Iterator[Outcome]:
    """The result has the dtype and the shape of x, with heads and a batch or without."""
    places = subject.places(np.arange(min(SEQUENCE, subject.context)))
    for dtype in subject.dtypes:
        x = subject.vectors(len(places), dtype, salt=12).astype(DTYPES[dtype])
        given = x.reshape(*subject.target.lead, *x.shape)
        try:
            result = subject.instance.raw(given, places)
        except TargetError as error:
            yield _refusal(subject, error, dtype)
            continue
        if result.shape != given.shape:
            text = f"x of shape {given.shape}: the result has shape {result.shape}"
            yield Outcome(passed=False, samples=1, counterexample=text, dtype=dtype)
        elif known_dtype(result) != dtype:
            text = f"x of {dtype}: the result is {known_dtype(result)}"
            yield Outcome(passed=False, samples=1, counterexample=text, dtype=dtype)
        else:
            yield Outcome(passed=True, samples=1, dtype=dtype)
    yield _shapes(subject, places)


def _shapes(subject: Subject, places: NDArray[Any]) -> Outcome:
    """The same rows with a batch and heads before them."""
    count, samples = len(places), 0
    for lead in ((3,), (1,), (2, 3), (1, 2)):
        if subject.target.lead and len(lead) != len(subject.target.lead):
            continue  # it wants its own number of axes
        x = subject.vectors(int(np.prod(lead)) * count, salt=13)
        given = x.astype(DTYPES[subject.dtype]).reshape(*lead, count, subject.dim)
        try:
            result = subject.instance.raw(given, places)
        except TargetError:
            continue
        if result.shape != given.shape:
            text = f"x of shape {given.shape}: the result has shape {result.shape}"
            return Outcome(passed=False, samples=1, counterexample=text)
        got = values(result, given)
        alone = np.concatenate(
            [subject.turn(each, places) for each in x.reshape(-1, count, subject.dim)]
        )
        many = np.tile(places, (int(np.prod(lead)), *[1] * (places.ndim - 1)))
        outcome = same(
            subject, got.reshape(-1, subject.dim), alone, positions=many, what="alone, in a batch"
        )
        samples += outcome.samples
        if not outcome.passed:
            return outcome
    return Outcome(passed=True, samples=samples)


def _refusal(subject: Subject, error: TargetError, dtype: str) -> Outcome:
    if dtype == subject.dtype:
        return raised(error, dtype)
    return Outcome(passed=None, note=f"refuses {dtype} data: {error}", dtype=dtype)


LAWS = (
    Law(name="input untouched", equation="34", because="none", judge=input_untouched),
    Law(
        name="dtype and shape",
        equation="34",
        because="the rounding of two rotations between a sequence alone and in a batch",
        judge=dtype_and_shape,
    ),
)
