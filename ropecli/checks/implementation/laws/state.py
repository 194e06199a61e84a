"""What a call leaves behind: it must not change the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.compare import rows_by_oracle, same
from ropecli.checks.implementation.failure import TargetError, Unsuited
from ropecli.checks.implementation.forms import base_parameter, stepped
from ropecli.checks.implementation.law import Law, Outcome, raised, silent
from ropecli.checks.implementation.target import guarded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from ropecli.checks.implementation.subject import Subject

    Array = NDArray[np.float64]

SHORT = 16  #: Rows of a short call.
LONGEST = 4096  #: Rows of a long one.
ELEMENTS = 2**21  #: Numbers in the largest array that a whole sequence is tried as.
TWICE = "the rounding of two rotations"


def same_twice(subject: Subject) -> Outcome:
    """The same call gives the same result."""
    x, places = short(subject)
    first = subject.turn(x, places) if subject.beginning is None else subject.beginning
    again = subject.turn(x, places)
    outcome = same(subject, again, first, positions=places, what="first, then")
    return outcome if not outcome.passed else _after_another_dtype(subject, outcome)


def _after_another_dtype(subject: Subject, right: Outcome) -> Outcome:
    """Data in half precision before do not spoil what comes after."""
    for x, places, before, dtype in _first_calls(subject):
        instance = subject.target.fresh()
        for half in [d for d in subject.dtypes if "16" in d and d != dtype]:
            try:
                instance.rows(x, places, half)
            except TargetError:
                continue
            got = instance.rows(x, places, dtype)
            what = f"at first, after a call in {half}"
            outcome = same(subject, got, before, positions=places, what=what, dtype=dtype)
            if not outcome.passed:
                words = f"what is kept has the dtype of the first call, {half}"
                return replace(outcome, note=words)
    return right


def _first_calls(subject: Subject) -> Iterator[tuple[Array, NDArray[Any], Array, str]]:
    """Vectors, positions, rows and dtype of calls that nothing came before: near 0, and further."""
    if subject.beginning is not None:
        yield *short(subject), subject.beginning, subject.dtype
    if subject.shown is not None:  # as far as half precisions count
        x, rows, places = subject.shown
        yield x, places.astype(np.int64), rows, subject.sharp


def long_short_long(subject: Subject) -> Outcome:
    """A long call does not change a short one after it, nor that one the next long one."""
    x, places = short(subject)
    instance = subject.instance
    most = min(LONGEST, max(64, ELEMENTS // subject.dim), 2 * (subject.original or LONGEST))
    length = min(most, subject.context)
    positions = np.arange(length)
    if subject.target.form != "decoder" and subject.context > length:
        positions[-2:] = subject.context // 2, subject.context - 1
    far = subject.places(positions)
    rows = subject.vectors(len(far), salt=14)
    now = instance.rows(x, places, subject.dtype)
    before = now if subject.beginning is None else subject.beginning
    try:
        long = instance.rows(rows, far, subject.dtype)
    except TargetError as error:
        if subject.context_given:
            return raised(error)
        return silent(f"refuses positions up to {int(positions.max()):,}: {error}")
    after = instance.rows(x, places, subject.dtype)
    outcome = same(subject, after, before, positions=places, what="before a long call, after it")
    if not outcome.passed:
        return outcome
    again = instance.rows(rows, far, subject.dtype)
    return same(subject, again, long, positions=far, what="in a long call, after a short one")


def original_length(subject: Subject) -> Iterator[Outcome]:
    """Whole sequences one shorter than the trained length, of that length, and one longer."""
    length = subject.original
    if length is None:
        yield silent("no original context length is known: --original N")
        return
    whole = (length + 1) * subject.dim <= ELEMENTS
    rows_to = length + 1 if whole else ELEMENTS // subject.dim // 2
    instance = subject.target.fresh()
    for end in (length - 1, length, length + 1):
        if end < 1:
            continue
        begin = max(0, end - rows_to) if subject.target.form != "decoder" else 0
        places = subject.places(np.arange(begin, end))
        x = subject.vectors(len(places), salt=15)
        try:
            with subject.asking(places, promised=length):
                got = instance.rows(x, places, subject.dtype)
        except Unsuited as error:
            yield silent(str(error))
            continue
        if subject.oracle is None:
            continue
        yield rows_by_oracle(
            subject, x, places, got, where=f"a sequence of {end:,}, trained on {length:,}: "
        )
    if not subject.as_expected:
        yield _steady_up_to(subject, length)


def _steady_up_to(subject: Subject, length: int) -> Outcome:
    """Every known type keeps its table up to the trained length and no further."""
    count = min(length - 1, SHORT)
    if not count:
        return silent("the original length is one position")
    x = subject.vectors(count + 1, salt=16)
    below = subject.places([*range(count), max(length - 2, 0)])
    at = subject.places([*range(count), length - 1])
    one = subject.turn(x, below)[:count]
    other = subject.turn(x, at)[:count]
    what = f"in a sequence of {length - 1:,}, of {length:,}"
    return same(subject, other, one, positions=below[:count], what=what)


def token_by_token(subject: Subject) -> Outcome:
    """Tokens one at a time are turned as the whole sequence is."""
    count = min(SHORT, subject.context)
    x = subject.vectors(count, salt=17)
    places = subject.places(np.arange(count))
    whole = subject.target.fresh().rows(x, places, subject.dtype)
    if subject.target.form == "decoder":
        return _decoded(subject, x, places, whole)
    instance = subject.target.fresh()
    parts = [instance.rows(x[i : i + 1], places[i : i + 1], subject.dtype) for i in range(count)]
    return same(
        subject, np.concatenate(parts), whole, positions=places, what="in a sequence, alone"
    )


def _decoded(subject: Subject, x: Array, places: NDArray[Any], whole: Array) -> Outcome:
    """All steps from the beginning, and steps after half of the sequence."""
    given = x.astype(DTYPES[subject.dtype]).reshape(*subject.target.lead, *x.shape)
    for begin in (0, len(x) // 2):
        with guarded():
            decoder = subject.target.construct()
            parts: list[NDArray[Any]] = []
            if begin:
                frame = subject.target.frame
                parts = [frame.back(decoder.prefill(frame.to(given[..., :begin, :])))]
            parts += stepped(decoder, given[..., begin:, :], subject.target.frame)
            got = np.concatenate(parts, axis=-2).astype(np.float64).reshape(x.shape)
        outcome = same(
            subject, got, whole, positions=places, what=f"prefilled, stepped from {begin}"
        )
        if not outcome.passed:
            return outcome
    return outcome


def two_instances(subject: Subject) -> Outcome:
    """Another base of the same size turns otherwise, and leaves the first as it was."""
    target = subject.target
    taken = base_parameter(target.function, target.form)
    if taken is None:
        return silent("it takes no base")
    name, default = taken
    own = target.init.get(name, default)
    if own is not None and not isinstance(own, int | float | np.integer | np.floating):
        return silent(f"its {name} is no number")
    x, places = short(subject)
    rope = None if subject.oracle is None else subject.oracle.rotary_at(len(x))
    if rope is not None and len(rope.inv_freq) == 1:
        return silent("one pair turns alike with any base")
    base = 50 * float(own or (rope and rope.base) or 10_000.0)
    first = target.fresh()
    before = first.rows(x, places, subject.dtype)
    try:
        got = target.fresh({name: base}).rows(x, places, subject.dtype)
    except TargetError as error:
        return silent(f"refuses another {name}: {error}")
    if np.abs(got - before).max() <= 4 * float(subject.slack(before).max()):
        return Outcome(
            passed=False,
            samples=len(got),
            counterexample=f"{name}={base:g} turns as before at positions 0 to {len(x) - 1}",
            note=f"{name} counts for the first instance only: what is kept is kept for all",
        )
    after = first.rows(x, places, subject.dtype)
    what = "before another base was used, after it"
    return same(subject, after, before, positions=places, what=what)


def short(subject: Subject) -> tuple[Array, NDArray[Any]]:
    """Vectors and positions of a short call: the first ones."""
    count = min(SHORT, subject.context)
    return subject.vectors(count, salt=0), subject.places(np.arange(count))


LAWS = (
    Law(name="same twice", equation="34", because=TWICE, judge=same_twice),
    Law(name="token by token", equation="34", because=TWICE, judge=token_by_token),
    Law(name="original length", equation="34", because=TWICE, judge=original_length),
)
LAST = (
    Law(name="long, short, long", equation="34", because=TWICE, judge=long_short_long),
    Law(name="two instances", equation="34", because=TWICE, judge=two_instances),
)
