"""The smallest call that an implementation answers wrongly, found among those of the laws."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ropecli.checks.implementation.call import (
    Call,
    ImplementationError,
    Response,
    Setup,
    Unsupported,
)
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.oracle import Oracle, sequence_length
from ropecli.checks.implementation.rows import compare_first, expect_rows
from ropecli.checks.implementation.subject import Subject

LARGEST = 2**22  #: Numbers in a call that is kept.
MOST_TRIALS = 60  #: Calls by which one is made smaller.


@dataclass(frozen=True, kw_only=True, eq=False)
class FailingCall:
    """A call with the result expected. Arrays are (batch, heads, sequence, head_dim)."""

    setup: Setup  #: How the instance is made.
    call: Call
    before: Call | None  #: A call that must be made before; None if it fails alone.
    array: str  #: q, or k where the keys are wrong.
    expected: NDArray[np.float64]  #: Of this array, (batch, heads, length, head_dim).
    tolerance: NDArray[np.float64]
    in_place: bool  #: The result is written over the argument.
    error: str | None  #: What it raised; None if it returned wrong numbers.

    @property
    def size(self) -> int:
        """Rows that it is called with."""
        return self.call.rows + (0 if self.before is None else self.before.rows)


class Recorder:
    """The smallest call of each failing law, with those that lead to it."""

    def __init__(self) -> None:
        """Listen to no law yet."""
        self._subject: Subject | None = None
        self._last: dict[int, Call] = {}
        self._wrong: list[FailingCall] = []
        self._raised: list[FailingCall] = []
        self.kept: list[FailingCall] = []

    def hear(
        self,
        number: int,
        setup: Setup,
        call: Call,
        answer: Response | ImplementationError,
    ) -> None:
        """Take a call of an instance, and its result or what it raised."""
        if call.rows * call.vectors.shape[-1] > LARGEST:
            return
        subject, before = self._subject, self._last.get(number)
        self._last[number] = call
        other = call.gradient or call.followed_by or call.stepwise or call.vectors.ndim > 2
        if subject is None or other:
            return
        self._subject = None  # to compare may need calls itself
        try:
            failing = judge(subject, setup, call, answer)
        finally:
            self._subject = subject
        calls = self._wrong if isinstance(answer, Response) else self._raised
        if failing is not None and (not calls or failing.call.rows < calls[0].call.rows):
            calls[:] = [replace(failing, before=before)]

    def begin(self, subject: Subject) -> None:
        """Forget what was called, before a law."""
        # A decoder's calls follow from one another.
        known = subject.implementation.form == "apply" and expected_oracle(subject) is not None
        self._subject = subject if known else None
        self._wrong, self._raised = [], []

    def end(self, *, failed: bool) -> None:
        """Keep the smallest wrong call of a law that failed, or else one that raised."""
        self._subject = None
        if failed:
            self.kept += self._wrong or self._raised


def expected_oracle(subject: Subject) -> Oracle | None:
    """Return the rotation expected, or else the one found; None if neither is known."""
    return subject.oracle if subject.expect is None else subject.expected


def judge(
    subject: Subject, setup: Setup, call: Call, answer: Response | ImplementationError
) -> FailingCall | None:
    """Return a call as a failing one; None if it was answered rightly."""
    oracle = expected_oracle(subject)
    assert oracle is not None
    length = sequence_length(call.by_sequence.astype(np.float64))
    oracles: Sequence[Oracle] = [oracle.at_length(length)]
    array, in_place = "q", False
    if isinstance(answer, Response):
        in_place = answer.in_place
        other = subject.identify_at(length)
        every = [oracles, *([[other]] if other is not None else [])]
        results = {"q": answer.q, "k": answer.k}
        for array, result in results.items():
            if result is not None:
                compared, oracles, _ = compare_first(every, call, result, array)
                if compared.first is not None:
                    break
        else:
            return None
    truth = expect_rows(oracles, call, slice(0, call.batch), slice(0, call.length))
    scales = call.scales[:, call.heads_of(array), None, None]
    return FailingCall(
        setup=setup,
        call=call,
        before=None,
        array=array,
        expected=truth.rows * scales,
        tolerance=truth.tolerance * np.abs(scales),
        in_place=in_place,
        error=None if isinstance(answer, Response) else str(answer),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """Failing calls that are made again, each of a new instance."""

    subject: Subject
    caller: Caller

    def smallest(self, calls: list[FailingCall]) -> FailingCall | None:
        """Return the smallest of failing calls, made smaller while it fails."""
        for one_call in sorted(calls, key=lambda call: call.size):
            for before in ([], [one_call.before]) if one_call.before is not None else ([],):
                failing = self._try(one_call.setup, *before, one_call.call)
                if failing is not None:
                    alone = replace(failing, before=before[0] if before else None)
                    return alone if before else self._shrink(alone)
        return None

    def _try(self, setup: Setup, *calls: Call) -> FailingCall | None:
        """Return the last call, if it fails after the others."""
        *before, last = calls
        answer: Response | ImplementationError
        number = None
        try:
            number = self.caller.make(setup)
            for call in before:
                with contextlib.suppress(ImplementationError, Unsupported):
                    self.caller.call(number, call)
            answer = self.caller.call(number, last)
        except ImplementationError as error:
            answer = error
        except Unsupported:
            return None
        finally:
            if number is not None:
                self.caller.drop(number)
        return judge(self.subject, setup, last, answer)

    def _shrink(self, call: FailingCall) -> FailingCall:
        """Leave out sequences, heads and rows of a call while it fails in the same way."""
        trials, smaller = 0, True
        while smaller:
            smaller = False
            for part in _parts(call.call):
                trials += 1
                if trials > MOST_TRIALS:
                    return call
                failing = self._try(call.setup, part)
                if failing is not None and (failing.error is None) == (call.error is None):
                    call, smaller = failing, True
                    break
        return call


def _parts(call: Call) -> Iterator[Call]:
    """Yield calls with half of the sequences, heads or rows, then with one fewer."""
    for axis, length in enumerate(call.shape[:3]):
        if axis == 1 and call.key_heads not in {0, length}:
            continue
        halves = [slice(0, length // 2), slice(length // 2, length)] if length > 1 else []
        fewer = [slice(0, length - 1), slice(1, length)] if length > 2 else []
        for part in (*halves, *fewer):
            yield _cut(call, axis, part)


def _cut(call: Call, axis: int, part: slice) -> Call:
    """Return a part of the sequences (axis 0), heads (1) or rows (2) of a call."""
    places = call.positions
    if axis == 2:
        vectors = call.vectors.take(range(call.length), axis=0, mode="wrap")[part]
        places = places[:, part] if call.per_sequence else places[part]
        return replace(call, vectors=vectors, positions=places)
    if axis == 0:
        places = places[part] if call.per_sequence else places
        return replace(call, scales=call.scales[part], positions=places)
    some = [call.scales[:, call.heads_of(array)][:, part] for array in call.arrays]
    key_heads = some[-1].shape[1] if call.key_heads else 0
    return replace(call, scales=np.concatenate(some, axis=1), key_heads=key_heads)
