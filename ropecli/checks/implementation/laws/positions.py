"""Kinds of positions: values of the survey's factor `mode`, each a check of its own name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ropecli.checks.implementation.call import Call, ImplementationError, Unsupported
from ropecli.checks.implementation.rows import (
    compare_repeats,
    describe_failure,
    is_right,
    oracle_law,
)
from ropecli.checks.implementation.shapes.survey import Survey, call_at
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Law, Outcome, law, no_verdict
from ropecli.rotary.rotary import Rotary

#: Where counters of few bits, half precisions and caches end.
EDGES = (0, 1, 2, 127, 128, 255, 256, 257, 511, 512, 1000, 2047, 2048, 2049, 2051, 4095, 4096)
FAR_EDGES = (4097, 8191, 8193, 15_968, 16_385, 32_767, 32_769, 65_503, 65_505, 65_537, 99_991)
_ALIKE = 1e-3  #: Relative difference of frequencies that are said to be the same.
_LOOKED_UP = 48  #: Negative positions that must be rows from the end of a table.
BLOCK = 16  #: Tokens of which calls have a multiple where each new length is compiled.
#: Positions of the sequences of a batch.
BATCHED = np.array([[0], [9], [30]]) + np.arange(7)
SALT = 45  #: Of the vectors of calls of one sequence that show a failure.


def edge_positions(context: int) -> list[int]:
    """Return positions below the end of a context where implementations go wrong."""
    near = [p for p in (*EDGES, *FAR_EDGES) if p < context]
    return sorted({*near, *range(min(8, context)), context // 3, context // 2, context - 1})


def beyond(end: int) -> list[int]:
    """Return positions on both sides of the end of a context."""
    return [0, 1, end - 1, end, end + 1, end + end // 2, 2 * end - 1, 2 * end + 3]


def fill_up(subject: Subject, places: ArrayLike) -> NDArray[np.int64]:
    """Return positions that begin again up to a whole number of blocks, if lengths are compiled."""
    array = np.asarray(places, dtype=np.int64)
    if not subject.implementation.compiles:
        return array
    return np.resize(array, -(-len(array) // BLOCK) * BLOCK)


@dataclass(frozen=True, kw_only=True)
class Mode:
    """One kind of positions of one sequence, in a call of any length."""

    meaning: str  #: Meaning of a failure.
    #: Positions by the context; two of one length show caches that are keyed by it.
    lists: Callable[[int], Sequence[ArrayLike]]

    def places(self, count: int, context: int) -> NDArray[np.int64]:
        """Return the positions of `count` tokens: the last list, which begins again."""
        places = np.asarray(self.lists(context)[-1], dtype=np.int64)
        return np.resize(places[-count:], count)


def _mode_of_lists(kind: str, *lists: ArrayLike) -> Mode:
    return Mode(meaning=f"positions {kind} are not followed", lists=lambda _: lists)


#: By the name of the check, which is that of the value.
POSITIONS: dict[str, Mode] = {
    "offset positions": _mode_of_lists("that do not start at 0", range(7, 23), range(30, 46)),
    "gaps in positions": _mode_of_lists(
        "with gaps",
        (0, 1, 2, 3, 4, 5, 6, 7, 8, 47),
        (0, 1, 4, 5, 9, 16, 17, 25, 40, 47),
    ),
    "repeated positions": _mode_of_lists(
        "that repeat", (3, 3, 3, 0, 0, 7, 7, 8), (3, 3, 5, 5, 5, 0, 0, 8)
    ),
    "positions backwards": _mode_of_lists("that run backwards", range(15, -1, -1)),
    "packed sequences": _mode_of_lists(
        "of packed sequences",
        (0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 2, 3, 4, 5, 6),
        (0, 1, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5, 6),
    ),
    "long positions": Mode(
        meaning="rows far from position 0 are wrong", lists=lambda end: [edge_positions(end)]
    ),
    "beyond the cache": Mode(
        meaning="rows beyond the context are wrong", lists=lambda end: [beyond(end)]
    ),
}


def judge_calls(
    subject: Subject, calls: Sequence[Call], *, refused: str = "", new: bool = False
) -> Outcome:
    """Return the verdict on calls of one kind, by the instance that all have, or by a new one."""
    survey = Survey(subject, checked="q")  # of keys there is a check
    if not new:
        survey.instance = subject.instance
    survey.make_all(calls)
    limit = survey.limit_of_position()
    while limit is not None and limit[1] - limit[0] > 1:  # which position is the first wrong one?
        places = np.unique([0, 1, sum(limit) // 2, calls[-1].positions.max()])
        if not survey.make(call_at(subject, places, calls[-1].dtype, salt=5)):
            break
        narrower = survey.limit_of_position()
        if narrower == limit:
            break
        limit = narrower
    outcome = _with_simplest_failure(survey, survey.outcome_of_one())
    if survey.refusals and outcome.passed is not False:
        return replace(outcome, note=f"refuses {refused}: {survey.refusals[-1]}")
    return outcome


def _with_simplest_failure(survey: Survey, outcome: Outcome) -> Outcome:
    """Return an outcome with a failing row that is simple to type, if some sequence has one."""
    for wrong in survey.wrong_calls(1):
        if wrong.batch == 1:
            call = survey.subject.call(wrong.positions, SALT, wrong.dtype)
            text = describe_failure(survey.subject, call) or outcome.counterexample
            return replace(outcome, counterexample=text)
    return outcome


def _mode_law(name: str, mode: Mode) -> Law[Subject]:
    def judge(subject: Subject) -> Iterator[Outcome]:
        lists = mode.lists(subject.context)
        far = name == "long positions"  # the context may be no one's promise, nor other dtypes
        promised = 0 if far and not subject.context_given else subject.context
        for dtype in subject.dtypes if far else subject.dtypes[:1]:
            first = dtype == subject.dtype
            asked = promised if first else 0
            fewer = (fill_up(subject, places) for places in lists)
            calls = [call_at(subject, ids, dtype, salt=5, promised=asked) for ids in fewer]
            furthest = max(int(call.positions.max()) for call in calls)
            what = f"positions up to {furthest:,}" if first else f"{dtype} data"
            if furthest >= subject.context:
                what = f"positions beyond {subject.context:,}"
            yield replace(judge_calls(subject, calls, refused=what), dtype=dtype)

    return oracle_law(name, mode.meaning)(judge)


LISTED = tuple(_mode_law(name, mode) for name, mode in POSITIONS.items())


@oracle_law("batched positions", "the positions of each sequence of a batch are not followed")
def batched_positions(subject: Subject) -> Outcome:
    """Each sequence is rotated by its own row of positions."""
    return _judge_batch(subject, BATCHED)


@oracle_law("left padding", "positions after padding on the left of a batch are not followed")
def left_padding(subject: Subject) -> Outcome:
    """Sequences after padding at position 0 are rotated by their own positions."""
    return _judge_batch(subject, np.maximum(np.arange(7) - [[0], [2], [4]], 0))


def _judge_batch(subject: Subject, places: NDArray[Any]) -> Outcome:
    """Judge calls with one head and with two: wrong rows fail in either, and one may be refused."""
    calls = [call_at(subject, places, per_sequence=True, heads=n, salt=5) for n in (1, 2)]
    outcome = judge_calls(subject, calls, refused="batched positions")
    return replace(outcome, note=None) if outcome.passed else outcome


@oracle_law("axes", "pairs follow the wrong axis of the position")
def axes(subject: Subject) -> Outcome:
    """Each pair follows its own coordinate of the position, or several of them."""
    if subject.axes == 1:
        return no_verdict("positions have one axis")
    identified, expect = subject.evidence.identified, subject.expect
    rope = None if identified is None else identified.rotary
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
    return judge_calls(subject, [call_at(subject, places, salt=5, promised=subject.context)])


def _adds_up(rope: Rotary) -> bool:
    """Return whether all axes rotate every pair alike: there is one coordinate then, their sum."""
    apart = np.ptp(rope.inv_freq, axis=0)
    return bool((apart <= _ALIKE * rope.inv_freq_norm).all())


@oracle_law("negative positions", "negative positions give wrong rows")
def negative(subject: Subject) -> Outcome:
    """R_{-m}, which relative positions and left padding need, is right, or refused."""
    survey = Survey(subject)
    survey.instance = subject.instance
    places = fill_up(subject, [-1, -2, -3, -17, 0, 5, -100])
    if not survey.make(call_at(subject, places, salt=5)):
        why = survey.refusals[0] if survey.refusals else survey.unsupported
        return no_verdict(f"refuses negative positions: {why}")
    outcome = survey.outcome_of_one()
    if outcome.passed is not False or survey.note:  # it gave nothing to compare
        return outcome
    try:
        mistake = survey.position_mistake()  # positions may be indices of a table
        rows = mistake and mistake.table_rows
        as_indices = rows or _count_from_an_end(subject)
    except ImplementationError as error:
        return no_verdict(f"refuses negative positions: {error}")
    if as_indices:
        size = f" of {rows:,} rows" if rows else ""
        return no_verdict(f"they count from the end of a table{size}, as indices do")
    if _is_table(subject):
        return no_verdict("it looks rows up in a table, which has none of negative positions")
    return _with_simplest_failure(survey, outcome)


def _is_table(subject: Subject) -> bool:
    """Return True if rows far beyond the context, and no others, are refused or wrong."""
    end = subject.context
    within, far = (subject.call(at, 8) for at in ([0, 1], [0, 1, 2 * end - 1, 2 * end + 3]))
    if not is_right(subject, within):
        return False
    try:
        return not is_right(subject, far)
    except (ImplementationError, Unsupported):
        return True


def _count_from_an_end(subject: Subject) -> bool:
    """Return True if -k rotates as n - k does, for one n: R_k turns all of them into R_n.

    No model asks for negative positions, and every table that is looked up in does so.
    """
    oracle = subject.oracle
    assert oracle is not None
    backwards = np.arange(1, 1 + _LOOKED_UP)
    call = subject.call(-backwards, 8)
    call = replace(call, vectors=call.vectors[:1])
    x, got = call.x, subject.rows(call)
    rope = oracle.rotary_at(_LOOKED_UP)
    given = got.copy()
    given[:, rope.pairs_in] = got[:, rope.pairs_out]
    places = (subject.on_axes(ids).astype(np.float64) for ids in (backwards, 0 * backwards))
    again, unturned = map(oracle.truth, (given, x), places, (subject.dtype,) * 2)
    ends = subject.on_axes(np.full(_LOOKED_UP, 2 * subject.context)).astype(np.float64)
    allowed = again.tolerance + 2 * oracle.truth(given, ends, subject.dtype).tolerance
    lengths, expected = (np.linalg.norm(rows, axis=1) for rows in (got, unturned.rows))
    kept = np.abs(lengths - expected) <= 4 * subject.tolerances.of_normal(subject.dtype) * expected
    return bool(kept.all() and (np.abs(again.rows - again.rows[0]) <= allowed).all())


@law("batched positions", because="the rounding of two rotations")
def unaffected_by_longer_sequence(subject: Subject) -> Outcome:
    """A sequence is rotated as it is alone, however long another one of its batch is."""
    if subject.implementation.tables is not None:
        return no_verdict("it is given tables, and does not make them itself")
    end = min(subject.context, 2 * (subject.original or subject.context))
    starts = np.array([[0], [max(0, end - 5)]])
    both = subject.call(starts + np.arange(5), 24, per_sequence=True, scales=np.ones((2, 1)))
    try:
        alone = [
            subject.implementation.fresh().rows(subject.call(places, 24))
            for places in both.positions
        ]
        got = subject.implementation.fresh().rows(both)
    except ImplementationError as error:
        return no_verdict(f"refuses such a batch: {error}")
    outcome = compare_repeats(subject, both, got, np.concatenate(alone), "alone, in a batch")
    if outcome.passed:
        return outcome
    return replace(outcome, note="one long sequence changes the others of its batch")
