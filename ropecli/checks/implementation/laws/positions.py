"""Checks of positions of every kind, in one sequence and in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.checks.implementation.call import ImplementationError, Unsupported, WrongResult
from ropecli.checks.implementation.rows import (
    call_failure,
    check_call,
    check_rows,
    compare_repeats,
    find_mistake,
    oracle_law,
)
from ropecli.checks.implementation.subject import Step, Subject
from ropecli.checks.law import Law, Outcome, law, no_verdict
from ropecli.rotary.rotary import Rotary

#: Where counters of few bits, half precisions and caches end.
EDGES = (0, 1, 2, 127, 128, 255, 256, 257, 511, 512, 1000, 2047, 2048, 2049, 2051, 4095, 4096)
FAR_EDGES = (4097, 8191, 8193, 15_968, 16_385, 32_767, 32_769, 65_503, 65_505, 65_537, 99_991)
_ALIKE = 1e-3  #: Relative difference of frequencies that are said to be the same.
_LOOKED_UP = 48  #: Negative positions that must be rows from the end of a table.
HEADS = 2


def _at(name: str, meaning: str, *lists: ArrayLike) -> Law[Subject]:
    """Make a check of some lists of positions; two of one length show caches keyed by length."""

    def judge(subject: Subject) -> Iterator[Outcome]:
        for positions in lists:
            yield check_call(subject, subject.step(positions, 5))

    return oracle_law(name, f"positions {meaning} are not followed")(judge)


ONE_SEQUENCE = (
    _at("offset positions", "that do not start at 0", range(7, 23), range(30, 46)),
    _at(
        "gaps in positions",
        "with gaps",
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 47),
        (0, 1, 4, 5, 9, 16, 17, 25, 40, 47),
    ),
    _at(
        "repeated positions",
        "that repeat",
        (3, 3, 3, 0, 0, 7, 7, 8),
        (3, 3, 5, 5, 5, 0, 0, 8),
    ),
    _at("positions backwards", "that run backwards", range(15, -1, -1)),
    _at(
        "packed sequences",
        "of packed sequences",
        (0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6),
        (0, 1, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6),
    ),
)


@oracle_law("long positions", "rows far from position 0 are wrong")
def long_positions(subject: Subject) -> Iterator[Outcome]:
    """Rows up to the end of the context are right, in every dtype."""
    for dtype in subject.dtypes:
        try:
            yield check_call(subject, subject.step(edge_positions(subject.context), 6, dtype))
        except ImplementationError as error:
            yield refusal(subject, error, dtype)


@oracle_law("beyond the cache", "rows beyond the context are wrong")
def beyond(subject: Subject) -> Outcome:
    """Rows beyond the context are right, or refused."""
    end = subject.context
    positions = [0, 1, end - 1, end, end + 1, end + end // 2, 2 * end - 1, 2 * end + 3]
    return check_call(subject, subject.step(positions, 7))


@oracle_law("negative positions", "negative positions give wrong rows")
def negative(subject: Subject) -> Outcome:
    """R_{-m}, which relative positions and left padding need, is right, or refused."""
    step = subject.step([-1, -2, -3, -17, 0, 5, -100], 8)
    try:
        got = subject.rotate(*step)
        outcome = check_rows(subject, step, got, again=True)
        if outcome.passed:
            return outcome
        mistake = find_mistake(subject, step, got)  # positions may be indices of a table
        rows = mistake and mistake.table_rows
        as_indices = rows or _count_from_an_end(subject)
    except WrongResult:
        raise
    except ImplementationError as error:
        return no_verdict(f"refuses negative positions: {error}")
    if as_indices:
        size = f" of {rows:,} rows" if rows else ""
        return no_verdict(f"they count from the end of a table{size}, as indices do")
    if _is_table(subject):
        return no_verdict("it looks rows up in a table, which has none of negative positions")
    return outcome


def _is_table(subject: Subject) -> bool:
    """Return True if rows far beyond the context, and no others, are refused or wrong."""
    end = subject.context
    within, step = (subject.step(at, 8) for at in ([0, 1], [0, 1, 2 * end - 1, 2 * end + 3]))
    if not check_rows(subject, within, subject.rotate(*within)).passed:
        return False
    try:
        return check_rows(subject, step, subject.rotate(*step)).passed is False
    except (ImplementationError, Unsupported):
        return True


def _count_from_an_end(subject: Subject) -> bool:
    """Return True if -k rotates as n - k does, for one n: R_k turns all of them into R_n.

    No model asks for negative positions, and every table that is looked up in does so.
    """
    oracle = subject.oracle
    assert oracle is not None
    backwards = np.arange(1, 1 + _LOOKED_UP)
    x = np.repeat(subject.vectors(1, salt=8), _LOOKED_UP, axis=0)
    got = subject.rotate(x, subject.on_axes(-backwards))
    rope = oracle.rotary_at(_LOOKED_UP)
    given = got.copy()
    given[:, rope.pairs_in] = got[:, rope.pairs_out]
    places = (subject.on_axes(each).astype(np.float64) for each in (backwards, 0 * backwards))
    again, unturned = map(oracle.truth, (given, x), places, (subject.dtype,) * 2)
    ends = subject.on_axes(np.full(_LOOKED_UP, 2 * subject.context)).astype(np.float64)
    allowed = again.tolerance + 2 * oracle.truth(given, ends, subject.dtype).tolerance
    lengths, expected = (np.linalg.norm(each, axis=1) for each in (got, unturned.rows))
    kept = np.abs(lengths - expected) <= 4 * subject.tolerances.of_normal(subject.dtype) * expected
    return bool(kept.all() and (np.abs(again.rows - again.rows[0]) <= allowed).all())


@oracle_law("axes", "pairs follow the wrong axis of the position")
def axes(subject: Subject) -> Outcome:
    """Each pair follows its own coordinate of the position, or several of them."""
    if subject.axes == 1:
        return no_verdict("positions have one axis")
    found, expect = subject.evidence.identified, subject.expect
    rope = None if found is None else found.rotary
    if rope is not None and expect is not None and not subject.as_expected:
        axes = rope.axis or (), expect.axis or ()
        named = zip(rope.input_pairs, expect.input_pairs, *axes, strict=False)
        for pair, (here, there, axis, wanted) in enumerate(named):
            if here == there and axis != wanted:
                text = f"pair {pair} follows axis {axis} of the position, expected {wanted}"
                return Outcome(passed=False, counterexample=text)
    if rope is not None and rope.axis is None and expect is None and _adds_up(rope):
        return Outcome(passed=False, note="every pair rotates by the sum of the coordinates")
    steps = np.arange(1, 1 + subject.axes)
    places = (np.arange(12)[:, None] * steps + steps[::-1] * 3) % 29
    return check_call(subject, subject.step(places, 9))


def _adds_up(rope: Rotary) -> bool:
    """Return whether all axes rotate every pair alike: there is one coordinate then, their sum."""
    apart = np.ptp(rope.inv_freq, axis=0)
    return bool((apart <= _ALIKE * rope.inv_freq_norm).all())


def edge_positions(context: int) -> list[int]:
    """Return positions below the end of a context where implementations go wrong."""
    near = [p for p in (*EDGES, *FAR_EDGES) if p < context]
    return sorted({*near, *range(min(8, context)), context // 3, context // 2, context - 1})


def refusal(subject: Subject, error: ImplementationError, dtype: str) -> Outcome:
    """Return the outcome of a refusal within the context: a failure if the context was given."""
    if isinstance(error, WrongResult) or (dtype == subject.dtype and subject.context_given):
        return call_failure(error, dtype)
    what = f"positions up to {subject.context - 1:,}" if dtype == subject.dtype else f"{dtype} data"
    return no_verdict(f"refuses {what}: {error}", dtype)


@oracle_law("batched positions", "the positions of each sequence of a batch are not followed")
def batched_positions(subject: Subject) -> Outcome:
    """Each sequence is rotated by its own row of positions."""
    starts = np.array([[0], [9], [30]])
    return _check(subject, starts + np.arange(5))


@law("batched positions", because="the rounding of two rotations")
def unaffected_by_longer_sequence(subject: Subject) -> Outcome:
    """A sequence is rotated as it is alone, however long another one of its batch is."""
    if subject.implementation.tables is not None:
        return no_verdict("it is given tables, and does not make them itself")
    end = min(subject.context, 2 * (subject.original or subject.context))
    starts = np.array([[0], [max(0, end - 5)]])
    places = subject.on_axes(starts + np.arange(5))
    x = subject.vectors(10, salt=24)
    step = Step(x, places.reshape(10, *places.shape[2:]), subject.dtype)
    try:
        alone = [
            subject.implementation.fresh().rows(each, place, subject.dtype)
            for each, place in zip((x[:5], x[5:]), places, strict=True)
        ]
        both = x.reshape(2, 5, subject.dim)
        got = subject.implementation.fresh().rows(both, places, subject.dtype)
    except ImplementationError as error:
        return no_verdict(f"refuses such a batch: {error}")
    rows = got.reshape(10, subject.dim)
    outcome = compare_repeats(subject, step, rows, np.concatenate(alone), "alone, in a batch")
    if outcome.passed:
        return outcome
    return replace(outcome, note="one long sequence changes the others of its batch")


@oracle_law("left padding", "positions after padding on the left of a batch are not followed")
def left_padding(subject: Subject) -> Outcome:
    """Sequences after padding at position 0 are rotated by their own positions."""
    pads = np.array([[0], [2], [4]])
    return _check(subject, np.maximum(np.arange(7) - pads, 0))


def _check(subject: Subject, positions: NDArray[Any]) -> Outcome:
    """Check with and without heads: wrong rows fail in either, and one correct call is enough."""
    places = subject.on_axes(positions)
    batch, sequence = positions.shape
    outcomes, refusals = [], []
    for lead in ((batch,), (batch, HEADS)):
        spread = np.repeat(places, int(np.prod(lead[1:])), axis=0)
        x = subject.vectors(len(spread) * sequence, salt=10)
        try:
            got = subject.instance.rows(
                x.reshape(*lead, sequence, subject.dim), places, subject.dtype
            ).reshape(x.shape)
        except ImplementationError as error:
            refusals.append(str(error))
            continue
        step = Step(x, spread.reshape(-1, *places.shape[2:]), subject.dtype)
        outcomes.append(check_rows(subject, step, got, sequences=len(spread), where="in a batch: "))
    if not outcomes:
        return no_verdict(f"refuses batched positions: {refusals[-1]}")
    return next((each for each in outcomes if not each.passed), outcomes[-1])
