"""Which rotation it is, and whether that is the one expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.implementation.compare import rows_by_oracle
from ropecli.checks.implementation.law import Law, Outcome, silent
from ropecli.checks.implementation.laws.positions import AS_THE_ORACLE
from ropecli.checks.implementation.oracle import Oracle, by_length
from ropecli.checks.implementation.step import in_words, step_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject

ROWS = 64  #: Positions from 0 at which conventions are compared.


def rotation(subject: Subject) -> Outcome:
    """It is some RoPE, in whatever convention, by the positions that it is given."""
    found = subject.found
    if subject.as_expected and (found is None or not found.recognised):
        reason = subject.unseen if found is None else found.reason
        return Outcome(
            passed=True, note=f"the one expected; vectors alone do not show it: {reason}"
        )
    if found is None:
        return Outcome(passed=False, note=subject.unseen or "it could not be called")
    if not found.recognised:
        return Outcome(passed=False, samples=found.vectors, note=found.reason)
    if subject.expect is None and (step := step_of(found)) != 1:
        return Outcome(passed=False, samples=found.vectors, note=in_words(step))
    return Outcome(passed=True, samples=found.vectors)


def convention(subject: Subject) -> Outcome:
    """It is the RoPE that was expected."""
    if subject.expect is None:
        return silent("nothing was expected: any RoPE will do")
    return expected(subject)


def expected(subject: Subject) -> Outcome:
    """Rows at the first positions against the encoding that was expected."""
    assert subject.expect is not None
    kept = subject.oracle, subject.as_expected
    subject.oracle, subject.as_expected = Oracle(rotary_at=by_length(subject.expect)), True
    try:
        places = positions(subject)
        x = subject.vectors(len(places), salt=19)
        got = subject.turn(x, places)
        return rows_by_oracle(subject, x, places, got, again=True)
    finally:
        subject.oracle, subject.as_expected = kept


def positions(subject: Subject) -> NDArray[np.int64]:
    """Positions from 0, every axis at a pace of its own."""
    count = np.arange(min(ROWS, subject.context, subject.original or ROWS))
    if subject.axes == 1:
        return count
    return np.stack(
        [(count * (1 + 2 * axis)) % (61 + axis) for axis in range(subject.axes)], axis=1
    )


LAWS = (
    Law(
        name="rotation",
        equation="34",
        because="what the dtype can hold of a rotation",
        judge=rotation,
    ),
    Law(name="convention", equation="34", because=AS_THE_ORACLE, judge=convention),
)
