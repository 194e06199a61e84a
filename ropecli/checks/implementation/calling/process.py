"""A worker process from its parent's side: requests go in, answers and printed lines come out."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from io import BufferedReader, RawIOBase
from typing import Any

import numpy as np

from ropecli.checks.implementation.calling.foreign import escape_unprintable
from ropecli.checks.implementation.calling.launch import Worker
from ropecli.checks.implementation.calling.worker import MARK

LAST_LINES = 3  #: Lines of what a process printed that are shown when it dies.
MOST_LINES = 1000  #: Printed lines that are passed on.
MOST_CHARACTERS = 1000  #: Characters of each line that is passed on.
LAST_CHARACTERS = 200  #: Characters of a line that is shown when it dies.
MOST_BYTES = 2**30  #: Of one read, which macOS bounds.
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


class _Pipes(RawIOBase):
    """The answers of a worker, as a stream that writes requests while it waits for them.

    Neither process waits for the other to read: a request that its pipe does not take at once is
    sent on with the next one, or while an answer is awaited.
    """

    def __init__(self, worker: Worker) -> None:
        self.end = 0.0  #: By `time.monotonic`, when waiting for an answer ends.
        self._worker = worker
        self._requests, self._answers = worker.stdin.fileno(), worker.stdout.fileno()
        self._unsent: deque[memoryview] = deque()
        os.set_blocking(self._requests, False)

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def send(self, request: bytes) -> None:
        """Write what the pipe takes now of a request, and the rest later."""
        self._unsent.append(memoryview(request))
        self._write()

    def readinto(self, buffer: Any) -> int:
        """Wait for bytes of an answer.

        Raises:
            TimeoutError: The time is over, and the worker lives.
        """
        while True:
            waiting = select.poll()
            waiting.register(self._answers, select.POLLIN)
            if self._unsent:
                waiting.register(self._requests, select.POLLOUT)
            left = self.end - time.monotonic()
            if left < -POLL:  # whatever it writes is no answer
                raise TimeoutError
            ready = [number for number, _ in waiting.poll(1000 * max(0.0, min(left, POLL)))]
            if self._requests in ready:
                self._write()
            if self._answers in ready:
                return os.readv(self._answers, [memoryview(buffer)[:MOST_BYTES]])
            if not ready and self._worker.wait(0) is not None:
                return 0  # whatever it started keeps its pipes open
            if not ready and left <= POLL:
                raise TimeoutError

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = os.write(self._requests, self._unsent[0])
                if rest := self._unsent.popleft()[sent:]:
                    self._unsent.appendleft(rest)
        except BlockingIOError:
            return
        except OSError:  # it reads no more, as its answers will tell
            self._unsent.clear()


class Process:
    """A worker, its requests and its answers, and a thread that reads what it prints."""

    def __init__(self, printed: Printed) -> None:
        self._worker = Worker()
        self._printed = printed
        printed.last.clear()
        self._mark = os.urandom(MARK)
        self._pipes = _Pipes(self._worker)
        self._answers = BufferedReader(self._pipes)
        #: What was announced, and what of it was answered before it was asked for.
        self._ahead: deque[Any] = deque()
        self._early: list[tuple[Any, Outcome]] = []
        self._thread = threading.Thread(
            target=printed.read, args=(self._worker.stderr,), daemon=True
        )
        self._thread.start()
        self._pipes.send(self._mark)

    def announce(self, *request: Any) -> None:
        """Make a request, whose last value is that of one for which `ask` waits later."""
        self._ahead.append(request[-1])
        self._send(request)

    def ask(self, *request: Any, seconds: float) -> Outcome:
        """Return the outcome of a request, which may be the one that was announced."""
        for place, (announced, outcome) in enumerate(self._early):
            if announced is request[-1]:
                del self._early[place]
                return outcome
        if self._ahead and self._ahead[0] is request[-1]:
            self._ahead.popleft()
            return self._receive(seconds)
        self._send(request)
        while self._ahead:  # answers come in the order of requests
            self._early.append((self._ahead.popleft(), self._receive(seconds)))
        return self._receive(seconds)

    def _send(self, request: tuple[Any, ...]) -> None:
        method, *values = request
        self._pipes.send(pickle.dumps((method, values), protocol=5))

    def _receive(self, seconds: float) -> Outcome:
        """Return the outcome of the first request that has not got its own yet."""
        self._pipes.end = time.monotonic() + seconds
        try:
            _skip_to(self._mark, self._answers)
            answer = _read_answer(self._answers)
        except TimeoutError:
            self.end()
            ended = Ended(f"it did not return within {seconds:g} s")
            ended.hung = True
            raise ended from None
        except Exception as error:
            raise Ended(self._describe_end(error)) from None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise Ended(self._describe_end(ValueError()))
        outcome: Outcome = answer
        return outcome

    def end(self) -> int | None:
        """End it, and return its exit code."""
        code = self._worker.end(10)
        self._thread.join(1)
        for pipe in (self._worker.stdin, self._worker.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
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


def _skip_to(mark: bytes, answers: BufferedReader[_Pipes]) -> None:
    """Read past the next mark, and whatever foreign code wrote before it."""
    last = answers.read(len(mark))
    while last != mark:
        following = answers.read(1)
        if not following:
            raise EOFError
        last = last[1:] + following


def _read_answer(answers: BufferedReader[_Pipes]) -> Any:
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
