"""The smallest call that an implementation answers wrongly, found among those of the laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import dtype_name
from ropecli.checks.implementation.calling.convention import Convention
from ropecli.checks.implementation.calling.discover import Engine
from ropecli.checks.implementation.calling.request import (
    Description,
    Request,
    Response,
    ScaledRequest,
)
from ropecli.checks.implementation.interface import ImplementationError, Unsupported
from ropecli.checks.implementation.oracle import Oracle, by_length, sequence_length
from ropecli.checks.implementation.subject import Subject
from ropecli.rotary.rotary import Rotary

LARGEST = 2**22  #: Numbers in a call that is kept.
MOST_TRIALS = 60  #: Calls by which one is made smaller.


@dataclass(frozen=True, kw_only=True, eq=False)
class FailingCall:
    """A call with the result expected. Arrays are (batch, heads, sequence, head_dim)."""

    convention: Convention  #: How it is made.
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
    """An engine that keeps the smallest call of a failing law, and those that lead to it."""

    def __init__(self, engine: Engine) -> None:
        """Wrap an engine."""
        self._engine = engine
        self._subject: Subject | None = None
        self._conventions: dict[int, Convention] = {}  #: Of each instance.
        self._last: dict[int, Request] = {}
        self._wrong: list[FailingCall] = []
        self._raised: list[FailingCall] = []
        self.kept: list[FailingCall] = []

    def describe(self) -> Description:
        """As `Engine.describe`."""
        return self._engine.describe()

    def dtypes(self, name: str) -> tuple[str, ...]:
        """As `Engine.dtypes`."""
        return self._engine.dtypes(name)

    def make(self, convention: Convention, rope: Rotary, context: int) -> int:
        """As `Engine.make`."""
        number = self._engine.make(convention, rope, context)
        self._conventions[number] = convention
        return number

    def drop(self, number: int) -> None:
        """As `Engine.drop`."""
        self._engine.drop(number)

    def restart(self) -> bool:
        """As `Engine.restart`."""
        return self._engine.restart()

    def announce(self, number: int, request: Request | ScaledRequest) -> None:
        """As `Engine.announce`."""
        self._engine.announce(number, request)

    def call(self, number: int, asked: Request | ScaledRequest) -> Response:
        """As `Engine.call`."""
        request = asked.whole()
        subject, before = self._subject, self._last.get(number)
        judged = subject is not None and request.gradient is None and not request.then
        judged = judged and request.q.size <= LARGEST and not request.stepwise
        if request.q.size <= LARGEST:
            self._last[number] = request
        try:
            response = self._engine.call(number, asked)
        except ImplementationError as error:
            if judged and subject is not None:
                found = compare(subject, self._conventions[number], request, None, str(error))
                self._add(self._raised, found, before)
            raise
        if judged and subject is not None:
            self._subject = None  # to compare may need calls itself
            try:
                found = compare(subject, self._conventions[number], request, response, None)
                self._add(self._wrong, found, before)
            finally:
                self._subject = subject
        return response

    def _add(
        self, calls: list[FailingCall], found: FailingCall | None, before: Request | None
    ) -> None:
        if found is not None and (not calls or found.request.q.size < calls[0].request.q.size):
            calls[:] = [replace(found, before=before)]

    def begin(self, subject: Subject) -> None:
        """Forget what was called, before a law."""
        # A decoder's calls follow from one another, and scores are not rows.
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
    if subject.expect is not None:
        return Oracle(rotary_at=by_length(subject.expect), tolerances=subject.tolerances)
    return subject.oracle


def compare(
    subject: Subject,
    convention: Convention,
    request: Request,
    response: Response | None,
    error: str | None,
) -> FailingCall | None:
    """Return a call as a failing one; None if it was answered rightly."""
    oracle = expected_oracle(subject)
    assert oracle is not None
    dtype = dtype_name(request.q.dtype)
    assert dtype is not None  # vectors are made in one of the known dtypes
    keys = request.q if request.k is None else request.k
    pairs = [(request.q, None if response is None else response.q, False)]
    if response is not None and response.k is not None:
        pairs.append((keys, response.k, True))
    for x, got, of_keys in pairs:
        places = request.positions if request.own else request.positions[None]
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
            convention=convention,
            request=request,
            before=None,
            of_keys=of_keys,
            expected=truth.rows.reshape(x.shape),
            tolerance=truth.tolerance.reshape(x.shape),
            in_place=response is not None and response.in_place,
            error=error,
        )
    return None


def smallest(
    calls: list[FailingCall], subject: Subject, answer: Callable[..., Response]
) -> FailingCall | None:
    """Return the smallest of failing calls, made smaller while it fails."""
    for each in sorted(calls, key=lambda call: call.size):
        for before in ([], [each.before]) if each.before is not None else ([],):
            found = _try(subject, answer, each.convention, *before, each.request)
            if found is not None:
                alone = replace(found, before=before[0] if before else None)
                return alone if before else _shrink(alone, subject, answer)
    return None


def _try(
    subject: Subject, answer: Callable[..., Response], convention: Convention, *requests: Any
) -> FailingCall | None:
    try:
        response = answer(convention, *requests)
    except ImplementationError as error:
        return compare(subject, convention, requests[-1], None, str(error))
    except Unsupported:
        return None
    return compare(subject, convention, requests[-1], response, None)


def _shrink(call: FailingCall, subject: Subject, answer: Callable[..., Response]) -> FailingCall:
    """Leave out sequences, heads and rows of a call while it fails in the same way."""
    trials, smaller = 0, True
    while smaller:
        smaller = False
        for request in _parts(call.request):
            trials += 1
            if trials > MOST_TRIALS:
                return call
            found = _try(subject, answer, call.convention, request)
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
                places = places[:, part] if request.own else places[part]
            elif axis == 0 and request.own:
                places = places[part]
            yield replace(request, q=q[cut], k=None if k is None else k[cut], positions=places)
