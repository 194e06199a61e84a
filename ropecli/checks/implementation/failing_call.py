"""The smallest call that an implementation answers wrongly, found among those of the laws."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import dtype_name
from ropecli.checks.implementation.call import (
    ImplementationError,
    Request,
    Response,
    ScaledRequest,
    Setup,
    Unsupported,
)
from ropecli.checks.implementation.calling.run import Caller
from ropecli.checks.implementation.oracle import Oracle, sequence_length
from ropecli.checks.implementation.subject import Subject

LARGEST = 2**22  #: Numbers in a call that is kept.
MOST_TRIALS = 60  #: Calls by which one is made smaller.


@dataclass(frozen=True, kw_only=True, eq=False)
class FailingCall:
    """A call with the result expected. Arrays are (batch, heads, sequence, head_dim)."""

    setup: Setup  #: How the instance is made.
    request: Request
    before: Request | None  #: A call that must be made before; None if it fails alone.
    of_keys: bool  #: The keys are wrong, and not the queries.
    expected: NDArray[np.float64]  #: Of the queries, or of the keys.
    tolerance: NDArray[np.float64]
    in_place: bool  #: The result is written over the argument.
    error: str | None  #: What it raised; None if it returned wrong numbers.

    @property
    def size(self) -> int:
        """The numbers that it is called with."""
        return self.request.q.size + (0 if self.before is None else self.before.q.size)


class Recorder:
    """The smallest call of each failing law, with those that lead to it."""

    def __init__(self) -> None:
        """Listen to no law yet."""
        self._subject: Subject | None = None
        self._last: dict[int, Request] = {}
        self._wrong: list[FailingCall] = []
        self._raised: list[FailingCall] = []
        self.kept: list[FailingCall] = []

    def hear(
        self,
        number: int,
        setup: Setup,
        asked: Request | ScaledRequest,
        answer: Response | ImplementationError,
    ) -> None:
        """Take a call of an instance, and its result or what it raised."""
        request = asked.whole()
        if request.q.size > LARGEST:
            return
        subject, before = self._subject, self._last.get(number)
        self._last[number] = request
        if (
            subject is None
            or request.gradient is not None
            or request.followed_by
            or request.stepwise
        ):
            return
        self._subject = None  # to compare may need calls itself
        try:
            found = compare(subject, setup, request, answer)
        finally:
            self._subject = subject
        calls = self._wrong if isinstance(answer, Response) else self._raised
        if found is not None and (not calls or found.request.q.size < calls[0].request.q.size):
            calls[:] = [replace(found, before=before)]

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


def compare(
    subject: Subject, setup: Setup, request: Request, answer: Response | ImplementationError
) -> FailingCall | None:
    """Return a call as a failing one; None if it was answered rightly."""
    oracle = expected_oracle(subject)
    assert oracle is not None
    response = answer if isinstance(answer, Response) else None
    dtype = dtype_name(request.q.dtype)
    assert dtype is not None  # vectors are made in one of the known dtypes
    keys = request.q if request.k is None else request.k
    pairs = [(request.q, None if response is None else response.q, False)]
    if response is not None and response.k is not None:
        pairs.append((keys, response.k, True))
    for x, got, of_keys in pairs:
        places = request.by_sequence
        m = np.broadcast_to(places[:, None], (len(x), x.shape[1], *places.shape[1:])).astype(
            np.float64
        )
        flat, points = x.astype(np.float64).reshape(-1, x.shape[-1]), m.reshape(-1, *m.shape[3:])
        truth = oracle.truth(flat, points, dtype)
        if got is not None:
            rows = got.astype(np.float64).reshape(flat.shape)
            if not truth.wrong(rows).any():
                continue
            other = subject.identify_at(sequence_length(points))
            if other is not None:
                truth = other.truth(flat, points, dtype)
                if not truth.wrong(rows).any():
                    continue
        return FailingCall(
            setup=setup,
            request=request,
            before=None,
            of_keys=of_keys,
            expected=truth.rows.reshape(x.shape),
            tolerance=truth.tolerance.reshape(x.shape),
            in_place=response is not None and response.in_place,
            error=None if isinstance(answer, Response) else str(answer),
        )
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class Repeated:
    """Failing calls that are made again, each of a new instance."""

    subject: Subject
    caller: Caller

    def smallest(self, calls: list[FailingCall]) -> FailingCall | None:
        """Return the smallest of failing calls, made smaller while it fails."""
        for each in sorted(calls, key=lambda call: call.size):
            for before in ([], [each.before]) if each.before is not None else ([],):
                found = self._try(each.setup, *before, each.request)
                if found is not None:
                    alone = replace(found, before=before[0] if before else None)
                    return alone if before else self._shrink(alone)
        return None

    def _try(self, setup: Setup, *requests: Request) -> FailingCall | None:
        """Return the last call, if it fails after the others."""
        *before, last = requests
        answer: Response | ImplementationError
        number = None
        try:
            number = self.caller.make(setup)
            for request in before:
                with contextlib.suppress(ImplementationError, Unsupported):
                    self.caller.call(number, request)
            answer = self.caller.call(number, last)
        except ImplementationError as error:
            answer = error
        except Unsupported:
            return None
        finally:
            if number is not None:
                self.caller.drop(number)
        return compare(self.subject, setup, last, answer)

    def _shrink(self, call: FailingCall) -> FailingCall:
        """Leave out sequences, heads and rows of a call while it fails in the same way."""
        trials, smaller = 0, True
        while smaller:
            smaller = False
            for request in _parts(call.request):
                trials += 1
                if trials > MOST_TRIALS:
                    return call
                found = self._try(call.setup, request)
                if found is not None and (found.error is None) == (call.error is None):
                    call, smaller = found, True
                    break
        return call


def _parts(request: Request) -> Iterator[Request]:
    """Yield requests with half of the sequences, heads or rows, then with one fewer."""
    q, k = request.q, request.k
    for axis in (0, 1, 2):
        length = q.shape[axis]
        if axis == 1 and k is not None and k.shape[1] != length:
            continue
        halves = [slice(0, length // 2), slice(length // 2, length)] if length > 1 else []
        fewer = [slice(0, length - 1), slice(1, length)] if length > 2 else []
        for part in (*halves, *fewer):
            cut = (slice(None),) * axis + (part,)
            places = request.positions
            if axis == 2:
                places = places[:, part] if request.per_sequence else places[part]
            elif axis == 0 and request.per_sequence:
                places = places[part]
            yield replace(request, q=q[cut], k=None if k is None else k[cut], positions=places)
