"""The run of an implementation: its calls, in a process of its own if they can be, and its time."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from ropecli.checks.implementation.call import (
    Call,
    Died,
    Evaluated,
    Evaluation,
    Exhausted,
    ImplementationError,
    OutOfTime,
    Response,
    Setup,
    Unsupported,
)
from ropecli.checks.implementation.calling.describe import Description
from ropecli.checks.implementation.calling.engine import Engine
from ropecli.checks.implementation.calling.foreign import describe_exception
from ropecli.checks.implementation.calling.isolate import IN_WORKER, Ended, Printed, Process
from ropecli.checks.implementation.calling.source import Here, Source
from ropecli.checks.implementation.options import TIMEOUT, Options
from ropecli.numbers import positive

LOAD_TIMEOUT_FACTOR = 5  #: Times the timeout for loading the implementation.
PATIENCE = 3  #: Timeouts that calls which end their process may cost before no more are made.
MOST_DEATHS = 8  #: Deaths in a row before no further call of such a shape is made.
MOST_SHAPES = 3  #: Times as many deaths in all shapes together.
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


class _Hung(Died):
    """A call that did not return within the timeout."""


class Caller:
    """The calls of a run, in a process of its own or, if they must be, in this one.

    A process that dies is replaced by the next call, and instances are made again from what they
    were made of.
    """

    def __init__(
        self,
        source: Source,
        *,
        isolated: bool = True,
        clock: Clock | None = None,
        timeout: float = TIMEOUT,
        memory: float | None = None,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        """Take a source; a process starts when it is first needed."""
        self.deaths: list[Died] = []  #: Calls that ended a process.
        self.notes: list[str] = []  #: What a reader should know of how it ran.
        #: Takes the number of an instance, its setup, each call and its result or error.
        self.listener: Callable[..., None] | None = None
        self._source = source
        self._clock = clock or Clock(None, None)
        self._timeout = positive("timeout", timeout)
        self._memory = None if memory is None else positive("memory", memory)
        self._here: Engine | None = None if isolated else source.engine()
        self._printed = Printed(echo)
        self._process: Process | None = None
        self._setups: dict[int, Setup] = {}
        self._numbers: dict[int, int] = {}  # of the instances in the process of today
        self._known: dict[tuple[str, ...], Any] = {}  # what was asked once
        self._lost = 0.0  # seconds, in calls that ended a process
        self._died, self._last_death = 0, ""
        self._in_a_row: Counter[tuple[Any, ...]] = Counter()  # deaths, by the shape of the call
        self._hung: set[tuple[str, tuple[Any, ...]]] = set()  # calls that hung, and their shapes
        self._not_loaded: Died | None = None
        self._searching = True
        self._returned = False  # whether a call has

    def send(self, here: Here) -> None:
        """Pickle an object for another process; call it in this one if it can't be."""
        try:
            self._source = here.pickle()
        except Exception as error:  # foreign objects raise anything when they are pickled
            why = describe_exception(error)
        else:
            try:
                self.load()
            except Died:  # which is reported by whoever asks next
                return
            except ImplementationError as error:
                why = str(error)
            else:
                return
        self.notes[:] = [f"it ran in this process, since it can't be pickled for another: {why}"]
        self._here = here.engine()

    def load(self) -> None:
        """Start a process that has the implementation, unless there is one, or it is here."""
        if self._process is not None or self._here is not None:
            return
        if self._not_loaded is not None:
            raise Died(str(self._not_loaded))
        many = self._in_a_row.total() >= MOST_SHAPES * MOST_DEATHS
        patience = PATIENCE * (2 if self._searching and self._returned else 1)
        self._refuse_if(many or self._lost >= patience * self._timeout)
        self._numbers.clear()
        self._process = Process(self._printed)
        try:
            seconds = LOAD_TIMEOUT_FACTOR * self._timeout
            self._ask("load", self._source, self._memory, seconds=seconds, where="when loaded")
        except Died as error:
            self._not_loaded = error
            raise
        except BaseException:
            self.close()
            raise

    def _refuse_if(self, too_many: bool) -> None:
        if too_many:
            raise Unsupported(
                f"no further call was made: its process ended {self._died} times, "
                f"the last time because {self._last_death}"
            )

    def end_search(self) -> None:
        """Count deaths from 0 again: those of trials, which a wrong convention may cause, pass.

        A trial that hung is not made in other axes, so that one that hangs in large calls is called
        in smaller ones.
        """
        self.deaths.clear()
        self._in_a_row.clear()
        self._lost, self._searching = 0.0, False

    @property
    def is_out_of_time(self) -> bool:
        """True if the budget of the run is spent."""
        return self._clock.seconds_left() <= 0

    def dtypes(self, framework: str) -> tuple[str, ...]:
        """Return the dtypes that a framework holds."""
        names: tuple[str, ...] = self._ask_once("dtypes", framework)
        return names

    def has_device(self, framework: str, device: str) -> bool:
        """Return True if a framework has a device other than the CPU on this machine."""
        has: bool = self._ask_once("has_device", framework, device)
        return has

    def describe(self) -> Description:
        """Describe the implementation."""
        description: Description = self._ask_once("describe")
        return description

    def make(self, setup: Setup) -> int:
        """Make an instance, and return the number by which calls name it."""
        self._clock.before_call()
        number = 1 + max(self._setups, default=0)
        self._setups[number] = setup
        try:
            self._remake(number)
        except BaseException:
            del self._setups[number]
            raise
        return number

    def call(self, number: int, call: Call) -> Response:
        """Call an instance."""
        self._clock.before_call()
        kind = call.dtype, *call.shape
        key = (self._setups[number].convention.call, kind)
        hung = self._searching and key in self._hung
        self._refuse_if(hung or self._in_a_row[kind] >= MOST_DEATHS)
        self.load()
        where = f"in a call of {call}"
        answer: Response | ImplementationError
        try:
            if number not in self._numbers:
                self._remake(number)
            answer = self._ask("call", self._numbers[number], call, where=where)
        except ImplementationError as error:
            answer = error
            small = isinstance(error, Exhausted) and call.nbytes <= SMALL
            if small or isinstance(error, Died):
                answer = Died(f"{error} {where}")
                answer.furthest = int(call.positions.max(initial=-1))
                self.deaths.append(answer)
            if isinstance(error, Died):
                self._in_a_row[kind] += 1
                self._hung |= {key} if isinstance(error, _Hung) else set()
        else:
            self._in_a_row.clear()
            self._returned = True
        if self.listener is not None:
            self.listener(number, self._setups[number], call, answer)
        if isinstance(answer, ImplementationError):
            raise answer from None
        return answer

    def evaluate(self, asked: Evaluation) -> Evaluated:
        """Evaluate an expression over the implementation."""
        self._clock.before_call()
        kind = (asked.text, *(np.shape(value) for value in asked.values.values()))
        self._refuse_if(self._in_a_row[kind] >= MOST_DEATHS or self._hung >= {(asked.text, kind)})
        self.load()
        try:
            answer: Evaluated = self._ask("evaluate", asked, where=f"in a call of {asked}")
        except Died as error:
            self._in_a_row[kind] += 1
            self._hung |= {(asked.text, kind)} if isinstance(error, _Hung) else set()
            self.deaths.append(Died(f"{error} in a call of {asked}"))
            raise self.deaths[-1] from None
        self._in_a_row.clear()
        self._returned = True
        return answer

    def drop(self, number: int) -> None:
        """Forget an instance."""
        self._setups.pop(number, None)
        if number in self._numbers:
            with contextlib.suppress(Died):
                self._ask("drop", self._numbers.pop(number))

    def restart(self) -> bool:
        """Begin a new process with the next call; False if calls run in this one."""
        self.close()
        return self._here is None

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
            self._process = None
            self._numbers.clear()

    def _remake(self, number: int) -> None:
        self._refuse_if(self._in_a_row[()] >= MOST_DEATHS)
        self.load()
        try:
            where = "when an instance was made"
            self._numbers[number] = self._ask("make", self._setups[number], where=where)
        except Died:
            self._in_a_row[()] += 1
            raise

    def _ask_once(self, *question: str) -> Any:
        if question not in self._known:
            try:
                self.load()
                self._known[question] = self._ask(*question)
            except Unsupported as error:
                raise Died(str(error)) from None
        return self._known[question]

    def _ask(self, method: str, *values: Any, where: str = "", seconds: float | None = None) -> Any:
        """Return the answer of the process; `where` says which question this is."""
        if self._here is not None:
            return getattr(self._here, method)(*values)
        assert self._process is not None
        begin = time.monotonic()
        seconds = self._timeout if seconds is None else seconds
        allowed = max(0.0, min(seconds, self._clock.seconds_left()))
        try:
            value = self._process.ask(method, *values, seconds=allowed)
        except Ended as error:
            self.close()
            if error.hung and allowed < seconds:
                raise OutOfTime from None
            self._died += 1
            self._lost += time.monotonic() - begin
            self._last_death = f"{error} {where}".rstrip()
            raise (_Hung if error.hung else Died)(str(error)) from None
        except BaseException:  # an interrupt: a late answer must not be taken for the next one
            self.close()
            raise
        if isinstance(value, Exhausted) and value.is_full:  # no memory left for the next call
            self.close()
        if isinstance(value, Exception):
            raise value
        return value


@contextlib.contextmanager
def calls_of(source: Source, options: Options, clock: Clock | None = None) -> Iterator[Caller]:
    """Make calls in a process of their own; here if they must be, or if it can't be pickled."""
    make = partial(
        Caller,
        source,
        clock=clock,
        timeout=options.timeout,
        memory=options.memory,
        echo=options.echo,
    )
    if not options.isolated or IN_WORKER in os.environ:
        before = [*sys.path]
        try:  # undo what loading it changes here for all
            with np.errstate():
                yield make(isolated=False)
        finally:
            sys.path[:] = before
        return
    caller = make()
    try:
        if isinstance(source, Here):
            caller.send(source)
        yield caller
    finally:
        caller.close()
