"""Rows of an implementation compared with the oracle's, or with its own at another time."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation import hypotheses
from ropecli.checks.implementation.calls import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import sequence_length
from ropecli.checks.law import Outcome, distinguishing_digits, format_vector

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Oracle, Truth
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

SHOWN = 4  #: Coordinates of a vector that are written out.


def describe_row(place: str, x: Array, got: Array, expected: Array, tolerance: Array) -> str:
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


CHANGES = "the frequencies change with the length of the sequence"


def judge_call(
    subject: Subject, x: Array, positions: NDArray[Any], dtype: str | None = None
) -> Outcome:
    """Call the implementation on one sequence and compare its rows with the oracle's.

    Raises:
        ImplementationError: It raised, or returned what cannot be judged.
        Unsupported: Its form cannot take these positions.
    """
    got = subject.rotate(x, positions, dtype)
    return judge_rows(subject, x, positions, got, dtype, again=True)


def judge_rows(
    subject: Subject,
    x: Array,
    positions: NDArray[Any],
    got: Array,
    dtype: str | None = None,
    *,
    again: bool = False,
    where: str = "",
) -> Outcome:
    """Compare rows with the oracle's.

    Args:
        subject: The implementation.
        x: Vectors, (count, head_dim).
        positions: Their positions, (count,) or (count, axes).
        got: Rows that the implementation returned.
        dtype: Dtype of the data.
        again: Make the same call with unit vectors, for a smaller case.
        where: Text before a counterexample.
    """
    dtype = dtype or subject.dtype
    oracle = subject.oracle
    assert oracle is not None
    m = positions.astype(np.float64)
    truth = oracle.truth(x, m, dtype)
    note = None
    if not _within(got, truth):
        other = subject.identify_at(sequence_length(m))
        if other is not None and _within(got, retold := other.truth(x, m, dtype)):
            truth, note = retold, CHANGES
    outcome = compare_rows(got, truth.rows, truth.tolerance, dtype=dtype, note=note)
    if outcome.passed is not False:
        return outcome
    note = None
    if again and _right_in_new_instance(subject, x, positions, truth, dtype):
        note = "a new instance turns them rightly: a cache keeps the tables of other positions"
    found = _smallest_failure(subject, oracle, x, m, got, truth, dtype, again=again)
    return replace(
        outcome,
        counterexample=where + found,
        note=note or hypotheses.explain_rows(subject, oracle, x, m, got, dtype),
    )


def compare_rows(
    got: Array, expected: Array, tolerance: Array, *, dtype: str, note: str | None = None
) -> Outcome:
    """Return the outcome of a comparison: every number must be within its tolerance."""
    error = np.abs(got - expected)
    allowed = np.broadcast_to(tolerance, error.shape)
    if not error.size:
        return Outcome(passed=None, note="nothing to compare", dtype=dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / allowed)
    share = np.where(np.isnan(share), np.inf, share)
    worst = np.unravel_index(int(share.argmax()), share.shape)
    return Outcome(
        passed=bool(share[worst] <= 1),
        max_error=float(error[worst]),
        tolerance=float(allowed[worst]),
        samples=len(got),
        note=note,
        dtype=dtype,
    )


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
    outcome = compare_rows(got, before, allowed, dtype=dtype)
    if outcome.passed is not False:
        return outcome
    row = int((~(np.abs(got - before) <= allowed)).any(axis=1).argmax())
    differ = np.flatnonzero(~(np.abs(got[row] - before[row]) <= allowed[row]))
    j = int(differ[0])
    text = (
        f"{format_position(positions[row].astype(np.float64))}, coordinate {j}: "
        f"{before[row, j]:.6g} {what} {got[row, j]:.6g}"
    )
    return replace(outcome, counterexample=text)


def _right_in_new_instance(
    subject: Subject, x: Array, positions: NDArray[Any], truth: Truth, dtype: str
) -> bool:
    """Return True if a new instance gives the right rows: earlier calls changed the old one."""
    if (
        not inspect.isclass(subject.implementation.function)
        or subject.implementation.form == "decoder"
    ):
        return False
    try:
        return _within(subject.implementation.fresh().rows(x, positions, dtype), truth)
    except (ImplementationError, Unsupported):
        return False


def _within(got: Array, truth: Truth) -> bool:
    return bool((np.abs(got - truth.rows) <= truth.tolerance).all())


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
    wrong = ~(np.abs(got - truth.rows) <= truth.tolerance)
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
            bad = ~(np.abs(turned - easy.rows) <= easy.tolerance)
            if bad.any():
                row = int(np.where(bad.any(axis=1), distance, np.inf).argmin())
                return describe_row(
                    format_position(m[row]),
                    unit[row],
                    turned[row],
                    easy.rows[row],
                    easy.tolerance[row],
                )
    return describe_row(
        format_position(m[row]), x[row], got[row], truth.rows[row], truth.tolerance[row]
    )
