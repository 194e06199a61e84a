"""Checks of rows: within the tolerance of those expected, or why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.implementation.call import ImplementationError, Unsupported
from ropecli.checks.implementation.causes import Cause, Sample, find_position_mistake, name_cause
from ropecli.checks.implementation.oracle import Truth, sequence_length, truth_of
from ropecli.checks.implementation.subject import Step, Subject
from ropecli.checks.law import (
    Law,
    Outcome,
    distinguishing_digits,
    format_vector,
    judge_errors,
    law,
    no_verdict,
)

CALL_FAILED = "a call that must be answered failed"
AS_THE_ORACLE = "the rounding of one rotation, and the phase that float32 tables lose"
CHANGES = "the frequencies change with the length of the sequence"
SHOWN = 4  #: Coordinates of a vector that are written out.
SOME = 8  #: Positions that must be right before a first wrong one is named.


def oracle_law(
    name: str, meaning: str = "", because: str = AS_THE_ORACLE
) -> Callable[[Callable[[Subject], Outcome | Iterable[Outcome]]], Law[Subject]]:
    """Declare a check of rows that are compared with the oracle's."""

    def excuse(subject: Subject) -> str | None:
        return "no rotation was recognised" if subject.oracle is None else None

    return law(name, because=because, meaning=meaning, excuse=excuse)


def check_call(subject: Subject, step: Step) -> Outcome:
    """Call the implementation on one sequence and compare its rows with the oracle's."""
    return check_rows(subject, step, subject.rotate(*step), again=True)


def check_rows(
    subject: Subject,
    step: Step,
    got: Array,
    *,
    again: bool = False,
    where: str = "",
) -> Outcome:
    """Compare the rows of a call with the oracle's; if they are wrong, it can be made again."""
    truth, changed = find_truth(subject, step, got)
    note = CHANGES if changed else None
    outcome = compare_rows(got, truth.rows, truth.tolerance, dtype=step.dtype)
    if outcome.passed is not False:
        return replace(outcome, note=outcome.note or note)
    renewed = again and _right_in_new_instance(subject, step, truth)
    smallest = (_unit_failure(subject, step, truth.wrong(got)) if again else None) or (
        _describe_nearest(step, got, truth)
    )
    if renewed:
        note = (
            "a fresh instance rotates them correctly: a cache keeps the tables of other positions"
        )
    else:
        note = _explain(subject, step, got)
    return replace(outcome, counterexample=where + smallest, note=note)


def describe_failure(subject: Subject, step: Step) -> str | None:
    """Describe the wrong row of a call that is simplest to type; None if all are right now."""
    try:
        got = subject.rotate(*step)
    except (ImplementationError, Unsupported):
        return None
    truth, _ = find_truth(subject, step, got)
    wrong = truth.wrong(got)
    if not wrong.any():
        return None
    return _unit_failure(subject, step, wrong) or _describe_nearest(step, got, truth)


def find_truth(subject: Subject, step: Step, got: Array) -> tuple[Truth, bool]:
    """Return the rows expected, by the first oracle by which all are right, or else the first one.

    With them goes whether the table is that of another length.
    """
    first: Truth | None = None
    for oracles in subject.oracles_of(step.m[None]):
        truth = truth_of(oracles, step.x, step.m, step.dtype)
        if not truth.wrong(got).any():
            return truth, first is not None
        first = first or truth
    assert first is not None
    return first, False


def compare_rows(
    got: Array,
    expected: Array | float,
    tolerance: Array | float,
    *,
    dtype: str,
    example: Callable[..., str] | None = None,
) -> Outcome:
    """Return the outcome of a comparison: every number must be within its tolerance."""
    error = np.abs(got - expected)
    if not error.size:
        return no_verdict("nothing to compare", dtype)
    outcome = judge_errors(error, tolerance, dtype=dtype)
    if outcome.passed or example is None:
        return outcome
    first = np.unravel_index(int((~(error <= tolerance)).argmax()), error.shape)
    return replace(outcome, counterexample=example(*map(int, first)))


def compare_repeats(subject: Subject, step: Step, got: Array, before: Array, what: str) -> Outcome:
    """Compare two results of a call that must be equal up to rounding."""
    # Coordinates that are not finite both times count as equal; other checks see them.
    lost = ~np.isfinite(got) & ~np.isfinite(before)
    got, before = np.where(lost, 0.0, got), np.where(lost, 0.0, before)
    allowed = subject.repeat_tolerance(before, step.dtype)
    allowed = np.where(np.isfinite(allowed), allowed, 0.0)

    def example(row: int, j: int) -> str:
        return (
            f"{format_position(step.m[row])}, coordinate {j}: "
            f"{before[row, j]:.6g} {what} {got[row, j]:.6g}"
        )

    return compare_rows(got, before, allowed, dtype=step.dtype, example=example)


def call_failure(error: Exception, dtype: str | None = None) -> Outcome:
    """Return the failure of a check for which the implementation returned nothing."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


def _right_in_new_instance(subject: Subject, step: Step, truth: Truth) -> bool:
    """Return True if a new instance gives the right rows: earlier calls changed the old one."""
    if not subject.implementation.renewable:
        return False
    try:
        got = subject.implementation.fresh().rows(*step)
    except (ImplementationError, Unsupported):
        return False
    return not truth.wrong(got).any()


def _unit_failure(subject: Subject, step: Step, wrong: NDArray[np.bool_]) -> str | None:
    """Describe a failure with a unit vector in the first wrong pair; None if there is none."""
    oracle = subject.oracle
    assert oracle is not None
    rope = oracle.rotary_at(sequence_length(step.m))
    column = int(np.flatnonzero(wrong[_nearest(step, wrong)])[0])
    pair = np.flatnonzero((rope.pairs_out == column).any(axis=1))
    unit = np.zeros_like(step.x)
    unit[:, int(rope.pairs_in[pair[0], 0]) if len(pair) else column] = 1.0
    easy = step._replace(x=unit)
    try:
        got = subject.rotate(*easy)
    except (ImplementationError, Unsupported):
        return None
    truth = oracle.truth(unit, step.m, step.dtype)
    return _describe_nearest(easy, got, truth) if truth.wrong(got).any() else None


def _nearest(step: Step, wrong: NDArray[np.bool_]) -> int:
    """Return the wrong row that is nearest to position 0."""
    distance = np.abs(step.m if step.m.ndim == 1 else step.m.max(axis=1))
    return int(np.where(wrong.any(axis=1), distance, np.inf).argmin())


def _describe_nearest(step: Step, got: Array, truth: Truth) -> str:
    """Describe the wrong row nearest to position 0, with its number and what is expected."""
    row = _nearest(step, truth.wrong(got))
    place, x = format_position(step.m[row]), step.x[row]
    return _describe_row(place, x, got[row], truth.rows[row], truth.tolerance[row])


def _describe_row(place: str, x: Array, got: Array, expected: Array, tolerance: Array) -> str:
    """Describe a row: "position 1, x = e_0: got (1 at 0), expected (0.5403 at 0, 0.8415 at 1)"."""
    differ = ~(np.abs(got - expected) <= tolerance)
    first = np.flatnonzero(differ)[:SHOWN]
    other = [j for j in np.flatnonzero((x != 0) & ~differ) if len(first) < SHOWN][:1]
    named = sorted({*first.tolist(), *(int(j) for j in other)})
    digits = distinguishing_digits(got[named], expected[named])
    more = ", ..." if differ.sum() > SHOWN else ""
    ours = ", ".join(f"{got[j]:.{digits}g} at {j}" for j in named)
    theirs = ", ".join(f"{expected[j]:.{digits}g} at {j}" for j in named)
    given = format_vector(x, shown=SHOWN, digits=9)
    return f"{place}, x = {given}: got ({ours}{more}), expected ({theirs}{more})"


def format_position(position: Array | np.float64) -> str:
    """Format a position, or a point of several axes."""
    numbers = np.atleast_1d(position)
    text = ", ".join(f"{value:,.0f}" for value in numbers)
    return f"position {text}" if len(numbers) == 1 else f"position ({text})"


def find_mistake(subject: Subject, step: Step, got: Array) -> Cause | None:
    """Return the mistake in positions that gives the rows got; None if none of those tried do."""
    return find_position_mistake(_sample(subject, step, got))


def _sample(subject: Subject, step: Step, got: Array) -> Sample:
    """Return all rows of a call."""
    assert subject.oracle is not None
    index = np.arange(len(step.x))
    return Sample(
        oracle=subject.oracle.at_length(sequence_length(step.m)),
        dtype=step.dtype,
        x=step.x,
        m=step.m,
        got=got,
        sequence=np.zeros_like(index),
        head=np.zeros_like(index),
        row=index,
        positions=step.m[None],
        vectors=step.x,
        own=index,
        scales=np.ones((1, 1)),
        limits=subject.limits,
    )


def _explain(subject: Subject, step: Step, got: Array) -> str | None:
    """Describe what rows have in common that are wrong."""
    if not np.isfinite(got).all():
        return f"{int((~np.isfinite(got)).any(axis=1).sum())} of {len(got)} rows are not finite"
    sample = _sample(subject, step, got)
    mistake = find_position_mistake(sample)
    if mistake is not None:
        return mistake.words.format(rows="rows")
    wrong = sample.wrong()
    cause = None if wrong is None else name_cause([wrong], "wrong rows")
    started = _wrong_from(step, np.asarray(sample.right.wrong(got).any(axis=1)))
    return "; ".join(text for text in (started, cause) if text) or None


def _wrong_from(step: Step, wrong: NDArray[np.bool_]) -> str | None:
    """Name the position from which all rows are wrong, if all before it are right."""
    flat = step.m if step.m.ndim == 1 else step.m.max(axis=1)
    if not wrong.any() or wrong.all() or not SOME <= flat[~wrong].max() == flat[wrong].min() - 1:
        return None
    low, high = int(flat[~wrong].max()), int(flat[wrong].min())
    return f"rows are right up to position {low} and wrong from {high} on"
