"""Verdicts on rows: within the tolerance of those expected, or why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.implementation.causes import Cause, Sample, find_position_mistake, name_cause
from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import Oracle, Truth, sequence_length, truth_of
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import (
    Law,
    Outcome,
    distinguishing_digits,
    format_vector,
    judge_errors,
    law,
)

CALL_FAILED = "a call that must be answered failed"
AS_THE_ORACLE = "the rounding of one rotation, and the phase that float32 tables lose"
CHANGES = "the frequencies change with the length of the sequence"
SHOWN = 4  #: Coordinates of a vector that are written out.
SOME = 8  #: Positions that must be right before a first wrong one is named.


def oracle_law(
    name: str, meaning: str = "", because: str = AS_THE_ORACLE
) -> Callable[[Callable[[Subject], Outcome | Iterable[Outcome]]], Law[Subject]]:
    """Declare a law of rows that are compared with the oracle's."""

    def excuse(subject: Subject) -> str | None:
        return "no rotation was recognised" if subject.oracle is None else None

    return law(name, because=because, meaning=meaning, excuse=excuse)


def judge_call(
    subject: Subject, x: Array, positions: NDArray[Any], dtype: str | None = None
) -> Outcome:
    """Call the implementation on one sequence and compare its rows with the oracle's."""
    got = subject.rotate(x, positions, dtype)
    return judge_rows(subject, x, positions, got, dtype, again=True)


def judge_rows(
    subject: Subject,
    x: Array,
    positions: NDArray[Any],
    got: Array,
    dtype: str | None = None,
    *,
    sequences: int = 1,
    again: bool = False,
    where: str = "",
    rows: str = "wrong rows",
) -> Outcome:
    """Compare rows with the oracle's."""
    dtype = dtype or subject.dtype
    oracle = subject.oracle
    assert oracle is not None
    m = positions.astype(np.float64)
    split = m.reshape(sequences, -1, *m.shape[1:])
    truths = (truth_of(oracles, x, m, dtype) for oracles in subject.oracles_of(split))
    truth, note = next(truths), None
    if truth.wrong(got).any():
        right = next((other for other in truths if not other.wrong(got).any()), None)
        truth, note = (truth, None) if right is None else (right, CHANGES)
    outcome = compare_rows(got, truth.rows, truth.tolerance, dtype=dtype)
    if outcome.passed is not False:
        return replace(outcome, note=outcome.note or note)
    renewed = again and _right_in_new_instance(subject, x, positions, truth, dtype)
    smallest = _smallest_failure(subject, oracle, x, m, got, truth, dtype, again=again)
    if renewed:
        note = "a new instance turns them rightly: a cache keeps the tables of other positions"
    else:
        note = _explain(subject, oracle, x, m, got, dtype, sequences, rows)
    return replace(outcome, counterexample=where + smallest, note=note)


def compare_rows(
    got: Array,
    expected: Array,
    tolerance: Array,
    *,
    dtype: str,
    example: Callable[[int, int], str] | None = None,
) -> Outcome:
    """Return the outcome of a comparison: every number must be within its tolerance."""
    error = np.abs(got - expected)
    if not error.size:
        return Outcome(passed=None, note="nothing to compare", dtype=dtype)
    outcome = judge_errors(error, tolerance, dtype=dtype)
    if outcome.passed or example is None:
        return outcome
    row, column = np.unravel_index(int((~(error <= tolerance)).argmax()), error.shape)
    return replace(outcome, counterexample=example(int(row), int(column)))


def compare_repeats(
    subject: Subject,
    got: Array,
    before: Array,
    *,
    positions: NDArray[Any],
    what: str,
    dtype: str | None = None,
) -> Outcome:
    """Compare two results that must be equal up to rounding."""
    dtype = dtype or subject.dtype
    # Coordinates that are not finite both times count as equal; other laws judge them.
    lost = ~np.isfinite(got) & ~np.isfinite(before)
    got, before = np.where(lost, 0.0, got), np.where(lost, 0.0, before)
    repeat_tolerance = subject.repeat_tolerance(before, dtype)
    allowed = np.broadcast_to(
        np.where(np.isfinite(repeat_tolerance), repeat_tolerance, 0.0), before.shape
    )

    def example(row: int, j: int) -> str:
        return (
            f"{format_position(positions[row].astype(np.float64))}, coordinate {j}: "
            f"{before[row, j]:.6g} {what} {got[row, j]:.6g}"
        )

    return compare_rows(got, before, allowed, dtype=dtype, example=example)


def call_failure(error: Exception, dtype: str | None = None) -> Outcome:
    """Return the failure of a law for which the implementation gave nothing to judge."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


def _right_in_new_instance(
    subject: Subject, x: Array, positions: NDArray[Any], truth: Truth, dtype: str
) -> bool:
    """Return True if a new instance gives the right rows: earlier calls changed the old one."""
    if not subject.implementation.renewable:
        return False
    try:
        got = subject.implementation.fresh().rows(x, positions, dtype)
    except (ImplementationError, Unsupported):
        return False
    return not truth.wrong(got).any()


def _smallest_failure(
    subject: Subject,
    oracle: Oracle,
    x: Array,
    m: Array,
    got: Array,
    truth: Truth,
    dtype: str,
    *,
    again: bool,
) -> str:
    """Describe the failing row nearest to position 0, with a unit vector if that fails as well."""
    wrong = truth.wrong(got)
    distance = np.abs(m if m.ndim == 1 else m.max(axis=1))
    row = int(np.where(wrong.any(axis=1), distance, np.inf).argmin())
    if again:
        rope = oracle.rotary_at(sequence_length(m))
        column = int(np.flatnonzero(wrong[row])[0])
        pair = np.flatnonzero((rope.pairs_out == column).any(axis=1))
        read = int(rope.pairs_in[pair[0], 0]) if len(pair) else column
        unit = np.zeros_like(x)
        unit[:, read] = 1.0
        try:
            turned = subject.rotate(unit, m.astype(np.int64), dtype)
        except (ImplementationError, Unsupported):
            turned = None
        if turned is not None:
            easy = oracle.truth(unit, m, dtype)
            bad = easy.wrong(turned)
            if bad.any():
                row = int(np.where(bad.any(axis=1), distance, np.inf).argmin())
                return _describe_row(
                    format_position(m[row]),
                    unit[row],
                    turned[row],
                    easy.rows[row],
                    easy.tolerance[row],
                )
    return _describe_row(
        format_position(m[row]), x[row], got[row], truth.rows[row], truth.tolerance[row]
    )


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


def find_mistake(
    subject: Subject, oracle: Oracle, x: Array, m: Array, got: Array, dtype: str
) -> Cause | None:
    """Return the mistake in positions m that gives the rows got; None if none of those tried do."""
    return find_position_mistake(_sample(subject, oracle, x, m, got, dtype))


def _sample(
    subject: Subject,
    oracle: Oracle,
    x: Array,
    m: Array,
    got: Array,
    dtype: str,
    sequences: int = 1,
) -> Sample:
    """Return all rows of a call, one sequence after another."""
    index = np.arange(len(x))
    sequence, row = np.divmod(index, max(1, len(x) // sequences))
    return Sample(
        oracle=oracle.at_length(sequence_length(m)),
        dtype=dtype,
        x=x,
        m=m,
        got=got,
        sequence=sequence,
        head=np.zeros_like(index),
        row=row,
        positions=m.reshape(sequences, -1, *m.shape[1:]),
        vectors=x,
        own=index,
        scales=np.ones((sequences, 1)),
        limits=(subject.context, subject.original or subject.context),
    )


def _explain(
    subject: Subject,
    oracle: Oracle,
    x: Array,
    m: Array,
    got: Array,
    dtype: str,
    sequences: int,
    rows: str,
) -> str | None:
    """Describe what rows have in common that are wrong."""
    if not np.isfinite(got).all():
        return f"{int((~np.isfinite(got)).any(axis=1).sum())} of {len(got)} rows are not finite"
    sample = _sample(subject, oracle, x, m, got, dtype, sequences)
    mistake = find_position_mistake(sample)
    if mistake is not None:
        return mistake.words.format(rows="rows")
    wrong = sample.wrong()
    cause = None if wrong is None else name_cause([wrong], rows)
    which = np.asarray(sample.right.wrong(got).any(axis=1))
    started = _wrong_from(subject, oracle, m, which, dtype)
    return "; ".join(text for text in (started, cause) if text) or None


def _wrong_from(
    subject: Subject, oracle: Oracle, m: Array, wrong: NDArray[np.bool_], dtype: str
) -> str | None:
    """Name the position from which all rows are wrong, if those before it are right."""
    flat = m if m.ndim == 1 else m.max(axis=1)
    if not wrong.any() or wrong.all() or flat[wrong].min() <= flat[~wrong].max():
        return None
    low, high = int(flat[~wrong].max()), int(flat[wrong].min())
    if low < SOME:
        return None
    end = int(flat.max())
    while high - low > 1:
        middle = (low + high) // 2
        places = np.unique([0, 1, middle, end])
        row = int(np.flatnonzero(places == middle)[0])
        v = subject.vectors(len(places), dtype, salt=23)
        try:
            turned = subject.rotate(v, subject.on_axes(places), dtype)
        except (ImplementationError, Unsupported):
            break
        there = oracle.truth(v, subject.on_axes(places).astype(np.float64), dtype)
        low, high = (low, middle) if there.wrong(turned)[row].any() else (middle, high)
    return f"rows are right up to position {low} and wrong from {high} on"
