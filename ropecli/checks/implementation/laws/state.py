"""Checks of calls: arguments, results, and state left behind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.checks.implementation.call import (
    ImplementationError,
    Unsupported,
    WrongResult,
    known_dtype,
)
from ropecli.checks.implementation.rows import call_failure, check_rows, compare_repeats
from ropecli.checks.implementation.subject import Step, Subject, repeat_positions, replay
from ropecli.checks.law import Outcome, law, no_verdict

SEQUENCE = 6
SHORT = 16  #: Rows of a short call.
LONGEST = 4096  #: Rows of a long one.
ELEMENTS = 2**21  #: Numbers in the largest array that a whole sequence is tried as.
COMES_BACK = "data come back as"
TWICE = "the rounding of two rotations"
NO_EFFECT = "has no effect"


@law("input untouched", because="none", meaning="the input is written into")
def input_untouched(subject: Subject) -> Outcome:
    """No argument is written into."""
    count = min(SEQUENCE, subject.context)
    first = 0 if subject.implementation.form == "decoder" else min(3, subject.context - count)
    whole = subject.request(range(first, first + count), 11, watch=True)
    for rows in (count, 1):
        part = replace(whole, q=whole.q[:, :, :rows], positions=whole.positions[:rows])
        try:
            response = subject.implementation.fresh().request(part)
        except ImplementationError:
            if rows == count:
                raise
            break  # it refuses one token
        if response.in_place:
            return no_verdict("its result is written over the argument")
        for name, text in response.changed:
            note = f"{name} is written into" + (" in a call of one token" if rows == 1 else "")
            return Outcome(passed=False, samples=1, counterexample=text, note=note)
    return Outcome(passed=True, samples=2)


@law(
    "dtype and shape",
    because="the rounding of two rotations between a sequence alone and in a batch",
    meaning="the dtype or the shape of the input is not kept",
)
def dtype_and_shape(subject: Subject) -> Iterator[Outcome]:
    """The result has the dtype and the shape of x, with heads and a batch or without."""
    places = subject.on_axes(np.arange(min(SEQUENCE, subject.context)))
    for dtype in subject.dtypes:
        x = subject.vectors(len(places), dtype, salt=12).astype(DTYPES[dtype])
        try:
            result = subject.instance.call(x, places)
        except WrongResult as error:
            yield Outcome(passed=False, samples=1, counterexample=str(error), dtype=dtype)
            continue
        except ImplementationError as error:
            refused = no_verdict(f"refuses {dtype} data: {error}", dtype)
            yield call_failure(error, dtype) if dtype == subject.dtype else refused
            continue
        if (kept := known_dtype(result)) != (subject.tolerances.result_dtype or dtype):
            text = f"x of {dtype}: the result is {kept}"
            if dtype == subject.dtype or dtype in subject.named_dtypes:
                yield Outcome(passed=False, samples=1, counterexample=text, dtype=dtype)
            else:
                yield no_verdict(f"{dtype} {COMES_BACK} {kept}", dtype)
        else:
            yield Outcome(passed=True, samples=1, dtype=dtype)
    yield _shapes(subject, places)


def _shapes(subject: Subject, places: NDArray[Any]) -> Outcome:
    """Check the same rows with leading axes."""
    count, samples = len(places), 0
    for lead in ((3,), (1,), (2, 3), (1, 2)):
        x = subject.vectors(int(np.prod(lead)) * count, salt=13)
        try:
            got = subject.instance.rows(x.reshape(*lead, count, subject.dim), places, subject.dtype)
        except ImplementationError:
            continue
        whole = Step(x, repeat_positions(places, len(x)), subject.dtype)
        alone = np.concatenate(
            [subject.rotate(each, places) for each in x.reshape(-1, count, subject.dim)]
        )
        rows = got.reshape(-1, subject.dim)
        outcome = compare_repeats(subject, whole, rows, alone, "alone, in a batch")
        samples += outcome.samples
        if not outcome.passed:
            return outcome
    return Outcome(passed=True, samples=samples)


@law(
    "same twice",
    because=TWICE,
    meaning="the same call gives another result the second time: it keeps something",
)
def same_twice(subject: Subject) -> Outcome:
    """The same call gives the same result."""
    step = short(subject)
    first = subject.evidence.first_rows
    if first is None:
        first = subject.instance.rows(*step)
    other = subject.instance.rows(*subject.step(range(len(step.x)), 24))
    if first.any() and np.array_equal(other, first):
        words = "other vectors give the result of the first call"
        return Outcome(passed=False, samples=len(first), counterexample=words, note=words)
    again = subject.instance.rows(*step)
    outcome = compare_repeats(subject, step, again, first, "first, then")
    if outcome.passed:
        return _after_another_dtype(subject, outcome)
    return replace(outcome, note=_what_changed_it(subject))


def _what_changed_it(subject: Subject) -> str | None:
    """Say which call between two that are alike changes the second one; None if none does."""
    if not subject.implementation.renewable:
        return None
    step = short(subject)
    longer, longest = (
        subject.step(range(min(count, _longest(subject))), 25) for count in (8 * SHORT, LONGEST)
    )
    between = [
        ("a new instance does so from its second call on", []),
        *(
            (f"a call in {dtype} between them does it", [subject.step(step.positions, 25, dtype)])
            for dtype in subject.dtypes
            if dtype != subject.dtype
        ),
        ("a longer call between them does it", [longer]),
        (f"a long call between them ({len(longest.x):,} tokens) does it", [longest]),
    ]
    for words, steps in between:
        try:
            first, *_, again = replay(subject.implementation.fresh(), step, *steps, step)
        except (ImplementationError, Unsupported):
            continue
        if not compare_repeats(subject, step, again, first, "").passed:
            return words
    return None


def _after_another_dtype(subject: Subject, right: Outcome) -> Outcome:
    """Check calls that follow one in half precision."""
    for step, before in _first_calls(subject):
        instance = subject.implementation.fresh()
        for half in [d for d in subject.dtypes if "16" in d and d != step.dtype]:
            try:
                instance.rows(*step._replace(dtype=half))
            except ImplementationError:
                continue
            got = instance.rows(*step)
            what = f"at first, after a call in {half}"
            outcome = compare_repeats(subject, step, got, before, what)
            if not outcome.passed:
                words = f"what is kept has the dtype of the first call, {half}"
                return replace(outcome, note=words)
    return right


def _first_calls(subject: Subject) -> Iterator[tuple[Step, Array]]:
    """Yield the very first calls and their rows, near 0 and further out."""
    evidence = subject.evidence
    if evidence.first_rows is not None:
        yield short(subject), evidence.first_rows
    # Those that show the rotation go as far as half precisions count; some of a call's are no call.
    if evidence.rows is not None and evidence.parting is None:
        x, rows, places = evidence.rows
        yield Step(x, places.astype(np.int64), evidence.dtype), rows


@law(
    "long, short, long",
    because=TWICE,
    meaning="a long call changes the short ones after it: the table of the longer sequence is kept",
)
def long_short_long(subject: Subject) -> Outcome:
    """A long call does not change a short one after it, nor that one the next long one."""
    step, instance = short(subject), subject.instance
    length = _longest(subject)
    positions = np.arange(length)
    if subject.implementation.form != "decoder" and subject.context > length:
        positions[-2:] = subject.context // 2, subject.context - 1
    far = subject.step(positions, 14)
    now = instance.rows(*step)
    before = now if subject.evidence.first_rows is None else subject.evidence.first_rows
    try:
        long = instance.rows(*far)
    except ImplementationError as error:
        if subject.context_given:
            return call_failure(error)
        return no_verdict(f"refuses positions up to {int(positions.max()):,}: {error}")
    after = instance.rows(*step)
    outcome = compare_repeats(subject, step, after, before, "before a long call, after it")
    if not outcome.passed:
        return outcome
    again = instance.rows(*far)
    return compare_repeats(subject, far, again, long, "in a long call, after a short one")


def _longest(subject: Subject) -> int:
    """Return the tokens of a long call."""
    most = min(LONGEST, max(64, ELEMENTS // subject.dim), 2 * (subject.original or LONGEST))
    return min(most, subject.context)


@law(
    "original length",
    because=TWICE,
    meaning="sequences around the original length are turned by the wrong table",
)
def original_length(subject: Subject) -> Iterator[Outcome]:
    """Sequences of the trained length, and one token shorter or longer, have the right tables."""
    length = subject.original
    if length is None:
        yield no_verdict("no original context length is known: --original N")
        return
    whole = (length + 1) * subject.dim <= ELEMENTS
    rows_to = length + 1 if whole else ELEMENTS // subject.dim // 2
    instance = subject.implementation.fresh()
    for end in (length - 1, length, length + 1):
        if end < 1:
            continue
        begin = max(0, end - rows_to) if subject.implementation.form != "decoder" else 0
        step = subject.step(range(begin, end), 15)
        try:
            with subject.within_context(step.positions, promised=length):
                got = instance.rows(*step)
        except Unsupported as error:
            yield no_verdict(str(error))
            continue
        if subject.oracle is None:
            continue
        where = f"a sequence of {end:,}, trained on {length:,}: "
        yield check_rows(subject, step, got, where=where)
    if not subject.as_expected:
        yield _table_is_kept_up_to(subject, length)


def _table_is_kept_up_to(subject: Subject, length: int) -> Outcome:
    """Compare tables one below the trained length and at it, which every known type keeps equal."""
    count = min(length - 1, SHORT)
    if not count:
        return no_verdict("the original length is one position")
    below = subject.step([*range(count), max(length - 2, 0)], 16)
    at = subject.step([*range(count), length - 1], 16)
    one, other = (subject.rotate(*each)[:count] for each in (below, at))
    same = Step(below.x[:count], below.positions[:count], below.dtype)
    what = f"in a sequence of {length - 1:,}, of {length:,}"
    return compare_repeats(subject, same, other, one, what)


@law(
    "token by token",
    because=TWICE,
    meaning="a token alone is turned otherwise than in its sequence",
)
def token_by_token(subject: Subject) -> Outcome:
    """Tokens one at a time are rotated like the whole sequence."""
    step = subject.step(range(min(SHORT, subject.context)), 17)
    whole = subject.implementation.fresh().rows(*step)
    if subject.implementation.form == "decoder":
        return _decode(subject, step, whole)
    alone = [
        Step(x[None], place[None], step.dtype)
        for x, place in zip(step.x, step.positions, strict=True)
    ]
    parts = replay(subject.implementation.fresh(), *alone)
    return compare_repeats(subject, step, np.concatenate(parts), whole, "in a sequence, alone")


def _decode(subject: Subject, step: Step, whole: Array) -> Outcome:
    """Check steps from the beginning, and steps after half of the sequence."""
    given = step.x.astype(DTYPES[step.dtype])
    for begin in (0, len(given) // 2):
        got = subject.implementation.decode(given, begin).reshape(given.shape)
        what = f"prefilled, stepped from {begin}"
        outcome = compare_repeats(subject, step, got, whole, what)
        if not outcome.passed:
            return outcome
    return outcome


@law(
    "two instances",
    because=TWICE,
    meaning="two instances of the same size share what should be their own",
)
def two_instances(subject: Subject) -> Outcome:
    """Another base of the same size rotates otherwise, and leaves the first as it was."""
    target = subject.implementation
    if target.base is None:
        return no_verdict("it takes no base")
    name, own = target.base.name, target.base.value
    if not target.base.numeric:
        return no_verdict(f"its {name} is not a number")
    step = short(subject)
    rope = None if subject.oracle is None else subject.oracle.rotary_at(len(step.x))
    if rope is not None and len(rope.diagonal_inv_freq) == 1:
        return no_verdict("one pair turns alike with any base")
    base = 50 * (own or (rope and rope.base) or 10_000.0)
    first = target.fresh()
    before = first.rows(*step)
    try:
        got = target.fresh({name: base}).rows(*step)
    except ImplementationError as error:
        return no_verdict(f"refuses another {name}: {error}")

    def alike(rows: Array, others: Array) -> bool:
        unlike = np.abs(rows - others).max()
        return bool(unlike <= 4 * subject.repeat_tolerance(others).max())

    if not alike(got, before):
        after = first.rows(*step)
        what = "before another base was used, after it"
        return compare_repeats(subject, step, after, before, what)
    note = f"{name} {NO_EFFECT}, or counts for the first instance only"
    if target.restart():
        kept = f"{name} counts for the first instance only: what is kept is kept for all"
        alone = target.fresh({name: base}).rows(*step)
        note = f"{name} {NO_EFFECT}" if alike(alone, got) else kept
    text = f"{name}={base:g} turns as before at positions 0 to {len(step.x) - 1}"
    return Outcome(passed=False, samples=len(got), counterexample=text, note=note)


def short(subject: Subject) -> Step:
    """Return a short call, such as the first one is."""
    return subject.step(range(min(SHORT, subject.context)), 0)
