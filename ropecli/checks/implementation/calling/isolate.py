"""An implementation in a process of its own, which may crash, hang, or run out of memory.

Requests (method, arguments) and answers are pickles that go through a socket; what the
implementation prints goes into a pipe. The process leads a session, all of which ends with it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import pickle
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from ropecli.checks.implementation.call import Exhausted, ImplementationError, Unsupported
from ropecli.checks.implementation.calling.foreign import (
    describe_exception,
    escape_unprintable,
    memory_in_use,
)
from ropecli.errors import RopecliError

#: Set in a worker, to a word of its own: code that is loaded there and calls `check` itself must
#: not start another one, and folders that it leaves are found by the word.
IN_WORKER = "ROPECLI_WORKER"
FOLDER = "ropecli-"  #: How the name of a folder for the files of a program begins.
LAST_LINES, LAST_CHARACTERS = 3, 200  #: Of what a process printed that are shown when it dies.
MOST_LINES, MOST_CHARACTERS = 1000, 1000  #: Of what it prints that are passed on.
HEADER = 8  #: Bytes of a message that hold its size.
SHARE = 0.5  #: Of the machine's memory that a worker may use.
OUT_OF_REACH = 2048  #: Descriptor of its socket, above those that foreign code closes or writes to.
PR_SET_PDEATHSIG = 1  #: Of Linux.
#: Where the user sets nothing else: arrays keep their pages, since a new page costs as much time as
#: the numbers in it; threads of OpenMP sleep between calls, in place of waiting for the next one.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    "OMP_WAIT_POLICY": "PASSIVE",
}


class Ended(Exception):
    """A process that gives no answer, and what became of it."""

    hung = False  #: Whether it still ran.


class Printed:
    """Lines that processes print, bounded and made harmless."""

    def __init__(self, echo: Callable[[str], None] | None) -> None:
        self._echo = echo or (lambda _: None)
        self._count = 0
        self.last: deque[bytes] = deque(maxlen=LAST_LINES)

    def read(self, pipe: Any) -> None:
        """Take lines until a pipe ends; the rest of an endless one is dropped."""
        answer = b""
        with contextlib.suppress(OSError, ValueError), pipe:
            while chunk := os.read(pipe.fileno(), 2**16):
                *lines, answer = (answer + chunk).split(b"\n")
                self._add(lines)
                answer = answer[: 4 * MOST_CHARACTERS + 1]
        self._add([answer] if answer else [])

    def _add(self, lines: list[bytes]) -> None:
        self.last.extend(lines[-LAST_LINES:])
        for line in lines[: max(0, MOST_LINES - self._count)]:
            self._echo(_readable(line, MOST_CHARACTERS))
        if self._count <= MOST_LINES < self._count + len(lines):
            self._echo(f"... (what it prints after {MOST_LINES:,} lines is left out)")
        self._count += len(lines)

    def words(self) -> str:
        """Return the last lines of a process that has ended, in brackets."""
        text = "; ".join(_readable(line, LAST_CHARACTERS) for line in self.last)
        return f" ({text})" if text else ""


class Process:
    """A process that has an implementation once it is asked to "load" it."""

    def __init__(self, printed: Printed) -> None:
        self._printed = printed
        printed.last.clear()
        self._word = secrets.token_hex(8)
        self._is_busy = False
        self._socket, other = socket.socketpair()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", code],
                stdin=other.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**ENVIRONMENT, **os.environ, IN_WORKER: self._word},
            )
        self._threads = [
            threading.Thread(target=printed.read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._end_children, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, method: str, *values: Any, seconds: float) -> Any:
        """Return the answer to a request."""
        end = time.monotonic() + seconds
        try:
            self._is_busy = True
            self._send(pickle.dumps((method, values), protocol=5), end)
            answer = self._receive(int.from_bytes(self._receive(HEADER, end)), end)
            self._is_busy = False
            return pickle.loads(answer)
        except TimeoutError:
            self.end()
            ended = Ended(f"it did not return within {seconds:g} s")
            ended.hung = True
            raise ended from None
        except Exception as error:  # what foreign code sends may raise anything
            raise Ended(self._describe_end(error)) from None

    def _send(self, request: bytes, end: float) -> None:
        self._socket.settimeout(_seconds_until(end))
        self._socket.sendall(len(request).to_bytes(HEADER) + request)

    def _receive(self, size: int, end: float) -> bytearray:
        """Return the next bytes of an answer."""
        answer = bytearray(size)
        remaining = memoryview(answer)
        while remaining:
            self._socket.settimeout(_seconds_until(end))
            count = self._socket.recv_into(remaining)
            if not count:
                raise EOFError("its socket was closed")
            remaining = remaining[count:]
        return answer

    def _end_children(self) -> None:
        """Once the process has ended, end what it started: that keeps its pipes open."""
        self._process.wait()
        self._kill_session()

    def _kill_session(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> int | None:
        """End it with all that it started, and return its exit code."""
        if self._process.poll() is None:  # otherwise its number may be another process's by now
            self._kill_session()
        for thread in self._threads:
            thread.join(10)  # a process that waits for a device does not end
        if self._is_busy:  # with a program, perhaps, whose files are left then
            for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER}{self._word}-*"):
                shutil.rmtree(folder, ignore_errors=True)
        self._socket.close()
        return self._process.returncode

    def _describe_end(self, error: Exception) -> str:
        if isinstance(error, EOFError | OSError):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        running = self._process.poll() is None
        code = self.end()
        if running or code is None:
            words = f"its answer can't be read: {describe_exception(error)}"
        elif code < 0:
            words = f"its process was killed by {_signal_name(-code)}"
            words += ", possibly out of memory" if -code == signal.SIGKILL else ""
        else:
            words = f"its process ended with exit code {code}"
        return words + self._printed.words()


def serve() -> NoReturn:
    """Answer the requests that come by stdin until it ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        with contextlib.suppress(OSError):  # end before others where memory is short
            Path("/proc/self/oom_score_adj").write_text("1000")
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    descriptor = _copy_out_of_reach(0)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    requests, answers = os.fdopen(descriptor, "rb"), os.fdopen(descriptor, "wb", closefd=False)
    sys.stdout = sys.stderr  # passes each line on at once, and takes every character
    pid, engine = os.getpid(), None
    while size := requests.read(HEADER):
        method, values = pickle.loads(requests.read(int.from_bytes(size)))
        try:
            if method == "load":
                source, gigabytes = values
                _bound_memory(gigabytes)
                engine, answer = source.engine(), None
            else:
                answer = getattr(engine, method)(*values)
            message = pickle.dumps(answer, protocol=5)
        except (Exhausted, MemoryError) as error:
            used, limit = memory_in_use()
            exhausted = Exhausted(str(error) or "MemoryError")
            exhausted.is_full = 2 * used > limit
            message = pickle.dumps(exhausted)
        except (ImplementationError, Unsupported, RopecliError) as error:
            message = pickle.dumps(error)
        except (Exception, KeyboardInterrupt, GeneratorExit) as error:
            message = pickle.dumps(ImplementationError(describe_exception(error)))
        if os.getpid() != pid:  # a child that foreign code forked, and that came back from it
            break
        answers.write(len(message).to_bytes(HEADER))
        answers.write(message)
        answers.flush()
    os._exit(0)  # whatever threads and exit handlers foreign code has left


def _copy_out_of_reach(descriptor: int) -> int:
    """Return a descriptor's copy with a high number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(limit for limit in (2 * OUT_OF_REACH, hard) if limit >= 0)
    if 0 <= soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, most // 2)


def _bound_memory(gigabytes: float | None) -> None:
    """Turn a call that needs more data than the limit into a MemoryError."""
    with contextlib.suppress(OSError, ValueError):
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted = int(SHARE * machine if gigabytes is None else 1e9 * gigabytes)
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        least = min(limit for limit in (wanted, soft, hard) if limit >= 0)
        resource.setrlimit(resource.RLIMIT_DATA, (least, hard))


def _seconds_until(end: float) -> float:
    """Return a timeout of a socket, for which 0 has another meaning."""
    return max(0.001, end - time.monotonic())


def _signal_name(number: int) -> str:
    """Return the name of a signal; those of real time have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _readable(line: bytes, most: int) -> str:
    text = line[: 4 * most].decode(errors="replace").rstrip("\r")
    return escape_unprintable(text[:most]) + ("..." if len(text) > most else "")
