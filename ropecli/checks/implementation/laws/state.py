"""Checks of calls: arguments, results, and state left behind."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Unsupported,
    WrongResult,
    known_dtype,
)
from ropecli.checks.implementation.laws.positions import judge_calls
from ropecli.checks.implementation.rows import call_failure, compare_repeats
from ropecli.checks.implementation.shapes.survey import call_at
from ropecli.checks.implementation.subject import Subject
from ropecli.checks.law import Outcome, law, no_verdict
from ropecli.units import SMALLEST_NORMAL

SEQUENCE = 6
#: Rows from 0 on, past 2^11 and 2^8, from where float16 and bfloat16 round positions.
ROUNDED = 2304
SHORT = 16  #: Rows of a short call.
LONGEST = 4096  #: Rows of a long one.
ELEMENTS = 2**21  #: Numbers in the largest array that a whole sequence is tried as.
COMES_BACK = "data come back as"
TWICE = "the rounding of two rotations"
NO_EFFECT = "has no effect"
SEVERAL = 8  #: Times that one call is made.


def _few_tokens(subject: Subject) -> int:
    """Return the tokens of a call that has nothing to show of lengths."""
    return min(SHORT if subject.implementation.compiles else SEQUENCE, subject.context)


@law("input untouched", because="none", meaning="the input is written into")
def input_untouched(subject: Subject) -> Iterator[Outcome]:
    """No argument is written into, in any dtype."""
    count = _few_tokens(subject)
    first = 0 if subject.implementation.form == "decoder" else min(3, subject.context - count)
    for dtype, rows in itertools.product(subject.dtypes, (count, 1)):
        call = subject.call(range(first, first + rows), 11, dtype, watch=True)
        try:
            response = subject.implementation.fresh().call(call)
        except ImplementationError:
            if rows == count and dtype == subject.dtype:
                raise
            continue  # it refuses one token, or the dtype
        if response.in_place:
            yield no_verdict("its result is written over the argument")
            return
        for name, text in response.changed:
            note = f"{name} is written into" + (" in a call of one token" if rows == 1 else "")
            yield Outcome(passed=False, samples=1, counterexample=text, note=note, dtype=dtype)
            return
    yield Outcome(passed=True, samples=2 * len(subject.dtypes))


@law(
    "dtype and shape",
    because="none",
    meaning="the dtype or the shape of the input is not kept",
)
def dtype_and_shape(subject: Subject) -> Iterator[Outcome]:
    """The result has the dtype and the shape of x."""
    for dtype in subject.dtypes:
        call = subject.call(range(_few_tokens(subject)), 12, dtype)
        try:
            result = subject.instance.call(call).q
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
        elif dtype == "float64" and _is_single(subject, call, result):
            yield no_verdict(
                f"{dtype} {COMES_BACK} float32 numbers: digits are lost on the way", dtype
            )
        else:
            yield Outcome(passed=True, samples=1, dtype=dtype)


def _is_single(subject: Subject, call: Call, result: NDArray[Any]) -> bool:
    """Return True if a result of float64 has no more digits than float32 keeps of it or of x."""

    def narrowed(array: NDArray[Any]) -> NDArray[Any]:
        return array.astype(np.float32).astype(np.float64)

    if np.array_equal(result, narrowed(result)):
        return True
    try:
        single = replace(call, vectors=narrowed(call.vectors))
        return np.array_equal(result, subject.instance.call(single).q)
    except ImplementationError:
        return False


@law("independent rows", because=TWICE, meaning="a row changes other rows of its call")
def independent_rows(subject: Subject) -> Iterator[Outcome]:
    """Rows are as they are alone, next to one that is infinite, NaN, very large or very small.

    Padding of paged caches holds any number, and so do heads that are not in use.
    """
    count = _few_tokens(subject)
    for lead in ((1, 1), (2, 2)):
        x = subject.call(range(4 * count), 26).x[: lead[0] * lead[1] * count]
        call = subject.call(range(count), scales=np.ones(lead))

        def rotate(rows: Array, call: Call = call) -> Array:
            vectors = rows.reshape(call.shape).astype(DTYPES[subject.dtype])
            return subject.instance.rows(replace(call, vectors=vectors))

        try:
            before = rotate(x)
        except ImplementationError:
            continue  # it takes no batch
        large = 2.0 ** min(20, -5 - int(np.log2(SMALLEST_NORMAL[subject.dtype]) / 2))
        for words, row, factor in (
            ("infinite", len(x) // 2, np.inf),
            ("NaN", len(x) // 2, np.nan),
            (f"{large:g} times as large", len(x) // 2, large),
            (f"{large:g} times as small", 0, 1 / large),
        ):
            changed = x.copy()
            changed[row] *= factor
            try:
                got = rotate(changed)
            except ImplementationError as error:
                if np.isfinite(factor):
                    raise
                yield no_verdict(f"refuses a row that is {words}: {error}")
                continue
            got[row] = got[row] / factor if np.isfinite(factor) else before[row]
            outcome = compare_repeats(subject, call, got, before, f"and next to a row {words}")
            if not outcome.passed:
                yield replace(outcome, note=f"rows next to one that is {words} come out wrong")
                return
            yield outcome


@law(
    "same twice",
    because=TWICE,
    meaning="the same call gives another result the second time: it keeps something",
)
def same_twice(subject: Subject) -> Iterator[Outcome]:
    """The same call gives the same result, also after calls of another dtype."""
    call = short(subject)
    first, again = subject.evidence.first_rows, subject.evidence.again
    first = subject.instance.rows(call) if first is None else first
    again = subject.instance.rows(call) if again is None else again
    other = subject.instance.rows(subject.call(range(call.length), 24))
    if first.any() and np.array_equal(other, first):
        words = "other vectors give the result of the first call"
        yield Outcome(passed=False, samples=len(first), counterexample=words, note=words)
        return
    outcome = compare_repeats(subject, call, again, first, "first, then")
    if outcome.passed and not subject.few_calls:  # what wears off takes more than two calls
        instance = subject.implementation.fresh()
        first, *_, again = (instance.rows(call) for _ in range(SEVERAL))
        outcome = compare_repeats(subject, call, again, first, f"first, {SEVERAL - 1} calls later")
    yield outcome
    if outcome.passed:
        yield from _after_half_precision(subject)


def _after_half_precision(subject: Subject) -> Iterator[Outcome]:
    """Compare calls, near 0 and far out, with the same ones after one in half precision."""
    calls = [short(subject)]
    if subject.implementation.form != "decoder":
        calls.append(subject.call(range(min(ROUNDED, subject.context)), 25))
    halves = [dtype for dtype in subject.dtypes if "16" in dtype and dtype != subject.dtype]
    for call, half in itertools.product(calls, halves):
        in_half = replace(call, vectors=call.vectors.astype(DTYPES[half]))
        try:
            alone, instance = (subject.implementation.fresh() for _ in range(2))
            before, _ = alone.rows(call), instance.rows(in_half)
            got = instance.rows(call)
        except (ImplementationError, Unsupported):
            continue
        outcome = compare_repeats(subject, call, got, before, f"at first, after a call in {half}")
        if not outcome.passed:
            words = f"what is kept has the dtype of the first call, {half}"
            yield replace(outcome, note=words)
            return


@law(
    "long, short, long",
    because=TWICE,
    meaning="a long call changes the short ones after it: the table of the longer sequence is kept",
)
def long_short_long(subject: Subject) -> Outcome:
    """A long call does not change a short one after it, nor that one the next long one."""
    call, far, instance = short(subject), _long(subject), subject.instance
    now = instance.rows(call)
    before = now if subject.evidence.first_rows is None else subject.evidence.first_rows
    try:
        long = instance.rows(far)
    except ImplementationError as error:
        if subject.context_given:
            return call_failure(error)
        return no_verdict(f"refuses positions up to {int(far.positions.max()):,}: {error}")
    after = instance.rows(call)
    outcome = compare_repeats(subject, call, after, before, "before a long call, after it")
    if not outcome.passed:
        return outcome
    again = instance.rows(far)
    return compare_repeats(subject, far, again, long, "in a long call, after a short one")


def _long(subject: Subject) -> Call:
    """Return a long call, with two far positions at its end."""
    length = min(
        LONGEST,
        max(64, ELEMENTS // subject.dim),
        2 * (subject.original or LONGEST),
        subject.context,
    )
    positions = np.arange(length)
    if subject.implementation.form != "decoder" and subject.context > length:
        positions[-2:] = subject.context // 2, subject.context - 1
    return subject.call(positions, 14)


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
    fits = (length + 1) * subject.dim <= ELEMENTS or subject.implementation.form == "decoder"
    rows = length + 1 if fits else ELEMENTS // subject.dim // 2
    promised = subject.context if subject.context_given else length
    if subject.oracle is not None:
        lists = [range(max(0, end - rows), end) for end in (length - 1, length, length + 1) if end]
        calls = [call_at(subject, places, salt=5, promised=promised) for places in lists]
        refused = f"position {length:,}"
        if length >= subject.context:
            refused = f"positions beyond {subject.context:,}"
        yield judge_calls(subject, calls, refused=refused, new=True)
    if not subject.as_expected:
        yield _table_is_kept_up_to(subject, length)


def _table_is_kept_up_to(subject: Subject, length: int) -> Outcome:
    """Compare tables one below the trained length and at it, which every known type keeps equal."""
    count = min(length - 1, SHORT)
    if not count:
        return no_verdict("the original length is one position")
    below = subject.call([*range(count), max(length - 2, 0)], 16)
    at = subject.call([*range(count), length - 1], 16)
    one, other = (subject.rows(call)[:count] for call in (below, at))
    same = replace(below, positions=below.positions[:count])
    what = f"in a sequence of {length - 1:,}, of {length:,}"
    return compare_repeats(subject, same, other, one, what)


@law(
    "token by token",
    because=TWICE,
    meaning="a token alone is turned otherwise than in its sequence",
)
def token_by_token(subject: Subject) -> Outcome:
    """Tokens one at a time are rotated like the whole sequence."""
    call = subject.call(range(min(SHORT, subject.context)), 17)
    at_once = subject.implementation.fresh().rows(call)
    what = "in a sequence, alone"
    if subject.implementation.form != "decoder":
        instance = subject.implementation.fresh()
        alone = [
            replace(call, vectors=call.vectors[i : i + 1], positions=call.positions[i : i + 1])
            for i in range(call.length)
        ]
        parts = [instance.rows(one_call) for one_call in alone]
        return compare_repeats(subject, call, np.concatenate(parts), at_once, what)
    for begin in (0, call.length // 2):
        stepwise = replace(call, stepwise=True, prefilled=begin)
        got = subject.implementation.fresh().rows(stepwise)
        what = f"prefilled, stepped from {begin}"
        outcome = compare_repeats(subject, call, got, at_once, what)
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
    name, base_value = target.base.name, target.base.value
    if not target.base.numeric:
        return no_verdict(f"its {name} is not a number")
    call = short(subject)
    rope = None if subject.oracle is None else subject.oracle.rotary_at(call.length)
    if rope is not None and len(rope.diagonal_inv_freq) == 1:
        return no_verdict("one pair turns alike with any base")
    base = 50 * max(base_value or 0.0, (rope and rope.base) or 10_000.0)  # unlike both
    first = target.fresh()
    before = first.rows(call)
    try:
        got = target.fresh({name: base}).rows(call)
    except ImplementationError as error:
        return no_verdict(f"refuses another {name}: {error}")

    def alike(rows: Array, others: Array) -> bool:
        unlike = np.abs(rows - others).max()
        return bool(unlike <= 4 * subject.repeat_tolerance(others).max())

    if not alike(got, before):
        after = first.rows(call)
        what = "before another base was used, after it"
        return compare_repeats(subject, call, after, before, what)
    note = f"{name} {NO_EFFECT}, or counts for the first instance only"
    if target.restart():
        kept = f"{name} counts for the first instance only: what is kept is kept for all"
        alone = target.fresh({name: base}).rows(call)
        note = f"{name} {NO_EFFECT}" if alike(alone, got) else kept
    text = f"{name}={base:g} turns as before at positions 0 to {call.length - 1}"
    return Outcome(passed=False, samples=len(got), counterexample=text, note=note)


def short(subject: Subject) -> Call:
    """Return a short call, such as the first one is."""
    return subject.call(range(min(SHORT, subject.context)))
