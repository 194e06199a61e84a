"""The engine in a process of its own, which may crash, hang, exit or print."""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from io import BufferedReader
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation.calling.convention import Convention
from ropecli.checks.implementation.calling.foreign import escape_unprintable
from ropecli.checks.implementation.calling.launch import Worker
from ropecli.checks.implementation.calling.request import Request, Response, ScaledRequest
from ropecli.checks.implementation.calling.worker import (
    ANSWER,
    EXHAUSTED,
    FAILED,
    MARK,
    UNSUPPORTED,
)
from ropecli.checks.implementation.interface import (
    Died,
    Exhausted,
    ImplementationError,
    OutOfTime,
    Unsupported,
    WrongResult,
)
from ropecli.rotary.rotary import Rotary

if TYPE_CHECKING:
    from ropecli.checks.implementation.calling.source import Source

TIMEOUT = 60.0  #: Seconds for one call.
LOADING = 5  #: Times as many for loading the implementation.
#: Times the timeout that calls may cost which end their process, before no further one is made.
PATIENCE = 3
MOST_DEATHS = 8  #: In a row, before no further call of such a shape is made,
MOST_SHAPES = 3  #: and times as many in all shapes together.
MOST_RENEWALS = 12  #: Processes left since something was replaced in them; the same limit.
LAST_LINES = 3  #: Of what a process printed, shown when it dies.
MOST_LINES = 1000  #: Of what it prints that are passed on,
MOST_CHARACTERS = 1000  #: and of each line;
LAST_CHARACTERS = 200  #: of a line that is shown when it dies.
GRACE = 0.5  #: Seconds between looks whether a process lives whose pipe has no answer.
#: Packages of what answers are made of: plain data, for which no foreign module is imported.
PLAIN = {"ropecli", "numpy", "ml_dtypes", "collections", "_codecs"}

_Outcome = tuple[str, Any, tuple[str, ...]]  #: As `worker._Served.answer` returns it.


class IsolatedEngine:
    """The methods of `Engine`, each done in another process.

    A process that dies is replaced by the next call, and instances are made again from what they
    were made of. So is one in which a call replaced functions of NumPy or of Python itself.
    """

    def __init__(
        self,
        source: Source,
        *,
        timeout: float = TIMEOUT,
        memory: float | None = None,
        seconds_left: Callable[[], float] = lambda: math.inf,
        echo: Callable[[str], None] | None = None,
    ) -> None:
        """Take a source; the process starts when it is first needed."""
        self.deaths: list[Died] = []  #: Calls that ended a process.
        self.notes: list[str] = []  #: What a reader should know of how it ran.
        self._source = source
        self._timeout = timeout
        self._memory = memory
        self._seconds_left = seconds_left
        self._printed = _Printed(echo)
        self._process: _Process | None = None
        self._recipes: dict[int, tuple[Any, ...]] = {}
        self._numbers: dict[int, int] = {}  # of the instances in the process of today
        self._known: dict[tuple[str, ...], Any] = {}  # what was asked once
        self._ahead: deque[Request | ScaledRequest] = deque()  # calls that were announced,
        #: and those answered before they were made
        self._early: list[tuple[Request | ScaledRequest, _Outcome]] = []
        self._lost = 0.0  # seconds, in calls that ended a process
        self._died = 0
        self._in_a_row: Counter[tuple[Any, ...]] = Counter()  # deaths, by the kind of the request
        self._hung: set[tuple[str, tuple[Any, ...]]] = set()  # calls, and the kinds of requests
        self._not_loaded: Died | None = None
        self._searching = True
        self._renewals = 0

    def load(self) -> None:
        """Start a process that has the implementation, unless there is one."""
        if self._process is not None:
            return
        if self._not_loaded is not None:
            raise Died(str(self._not_loaded))
        many = self._in_a_row.total() >= MOST_SHAPES * MOST_DEATHS
        patience = PATIENCE * (2 if self._searching else 1)
        self._refuse_if(many or self._lost >= patience * self._timeout)
        self._numbers.clear()
        self._process = _Process(self._printed)
        try:
            self._exchange("load", (self._source, self._memory), LOADING * self._timeout)
        except Died as error:
            self._not_loaded = error
            raise
        except BaseException:
            self.close()
            raise

    def _refuse_if(self, too_many: bool) -> None:
        if too_many:
            raise Unsupported(f"no further call was made: its process died {self._died} times")

    def end_search(self) -> None:
        """Count deaths anew: those of trials, which a wrong convention may cause, are no failures.

        A trial that hung is not made in other axes, so that one that hangs in large calls is called
        in smaller ones.
        """
        self.deaths.clear()
        self._in_a_row.clear()
        self._lost, self._searching = 0.0, False

    def dtypes(self, framework: str) -> tuple[str, ...]:
        """As `Engine.dtypes`."""
        found: tuple[str, ...] = self._ask_once("dtypes", framework)
        return found

    def describe(self) -> Any:
        """As `Engine.describe`."""
        return self._ask_once("describe")

    def make(self, convention: Convention, rope: Rotary, context: int) -> int:
        """As `Engine.make`."""
        number = 1 + max(self._recipes, default=0)
        self._recipes[number] = (convention, rope, context)
        try:
            self._remake(number)
        except BaseException:
            del self._recipes[number]
            raise
        return number

    def call(self, number: int, request: Request | ScaledRequest) -> Response:
        """As `Engine.call`."""
        kind = request.kind
        way = (self._recipes[number][0].call, kind)
        hung = self._searching and way in self._hung
        self._refuse_if(hung or self._in_a_row[kind] >= MOST_DEATHS)
        self.load()

        def where() -> str:
            return f"in a call with {describe_request(request.whole())}"

        try:
            if number not in self._numbers:
                self._remake(number)
            answer: Response = self._ask("call", self._numbers[number], request, where=where)
        except Died as error:
            msg = f"{error} {where()}"
            death = Died(msg)
            death.furthest = int(request.positions.max(initial=-1))
            self.deaths.append(death)
            self._in_a_row[kind] += 1
            if isinstance(error, _Hung):
                self._hung.add(way)
            raise death from None
        self._in_a_row.clear()
        return answer

    def announce(self, number: int, request: Request | ScaledRequest) -> None:
        """As `Engine.announce`."""
        if self._process is not None and number in self._numbers:
            self._process.put(_message("call", self._numbers[number], request))
            self._ahead.append(request)

    def drop(self, number: int) -> None:
        """As `Engine.drop`."""
        self._recipes.pop(number, None)
        if number in self._numbers:
            with contextlib.suppress(Died):
                self._ask("drop", self._numbers.pop(number))

    def restart(self) -> bool:
        """End the process, so that the next call begins a new one, and return True."""
        self.close()
        return True

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.end()
        self._process = None
        for each in (self._ahead, self._early, self._numbers):
            each.clear()

    def _remake(self, number: int) -> None:
        self._refuse_if(self._in_a_row[()] >= MOST_DEATHS)
        self.load()
        try:
            where = "when an instance was made"
            made = self._ask("make", *self._recipes[number], where=lambda: where)
        except Died:
            self._in_a_row[()] += 1
            raise
        if self._process is not None:  # not left since something was replaced in it
            self._numbers[number] = made

    def _ask_once(self, *request: str) -> Any:
        if request not in self._known:
            try:
                self._known[request] = self._ask(*request)
            except Unsupported as error:
                raise Died(str(error)) from None
        return self._known[request]

    def _ask(self, method: str, *values: Any, where: Callable[[], str] = str) -> Any:
        self.load()
        return self._exchange(method, values, self._timeout, where)

    def _exchange(
        self,
        method: str,
        values: tuple[Any, ...],
        seconds: float,
        where: Callable[[], str] = lambda: "when loaded",
    ) -> Any:
        assert self._process is not None
        begin = time.monotonic()
        allowed = max(0.0, min(seconds, self._seconds_left()))
        try:
            outcome, value, replaced = self._outcome(self._process, method, values, allowed)
        except _Ended as error:
            self.close()
            if error.hung and allowed < seconds:
                raise OutOfTime from None
            self._died += 1
            self._lost += time.monotonic() - begin
            raise (_Hung if error.hung else Died)(str(error)) from None
        except BaseException:  # an interrupt: a late answer must not be taken for the next one
            self.close()
            raise
        if replaced:
            self._leave(replaced, where(), renew=method != "load")
        if outcome == ANSWER:
            return value
        if outcome == UNSUPPORTED:
            raise Unsupported(value)
        if outcome == EXHAUSTED:
            text, is_full = value
            if is_full:  # one that leaks has no memory left for the next call
                self.close()
            raise Exhausted(text)
        if outcome == FAILED:
            wrong, text = value
            text += f" (it had replaced {_names(replaced)} {where()})" if replaced else ""
            raise (WrongResult if wrong else ImplementationError)(text)
        raise value

    def _outcome(
        self, process: _Process, method: str, values: tuple[Any, ...], seconds: float
    ) -> _Outcome:
        """Return the outcome of a request, which may be the one that was announced."""
        for place, (request, answer) in enumerate(self._early):
            if request is values[-1]:
                del self._early[place]
                return answer
        if self._ahead and self._ahead[0] is values[-1]:
            self._ahead.popleft()
            return process.get(seconds)
        process.put(_message(method, *values))
        while self._ahead:  # answers come in the order of requests
            self._early.append((self._ahead.popleft(), process.get(seconds)))
        return process.get(seconds)

    def _leave(self, replaced: tuple[str, ...], where: str, *, renew: bool) -> None:
        """Note which functions were replaced, and have the next call made in a new process."""
        self.notes.append(f"it replaced {_names(replaced)} {where}")
        self._renewals += 1
        if renew and self._renewals < MOST_RENEWALS:
            self.close()
        if self._renewals > 1:  # one note is enough
            self.notes.pop()


class _Ended(Exception):
    """A process that gives no answer, and what became of it."""

    hung = False  #: Whether it still ran.


class _Hung(Died):
    """A call that did not return within the timeout."""


class _Printed:
    """Lines that processes print, bounded and made harmless."""

    def __init__(self, echo: Callable[[str], None] | None) -> None:
        self._echo = echo
        self._count = 0
        self.last: deque[bytes] = deque(maxlen=LAST_LINES)

    def add(self, lines: list[bytes]) -> None:
        """Take lines."""
        self.last.extend(lines[-LAST_LINES:])
        if self._echo is None:
            return
        for line in lines[: max(0, MOST_LINES - self._count)]:
            self._echo(_readable(line, MOST_CHARACTERS))
        if self._count <= MOST_LINES < self._count + len(lines):
            self._echo(f"... (what it prints after {MOST_LINES:,} lines is left out)")
        self._count += len(lines)

    def read(self, pipe: Any) -> None:
        """Take lines until a pipe ends; the rest of an endless one is dropped."""
        rest = b""
        with contextlib.suppress(OSError, ValueError), pipe:
            while chunk := os.read(pipe.fileno(), 2**16):
                *lines, rest = (rest + chunk).split(b"\n")
                self.add(lines)
                rest = rest[: 4 * MOST_CHARACTERS + 1]
        if rest:
            self.add([rest])

    def words(self) -> str:
        """Return the last lines of a process that has ended, in brackets."""
        text = "; ".join(_readable(line, LAST_CHARACTERS) for line in self.last)
        return f" ({text})" if text else ""


class _Process:
    """A worker and the threads that write and read its pipes: neither may wait for the other."""

    def __init__(self, printed: _Printed) -> None:
        self._worker = Worker()
        self._printed = printed
        printed.last.clear()
        self._mark = os.urandom(MARK)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write, daemon=True),
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=printed.read, args=(self._worker.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def put(self, request: bytes) -> None:
        """Make a request."""
        self._requests.put(request)

    def get(self, seconds: float) -> _Outcome:
        """Return the outcome of the first request that has not got its own yet."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                answer = self._answers.get(timeout=max(0.0, min(left, GRACE)))
            except queue.Empty:
                if left <= GRACE:
                    self.end()
                    ended = _Ended(f"it did not return within {seconds:g} s")
                    ended.hung = True
                    raise ended from None
                if self._worker.wait(0) is None:
                    continue
                answer = EOFError()  # whatever it started keeps its pipes open
            if isinstance(answer, Exception):
                raise _Ended(self._describe_end(answer))
            outcome: _Outcome = answer
            return outcome

    def end(self) -> int | None:
        """End it, and return its exit code."""
        code = self._worker.end(10)
        self._requests.put(None)
        for thread in self._threads:
            thread.join(1)
        with contextlib.suppress(OSError):
            self._worker.stdin.close()
        return code

    def _describe_end(self, error: Exception) -> str:
        ended = isinstance(error, EOFError | OSError)
        code = self._worker.wait(1) if ended else None
        self.end()
        if isinstance(error, pickle.UnpicklingError):
            words = f"its answer can't be read: {error}"
        elif not ended:
            words = "it wrote into the pipes of its process"
        elif code is None:
            words = "it closed the pipes of its process"
        elif code < 0:
            words = f"its process was killed by {signal.Signals(-code).name}"
            words += ", perhaps for want of memory" if -code == signal.SIGKILL else ""
        else:
            words = f"its process ended with exit code {code}"
        return words + self._printed.words()

    def _write(self) -> None:
        """Write requests, until the worker has ended, which its answers tell."""
        with contextlib.suppress(OSError, ValueError):
            self._worker.stdin.write(self._mark)
            while (request := self._requests.get()) is not None:
                self._worker.stdin.write(request)
                self._worker.stdin.flush()

    def _read(self) -> None:
        """Read answers, until there are no more."""
        with contextlib.suppress(OSError), self._worker.stdout as answers:
            while True:
                try:
                    _skip_to(self._mark, answers)
                    answer = _receive(answers)
                    answer = answer if _is_outcome(answer) else ValueError()
                except Exception as error:
                    answer = error
                self._answers.put(answer)
                if isinstance(answer, Exception):
                    return


def _skip_to(mark: bytes, answers: BufferedReader) -> None:
    """Read past the next mark, and whatever foreign code wrote before it."""
    last = answers.read(len(mark))
    while last != mark:
        following = answers.read(1)
        if not following:
            raise EOFError
        last = last[1:] + following


def _receive(answers: BufferedReader) -> Any:
    """Return an answer, which the numbers of its arrays go before."""
    arrays = [np.empty(size, dtype=np.uint8) for size in _Unpickler(answers).load()]
    for each in arrays:
        if answers.readinto(each.data) < each.size:
            raise EOFError
    return _Unpickler(answers, buffers=arrays).load()


class _Unpickler(pickle.Unpickler):
    """Reads answers."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] not in PLAIN and (module, name) != ("builtins", "complex"):
            raise pickle.UnpicklingError(f"an answer holds {module}.{name}")
        return super().find_class(module, name)


def _message(method: str, *values: Any) -> bytes:
    return pickle.dumps((method, values), protocol=5)


def _is_outcome(answer: object) -> bool:
    return isinstance(answer, tuple) and len(answer) == 3


def _readable(line: bytes, most: int) -> str:
    text = line[: 4 * most].decode(errors="replace").rstrip("\r")
    return escape_unprintable(text[:most]) + ("..." if len(text) > most else "")


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def describe_request(request: Request) -> str:
    """Describe a call: "x of float32 (1, 2, 16, 64), positions 0 to 15"."""
    places = request.positions
    where = f"positions {places.min()} to {places.max()}" if places.size else "no positions"
    memory = "" if request.memory == "contiguous" else f" {request.memory}"
    shape = tuple(request.q.shape)
    return f"x of {request.q.dtype.name} {shape}{memory}, {where}"
