"""The run of an implementation: its time, and the calls that it must be able to answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from ropecli.checks.implementation.calling.convention import Convention
from ropecli.checks.implementation.calling.engine import Engine
from ropecli.checks.implementation.calling.process import IsolatedEngine, describe_request
from ropecli.checks.implementation.calling.request import (
    Description,
    Request,
    Response,
    ScaledRequest,
)
from ropecli.checks.implementation.interface import Died, Exhausted, OutOfTime
from ropecli.numbers import positive
from ropecli.rotary.rotary import Rotary

#: Bytes of vectors, those of 4,096 rows of 64 float32, up to which a call is small: memory for
#: thousands of times as much is there, so that running out of it is not a refusal.
SMALL = 2**20
OFTEN = 0.1  #: Seconds between two lines of progress.


class Clock:
    """The time that a run may take, and what it does now."""

    def __init__(self, budget: float | None, report: Callable[[str], None] | None) -> None:
        """Begin."""
        self.budget = math.inf if budget is None else positive("budget", budget)
        self._end = time.monotonic() + self.budget
        self._report = report
        self._next = 0.0
        self.doing = ""  #: A clause.
        self._calls = 0  # since it does that

    def begin(self, doing: str) -> None:
        """Say what is done from now on."""
        self.doing, self._calls, self._next = doing, 0, 0.0

    def seconds_left(self) -> float:
        """Return what is left of the budget, or infinity."""
        return self._end - time.monotonic()

    def stop(self) -> None:
        """Take any time from now on."""
        self._end = math.inf

    def before_call(self) -> None:
        """Count a call, and report what is being done."""
        self._calls += 1
        now = time.monotonic()
        if self._report is not None and now >= self._next:
            self._next = now + OFTEN
            self._report(f"{self.doing}, {self._calls:,} call{'s' * (self._calls > 1)}")
        if now >= self._end:
            raise OutOfTime


class TimedEngine:
    """An engine that makes no call once the budget is spent."""

    def __init__(self, engine: Engine | IsolatedEngine, clock: Clock) -> None:
        """Wrap an engine."""
        self._engine = engine
        self._clock = clock
        self.deaths = engine.deaths

    def describe(self) -> Description:
        """As `Engine.describe`."""
        found: Description = self._engine.describe()
        return found

    def dtypes(self, name: str) -> tuple[str, ...]:
        """As `Engine.dtypes`."""
        return self._engine.dtypes(name)

    def make(self, convention: Convention, rope: Rotary, context: int) -> int:
        """As `Engine.make`."""
        self._clock.before_call()
        return self._engine.make(convention, rope, context)

    def call(self, number: int, request: Request | ScaledRequest) -> Response:
        """As `Engine.call`."""
        self._clock.before_call()
        try:
            return self._engine.call(number, request)
        except Exhausted as error:
            whole = request.whole()
            if whole.q.nbytes > SMALL:
                raise
            death = Died(f"{error} in a call with {describe_request(whole)}")
            death.furthest = int(whole.positions.max(initial=-1))
            self.deaths.append(death)
            raise death from None

    def announce(self, number: int, request: Request | ScaledRequest) -> None:
        """As `Engine.announce`."""
        self._engine.announce(number, request)

    def drop(self, number: int) -> None:
        """As `Engine.drop`."""
        self._engine.drop(number)

    def restart(self) -> bool:
        """As `Engine.restart`."""
        return self._engine.restart()

    def end_search(self) -> None:
        """Count calls that ended the process anew."""
        self._engine.end_search()
