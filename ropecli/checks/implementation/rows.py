"""The one comparison of rows: those that came back, those expected, and which are wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Unsupported,
    to_float64,
)
from ropecli.checks.implementation.oracle import Oracle, sequence_length, truth_of
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import (
    Law,
    Outcome,
    distinguishing_digits,
    format_vector,
    judge_errors,
    law,
    no_verdict,
)
from ropecli.checks.truth import Truth
from ropecli.rotary.rotary import Rotary

CALL_FAILED = "a call that must be answered failed"
AS_THE_ORACLE = "the rounding of one rotation, and the phase that float32 tables lose"
SHOWN = 4  #: Coordinates of a vector that are written out.
ROWS = 256  #: Rows that are computed at once,
NUMBERS = 2**16  #: and numbers that are compared at once: a cache holds them.
SMALLEST = 5e-324  #: Tolerance of rows that must not change.
SAMPLED = 24  #: Wrong rows of a block of which the error is kept.


def oracle_law(
    name: str, meaning: str = "", because: str = AS_THE_ORACLE
) -> Callable[[Callable[[Subject], Outcome | Iterable[Outcome]]], Law[Subject]]:
    """Declare a check of rows that are compared with the oracle's."""

    def excuse(subject: Subject) -> str | None:
        return "no rotation was recognised" if subject.oracle is None else None

    return law(name, because=because, meaning=meaning, excuse=excuse)


@dataclass(kw_only=True, eq=False)
class Compared:
    """The rows of one array of a call, compared with those expected."""

    call: Call
    array: str  #: q, k or v.
    wrong: NDArray[np.bool_]  #: (batch, heads, length), whether a row is.
    ratio: float = -1.0  #: Largest error over its tolerance; infinite where a row is not finite.
    error: float = 0.0  #: That error,
    tolerance: float = 0.0  #: and that tolerance, both without the factors of the heads.
    #: Errors of wrong rows, over their largest number.
    relative: list[float] = field(default_factory=list)
    #: Of the first wrong row that is met: sequence, head, row, coordinate; got, expected.
    first: tuple[tuple[int, int, int, int], float, float] | None = None

    @property
    def scales(self) -> Array:
        """Factors of the vectors of the array, (batch, heads)."""
        return self.call.scales[:, self.call.heads_of(self.array)]

    def add(self, index: tuple[slice, slice, slice], got: Array, truth: Truth) -> None:
        """Compare a block with rows and tolerances (sequences or 1, 1, rows, head_dim)."""
        error = np.abs(got - truth.rows)
        ratio = error / truth.tolerance
        if ratio.max(initial=0.0) <= min(1.0, self.ratio):
            return
        ratio[np.isnan(ratio)] = np.inf
        worst = np.unravel_index(int(ratio.argmax()), ratio.shape)
        if ratio[worst] > self.ratio:
            self.ratio, self.error = float(ratio[worst]), float(error[worst])
            self.tolerance = float(np.broadcast_to(truth.tolerance, ratio.shape)[worst])
        wrong = np.asarray((ratio > 1).any(axis=-1))
        if not wrong.any():
            return
        self.wrong[index] = wrong
        largest = np.broadcast_to(np.abs(truth.rows).max(axis=-1), wrong.shape)
        relative = error.max(axis=-1)[wrong] / largest[wrong]
        self.relative += relative[:: 1 + len(relative) // SAMPLED].tolist()
        if self.first is None:
            b, h, row = (int(places[0]) for places in np.nonzero(wrong))
            j = int((ratio[b, h, row] > 1).argmax())
            place = tuple(i + part.start for i, part in zip((b, h, row), index, strict=True))
            expected = truth.rows[b if len(truth.rows) > 1 else 0, 0, row, j]
            self.first = (*place, j), float(got[b, h, row, j]), float(expected)


def compare(
    oracles: Sequence[Oracle], call: Call, result: NDArray[Any], array: str = "q"
) -> Compared:
    """Compare a result of a call (batch, heads, length, head_dim) with what the oracles give.

    There is one oracle for each sequence, or one for all. Values are not rotated.
    """
    compared = Compared(call=call, array=array, wrong=np.zeros(result.shape[:3], dtype=bool))
    for sequences, rows in _blocks(call):
        truth = expect_rows(oracles, call, sequences, rows, rotated=array != "v")
        some = result[sequences, :, rows]
        together = max(1, NUMBERS // max(1, some[:, 0].size))
        for head in range(0, some.shape[1], together):
            heads = slice(head, min(head + together, some.shape[1]))
            got = to_float64(some[:, heads]) / compared.scales[sequences, heads, None, None]
            compared.add((sequences, heads, rows), got, truth)
    return compared


def compare_first(
    oracles: Iterable[Sequence[Oracle]], call: Call, result: NDArray[Any], array: str = "q"
) -> tuple[Compared, Sequence[Oracle], bool]:
    """Compare rows by the first oracles by which all are right, or else by the first ones.

    With the comparison go these oracles, and whether they were not the first.
    """
    first: tuple[Compared, Sequence[Oracle], bool] | None = None
    for oracle in oracles:
        compared = compare(oracle, call, result, array)
        if compared.first is None:
            return compared, oracle, first is not None
        first = first or (compared, oracle, False)
    assert first is not None
    return first


def expect_rows(
    oracles: Sequence[Oracle], call: Call, sequences: slice, rows: slice, *, rotated: bool = True
) -> Truth:
    """Return rows of some sequences, (sequences or 1, 1, rows, head_dim), without their factors."""
    places = call.by_sequence[sequences][:, rows]
    count, length = places.shape[:2]
    x = call.vectors.take(range(rows.start, rows.start + length), axis=0, mode="wrap")
    given = np.broadcast_to(x.astype(np.float64), (count, *x.shape)).reshape(count * length, -1)
    if rotated:
        flat = places.reshape(count * length, *places.shape[2:]).astype(np.float64)
        those = oracles[sequences] if len(oracles) > 1 else oracles
        truth = truth_of(those, given, flat, call.dtype, transposed=call.gradient)
    else:
        truth = Truth(rows=given, tolerance=np.full(given.shape, SMALLEST))
    apart = count, 1, length, -1
    return Truth(rows=truth.rows.reshape(apart), tolerance=truth.tolerance.reshape(apart))


def _blocks(call: Call) -> Iterator[tuple[slice, slice]]:
    """Yield sequences and rows of a call that are computed together."""
    together = max(1, ROWS // call.length) if call.per_sequence else call.batch
    for sequence in range(0, call.batch, together):
        for row in range(0, call.length, ROWS):
            sequences = slice(sequence, min(sequence + together, call.batch))
            yield sequences, slice(row, min(row + ROWS, call.length))


def is_right(subject: Subject, call: Call) -> bool:
    """Make a call and return True if all of its rows are right."""
    with subject.within_context(call.positions):
        result = subject.instance.call(call).q
    compared, *_ = compare_first(subject.oracles_of(call.by_sequence), call, result)
    return compared.first is None


def describe_failure(subject: Subject, call: Call) -> str | None:
    """Describe the wrong row of a call of one sequence that is nearest to position 0.

    Its vector is a unit vector where that comes out wrong as well, which is easy to type. None if
    all rows are right now.
    """
    described = None
    for _ in range(2):
        try:
            got = subject.rows(call)
        except (ImplementationError, Unsupported):
            return described
        every = subject.oracles_of(call.by_sequence)
        _, oracles, _ = compare_first(every, call, got[None, None])
        truth = truth_of(oracles, call.x, call.m, call.dtype)
        wrong = truth.wrong(got)
        if not wrong.any():
            return described
        row = _nearest(call, np.asarray(wrong.any(axis=1)))
        described = _describe_row(call, row, got[row], truth)
        unit = _unit_vector(oracles[0].rotary_at(sequence_length(call.m)), int(wrong[row].argmax()))
        call = replace(call, vectors=unit.astype(call.vectors.dtype))
    return described


def _unit_vector(rope: Rotary, column: int) -> Array:
    """Return the unit vector of the first coordinate of a pair that is written to a column."""
    pair = np.flatnonzero((rope.pairs_out == column).any(axis=1))
    unit = np.zeros((1, rope.head_dim))
    unit[0, int(rope.pairs_in[pair[0], 0]) if len(pair) else column] = 1.0
    return unit


def _nearest(call: Call, which: NDArray[np.bool_]) -> int:
    """Return that of some rows of one sequence that is nearest to position 0."""
    distance = np.abs(call.m if call.m.ndim == 1 else call.m.max(axis=1))
    return int(np.where(which, distance, np.inf).argmin())


def _describe_row(call: Call, row: int, got: Array, truth: Truth) -> str:
    """Describe a row: "position 1, x = e_0: got (1 at 0), expected (0.5403 at 0, 0.8415 at 1)"."""
    x, expected = call.x[row], truth.rows[row]
    differ = ~(np.abs(got - expected) <= truth.tolerance[row])
    first = np.flatnonzero(differ)[:SHOWN]
    other = [j for j in np.flatnonzero((x != 0) & ~differ) if len(first) < SHOWN][:1]
    named = sorted({*first.tolist(), *(int(j) for j in other)})
    digits = distinguishing_digits(got[named], expected[named])
    more = ", ..." if differ.sum() > SHOWN else ""
    ours = ", ".join(f"{got[j]:.{digits}g} at {j}" for j in named)
    theirs = ", ".join(f"{expected[j]:.{digits}g} at {j}" for j in named)
    given = format_vector(x, shown=SHOWN, digits=9)
    place = format_position(call.positions[row])
    return f"{place}, x = {given}: got ({ours}{more}), expected ({theirs}{more})"


def compare_repeats(subject: Subject, call: Call, got: Array, before: Array, what: str) -> Outcome:
    """Compare two results of a call, (rows, head_dim), that must be equal up to rounding."""
    # Coordinates that are not finite both times count as equal; other checks see them.
    lost = ~np.isfinite(got) & ~np.isfinite(before)
    got, before = np.where(lost, 0.0, got), np.where(lost, 0.0, before)
    allowed = subject.repeat_tolerance(before, call.dtype)
    allowed = np.where(np.isfinite(allowed), allowed, 0.0)
    error = np.abs(got - before)
    if not error.size:
        return no_verdict("nothing to compare", call.dtype)
    outcome = judge_errors(error, allowed, dtype=call.dtype)
    if outcome.passed:
        return outcome
    row, j = map(int, np.unravel_index(int((~(error <= allowed)).argmax()), error.shape))
    text = f"{before[row, j]:.6g} {what} {got[row, j]:.6g}"
    place = format_position(call.position_of(row))
    return replace(outcome, counterexample=f"{place}, coordinate {j}: {text}")


def call_failure(error: Exception, dtype: str | None = None) -> Outcome:
    """Return the failure of a check for which the implementation returned nothing."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


def format_position(position: NDArray[Any]) -> str:
    """Format a position, or a point of several axes."""
    numbers = np.atleast_1d(position)
    text = ", ".join(f"{value:,.0f}" for value in numbers)
    return f"position {text}" if len(numbers) == 1 else f"position ({text})"
