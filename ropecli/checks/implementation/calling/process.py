"""The engine in a process of its own, which may crash, hang, exit or print."""

from __future__ import annotations

import contextlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ropecli.checks.implementation.calling.foreign import escape_unprintable
from ropecli.checks.implementation.calling.worker import ANSWER, FAILED, UNSUPPORTED
from ropecli.checks.implementation.interface import ImplementationError, Unsupported, WrongResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from ropecli.checks.implementation.calling.convention import Convention
    from ropecli.checks.implementation.calling.request import Request, Response
    from ropecli.checks.implementation.calling.source import Source
    from ropecli.rotary.rotary import Rotary

TIMEOUT = 60.0  #: Seconds for one call.
LOADING = 5  #: Times as many for loading the implementation, and for the first call of a process.
#: Times the timeout that calls may cost which end their process, before no further one is made.
PATIENCE = 3
LAST_LINES = 3  #: Of what a process printed, shown when it dies.


class Died(ImplementationError):
    """The process of the implementation crashed, exited or hung."""


class IsolatedEngine:
    """The methods of `Engine`, each done in another process.

    A process that dies is replaced by the next call, and instances are made anew from what they
    were made of.
    """

    def __init__(
        self, source: Source, *, timeout: float = TIMEOUT, echo: Callable[[str], None] | None = None
    ) -> None:
        """Start a process.

        Args:
            source: Where the implementation is.
            timeout: Seconds for one call.
            echo: Takes each line that the process prints, with control characters escaped.

        Raises:
            RopecliError: The implementation can't be loaded.
        """
        self._source = source
        self._timeout = timeout
        self._echo = echo
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._printed: deque[str] = deque(maxlen=LAST_LINES)
        self._recipes: dict[int, tuple[Any, ...]] = {}
        self._numbers: dict[int, int] = {}  # of the instances in the process of today
        self._lost = 0.0  # seconds, in calls that ended a process
        self._deaths = 0

    def dtypes(self, framework: str) -> tuple[str, ...]:
        """As `Engine.dtypes`."""
        found: tuple[str, ...] = self._ask("dtypes", framework)
        return found

    def describe(self) -> Any:
        """As `Engine.describe`."""
        return self._ask("describe")

    def make(self, convention: Convention, rope: Rotary, context: int) -> int:
        """As `Engine.make`."""
        number = 1 + max(self._recipes, default=0)
        self._recipes[number] = (convention, rope, context)
        try:
            self._numbers[number] = self._ask("make", convention, rope, context)
        except BaseException:
            del self._recipes[number]
            raise
        return number

    def call(self, number: int, request: Request) -> Response:
        """As `Engine.call`.

        Raises:
            Died: The process crashed, exited, or took longer than the timeout.
        """
        try:
            self._start()
            if number not in self._numbers:
                self._numbers[number] = self._ask("make", *self._recipes[number])
            answer: Response = self._ask("call", self._numbers[number], request)
        except Died as error:
            msg = f"{error} in a call with {describe_request(request)}"
            raise Died(msg) from None
        return answer

    def drop(self, number: int) -> None:
        """As `Engine.drop`."""
        self._recipes.pop(number, None)
        if number in self._numbers:
            with contextlib.suppress(Died):
                self._ask("drop", self._numbers.pop(number))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
                with contextlib.suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        self._process = None
        self._numbers.clear()

    def _start(self) -> None:
        if self._process is not None:
            return
        if self._lost >= PATIENCE * self._timeout:
            msg = f"no further call was made: its process died {self._deaths} times"
            raise Died(msg)
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {_WORKER} import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._answers = queue.SimpleQueue()
        self._printed.clear()
        for work in (_read_answers, _read_lines):
            pipe = self._process.stdout if work is _read_answers else self._process.stderr
            into = self._answers.put if work is _read_answers else self._print
            threading.Thread(target=work, args=(pipe, into), daemon=True).start()
        self._exchange("load", (self._source,), LOADING * self._timeout)

    def _print(self, line: str) -> None:
        self._printed.append(line)
        if self._echo is not None:
            self._echo(line)

    def _ask(self, method: str, *values: Any) -> Any:
        self._start()
        return self._exchange(method, values, self._timeout)

    def _exchange(self, method: str, values: tuple[Any, ...], seconds: float) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        begin = time.perf_counter()
        try:
            self._process.stdin.write(pickle.dumps((method, values), protocol=5))
            self._process.stdin.flush()
            outcome, value = self._answers.get(timeout=seconds)
        except queue.Empty:
            self._bury(begin)
            msg = f"it did not return within {seconds:g} s"
            raise Died(msg) from None
        except (OSError, EOFError, TypeError):  # TypeError: None, put where answers end
            raise Died(self._bury(begin)) from None
        except BaseException:  # an interrupt: a late answer must not be taken for the next one
            self.close()
            raise
        if outcome == ANSWER:
            return value
        if outcome == UNSUPPORTED:
            raise Unsupported(value)
        if outcome == FAILED:
            wrong, text = value
            raise (WrongResult if wrong else ImplementationError)(text)
        raise value

    def _bury(self, begin: float) -> str:
        """End a process that gives no answer, and return what became of it."""
        self._deaths += 1
        self._lost += time.perf_counter() - begin
        process = self._process
        assert process is not None
        try:
            code: int | None = process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            code = None
        last = "; ".join(self._printed)
        self.close()
        if code is not None and code < 0:
            words = f"its process was killed by {signal.Signals(-code).name}"
        else:
            words = f"its process ended with exit code {code}"
        return words + (f" ({last})" if last else "")


_WORKER = "ropecli.checks.implementation.calling.worker"


def describe_request(request: Request) -> str:
    """Describe a call: "x of float32 (1, 2, 16, 64), positions 0 to 15"."""
    places = request.positions
    where = f"positions {places.min()} to {places.max()}" if places.size else "no positions"
    memory = "" if request.memory == "contiguous" else f" {request.memory}"
    shape = tuple(request.q.shape)
    return f"x of {request.q.dtype.name} {shape}{memory}, {where}"


def _read_answers(pipe: Any, put: Callable[[Any], None]) -> None:
    try:
        while True:
            put(pickle.load(pipe))
    except Exception:  # the pipe ends, or foreign code wrote into it
        put(None)


def _read_lines(pipe: Any, put: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError, ValueError):
        for line in pipe:
            put(escape_unprintable(line.decode(errors="replace").rstrip("\r\n")))
