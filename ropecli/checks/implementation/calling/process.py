"""A worker process from its parent's side: requests go in, answers and printed lines come out."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from io import BufferedReader
from typing import Any

import numpy as np

from ropecli.checks.implementation.calling.foreign import escape_unprintable
from ropecli.checks.implementation.calling.launch import Worker
from ropecli.checks.implementation.calling.worker import MARK

LAST_LINES = 3  #: Lines of what a process printed that are shown when it dies.
MOST_LINES = 1000  #: Printed lines that are passed on.
MOST_CHARACTERS = 1000  #: Characters of each line that is passed on.
LAST_CHARACTERS = 200  #: Characters of a line that is shown when it dies.
POLL = 0.5  #: Seconds between looks whether a process lives whose pipe has no answer.
#: Packages of what answers are made of: plain data, for which no foreign module is imported.
PLAIN = {"ropecli", "numpy", "ml_dtypes", "collections", "_codecs"}

Outcome = tuple[Any, tuple[str, ...]]  #: An answer of `worker.serve`.


class Ended(Exception):
    """A process that gives no answer, and what became of it."""

    hung = False  #: Whether it still ran.


class Printed:
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


class Process:
    """A worker and the threads that write and read its pipes: neither may wait for the other."""

    def __init__(self, printed: Printed) -> None:
        self._worker = Worker()
        self._printed = printed
        printed.last.clear()
        self._mark = os.urandom(MARK)
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        #: What was announced, and what of it was answered before it was asked for.
        self._ahead: deque[Any] = deque()
        self._early: list[tuple[Any, Outcome]] = []
        self._threads = [
            threading.Thread(target=self._write, daemon=True),
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=printed.read, args=(self._worker.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def announce(self, *request: Any) -> None:
        """Make a request, whose last value is that of one for which `ask` waits later."""
        self._ahead.append(request[-1])
        self._put(request)

    def ask(self, *request: Any, seconds: float) -> Outcome:
        """Return the outcome of a request, which may be the one that was announced."""
        for place, (announced, outcome) in enumerate(self._early):
            if announced is request[-1]:
                del self._early[place]
                return outcome
        if self._ahead and self._ahead[0] is request[-1]:
            self._ahead.popleft()
            return self._get(seconds)
        self._put(request)
        while self._ahead:  # answers come in the order of requests
            self._early.append((self._ahead.popleft(), self._get(seconds)))
        return self._get(seconds)

    def _put(self, request: tuple[Any, ...]) -> None:
        method, *values = request
        self._requests.put(pickle.dumps((method, values), protocol=5))

    def _get(self, seconds: float) -> Outcome:
        """Return the outcome of the first request that has not got its own yet."""
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            try:
                answer = self._answers.get(timeout=max(0.0, min(left, POLL)))
            except queue.Empty:
                if left <= POLL:
                    self.end()
                    ended = Ended(f"it did not return within {seconds:g} s")
                    ended.hung = True
                    raise ended from None
                if self._worker.wait(0) is None:
                    continue
                answer = EOFError()  # whatever it started keeps its pipes open
            if isinstance(answer, Exception):
                raise Ended(self._describe_end(answer))
            outcome: Outcome = answer
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
            words = f"its process was killed by {_signal_name(-code)}"
            words += ", possibly out of memory" if -code == signal.SIGKILL else ""
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
                    if not isinstance(answer, tuple) or len(answer) != 2:
                        answer = ValueError()
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


def _signal_name(number: int) -> str:
    """Return the name of a signal; those of real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _readable(line: bytes, most: int) -> str:
    text = line[: 4 * most].decode(errors="replace").rstrip("\r")
    return escape_unprintable(text[:most]) + ("..." if len(text) > most else "")
