"""Positions of their own for each sequence of a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.compare import rows_by_oracle, same
from ropecli.checks.implementation.failure import TargetError
from ropecli.checks.implementation.law import Law, Outcome, silent
from ropecli.checks.implementation.laws.positions import AS_THE_ORACLE
from ropecli.checks.implementation.target import values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject

HEADS = 2


def batched_positions(subject: Subject) -> Outcome:
    """Each sequence is turned by its own row of positions."""
    starts = np.array([[0], [9], [30]])
    return _judge(subject, starts + np.arange(5))


def beside_a_long_one(subject: Subject) -> Outcome:
    """A sequence is turned as it is alone, however long another one of its batch is."""
    end = min(subject.context, 2 * (subject.original or subject.context))
    starts = np.array([[0], [max(0, end - 5)]])
    places = subject.places(starts + np.arange(5))
    x = subject.vectors(10, salt=24)
    try:
        rows = [x[:5], x[5:]]
        alone = [
            subject.target.fresh().rows(each, place, subject.dtype)
            for each, place in zip(rows, places, strict=True)
        ]
        given = x.astype(DTYPES[subject.dtype]).reshape(2, 5, subject.dim)
        got = values(subject.target.fresh().raw(given, places), given)
    except TargetError as error:
        return silent(f"refuses such a batch: {error}")
    outcome = same(
        subject,
        got.reshape(10, subject.dim),
        np.concatenate(alone),
        positions=places.reshape(10, *places.shape[2:]),
        what="alone, in a batch",
    )
    if outcome.passed:
        return outcome
    return replace(outcome, note="one long sequence changes the others of its batch")


def left_padding(subject: Subject) -> Outcome:
    """Sequences that begin after some padding at position 0."""
    pads = np.array([[0], [2], [4]])
    return _judge(subject, np.maximum(np.arange(7) - pads, 0))


def _judge(subject: Subject, positions: NDArray[Any]) -> Outcome:
    """Without heads and with them: wrong rows in either fail, and one that is right will do."""
    places = subject.places(positions)
    batch, sequence = positions.shape
    outcomes, refusals = [], []
    for lead in ((batch,), (batch, HEADS)):
        x = subject.vectors(int(np.prod(lead)) * sequence, salt=10)
        given = x.astype(DTYPES[subject.dtype]).reshape(*lead, sequence, subject.dim)
        try:
            got = values(subject.instance.raw(given, places), given)
        except TargetError as error:
            refusals.append(str(error))
            continue
        outcomes.append(_by_row(subject, given, got, places))
    if not outcomes:
        return silent(f"refuses batched positions: {refusals[-1]}")
    return next((each for each in outcomes if not each.passed), outcomes[-1])


def _by_row(
    subject: Subject, given: NDArray[Any], got: NDArray[Any], places: NDArray[Any]
) -> Outcome:
    """Every sequence against the oracle, the tables being those of the longest one."""
    heads = given.shape[1] if given.ndim == 4 else 1
    spread = np.repeat(places[:, None], heads, axis=1)
    outcome = rows_by_oracle(
        subject,
        given.astype(np.float64).reshape(-1, subject.dim),
        spread.reshape(-1, *places.shape[2:]),
        got.reshape(-1, subject.dim),
        where="in a batch: ",
    )
    if outcome.passed is False and outcome.note is None:
        first = np.broadcast_to(places[:1], places.shape)
        again = rows_by_oracle(
            subject,
            given.astype(np.float64).reshape(-1, subject.dim),
            np.repeat(first[:, None], heads, axis=1).reshape(-1, *places.shape[2:]),
            got.reshape(-1, subject.dim),
        )
        if again.passed:
            words = "every sequence of a batch is turned by the positions of the first"
            return replace(outcome, note=words)
    return outcome


LAWS = (
    Law(
        name="batched positions",
        equation="34",
        because=AS_THE_ORACLE,
        judge=batched_positions,
        by_oracle=True,
    ),
    Law(
        name="left padding",
        equation="34",
        because=AS_THE_ORACLE,
        judge=left_padding,
        by_oracle=True,
    ),
)
LAST = (
    Law(
        name="batched positions",
        equation="34",
        because="the rounding of two rotations",
        judge=beside_a_long_one,
    ),
)
