"""Verdicts on rows: within the tolerance of those expected, or why not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import sequence_length, truth_of
from ropecli.checks.law import Outcome, distinguishing_digits, format_vector, shares

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.oracle import Oracle, Truth
    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

CALL_FAILED = "a call that must be answered failed"
CHANGES = "the frequencies change with the length of the sequence"
SHOWN = 4  #: Coordinates of a vector that are written out.
SOME = 8  #: Positions that must be right before a first wrong one is named.
LIMITS = tuple(2**n for n in range(4, 21))  #: Lengths that caches are cut at.


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
    sequences: int = 1,
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
        sequences: Sequences of one length that the rows are, one after another.
        again: Make the same call with unit vectors, for a smaller case.
        where: Text before a counterexample.
    """
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
        note = _explain(subject, oracle, x, m, got, dtype)
    return replace(outcome, counterexample=where + smallest, note=note)


def compare_rows(
    got: Array,
    expected: Array,
    tolerance: Array,
    *,
    dtype: str,
    example: Callable[[int, int], str] | None = None,
) -> Outcome:
    """Return the outcome of a comparison: every number must be within its tolerance.

    Args:
        got: (count, width).
        expected: The same shape.
        tolerance: The same shape, or one that is broadcast to it.
        dtype: Dtype of the data.
        example: Describes a failure by the row and the column of the first wrong number.
    """
    error = np.abs(got - expected)
    allowed = np.broadcast_to(tolerance, error.shape)
    if not error.size:
        return Outcome(passed=None, note="nothing to compare", dtype=dtype)
    share = shares(error, allowed)
    worst = np.unravel_index(int(share.argmax()), share.shape)
    passed = bool(share[worst] <= 1)
    counterexample = None
    if not passed and example is not None:
        row, column = np.unravel_index(int((~(error <= allowed)).argmax()), error.shape)
        counterexample = example(int(row), int(column))
    return Outcome(
        passed=passed,
        max_error=float(error[worst]),
        tolerance=float(allowed[worst]),
        samples=len(got),
        counterexample=counterexample,
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Mistake:
    """A mistake in the positions that an implementation rotates by."""

    words: str
    positions: Array  #: The positions that it makes of those given.
    table_rows: int | None = None  #: Rows of the table in which they are indices, if it is that.


def find_mistake(
    subject: Subject, oracle: Oracle, x: Array, m: Array, got: Array, dtype: str
) -> Mistake | None:
    """Return the mistake in positions m that gives the rows got; None if none of those tried do."""
    for mistake in _mistakes(subject, m):
        if not oracle.truth(x, mistake.positions, dtype).wrong(got).any():
            return mistake
    return None


def _explain(
    subject: Subject, oracle: Oracle, x: Array, m: Array, got: Array, dtype: str
) -> str | None:
    """Describe what rows have in common that are wrong."""
    if not np.isfinite(got).all():
        return f"{int((~np.isfinite(got)).any(axis=1).sum())} of {len(got)} rows are not finite"
    mistake = find_mistake(subject, oracle, x, m, got, dtype)
    if mistake is not None:
        return mistake.words
    truth = oracle.truth(x, m, dtype)
    started = _wrong_from(subject, oracle, m, np.asarray(truth.wrong(got).any(axis=1)), dtype)
    return "; ".join(text for text in (started, _common_factor(truth, got)) if text) or None


def _common_factor(truth: Truth, got: Array) -> str | None:
    """Describe the one factor by which all wrong rows are too long or too short."""
    wrong = truth.wrong(got).any(axis=1)
    rows, exact = got[wrong], truth.rows[wrong]
    if not len(rows):
        return None
    times = float((rows * exact).sum() / (exact**2).sum())
    if not (np.abs(rows - times * exact) <= abs(times) * truth.tolerance[wrong]).all():
        return None
    return f"wrong rows are {times:.6g} times as long as they should be"


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


def _mistakes(subject: Subject, m: Array) -> Iterator[Mistake]:
    flat = m if m.ndim == 1 else m[:, 0]

    def spread(positions: Array) -> Array:
        return positions if m.ndim == 1 else np.repeat(positions[:, None], m.shape[1], axis=1)

    index = np.arange(len(flat), dtype=np.float64)
    simple = {
        "the positions are ignored: rows are turned by their index": spread(index),
        "the rows are not turned at all": spread(np.zeros_like(index)),
        "only the first position counts: rows are turned from there by index": spread(
            flat[0] + index
        ),
        "positions are counted from the first row's": spread(flat - flat[0]),
        "the sign of the position is ignored": np.abs(m),
        "negative positions are taken as 0": np.maximum(m, 0),
        "the rows are sorted by position": np.sort(m, axis=0),
        "a cache has as many rows as x: positions beyond its end are taken as the last": np.minimum(
            m, len(flat) - 1
        ),
        "the axes are the wrong way round": m[:, ::-1] if m.ndim == 2 else m,
        "every position is 1 too large": m + 1,
        "every position is 1 too small": m - 1,
        "positions are multiplied by 2": m * 2.0,
        "positions are multiplied by 0.5": m * 0.5,
    }
    for words, positions in simple.items():
        yield Mistake(words=words, positions=positions)
    for name in ("bfloat16", "float16", "float32"):
        with np.errstate(over="ignore"):
            rounded = m.astype(DTYPES[name]).astype(np.float64)
        if np.isfinite(rounded).all() and not np.array_equal(rounded, m):
            yield Mistake(words=f"positions are rounded to {name}", positions=rounded)
    largest = np.abs(m).max(initial=0)
    for limit in sorted({subject.context, subject.original or subject.context, *LIMITS}):
        if limit <= largest or (m < 0).any():
            words = f"positions from {limit} on are taken as {limit - 1}"
            yield Mistake(words=words, positions=np.minimum(m, limit - 1))
            words = f"positions are taken modulo {limit}"
            yield Mistake(words=words, positions=np.mod(m, limit), table_rows=limit)
