"""New worker processes.

On Linux they are forked from a process that has imported what they need and never runs foreign
code: a worker starts in some 10 ms, and as clean as the first. That process is kept as long as
this one lives. Elsewhere each worker is a new interpreter.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any, NoReturn, Protocol

#: Imported before workers are forked if this process has it: the one that takes seconds.
SLOW_TO_IMPORT = "torch"
PIPE = 2**20  #: Bytes that a pipe holds.
#: Arrays of a call are made in memory that the C library keeps: a new page costs
#: as much time as the numbers in it.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(2**30), "MALLOC_TRIM_THRESHOLD_": str(2**30)}
MESSAGE = 2**17  #: Bytes of the longest message to the process that forks.
PR_SET_CHILD_SUBREAPER = 36  #: Of Linux.
UNLIKE = "PYTEST_CURRENT_TEST"  #: A variable that differs from test to test, and means nothing.


class Worker(Protocol):
    """A worker process."""

    stdin: BufferedWriter
    stdout: BufferedReader
    stderr: BufferedReader

    def kill(self) -> None:
        """End it, and the processes that it started."""

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, negative for a signal; None if it has not ended by then."""

    def release(self) -> None:
        """Give back what it took in this process, after it has ended."""


def start_worker() -> Worker:
    """Start a worker process."""
    global _forker  # noqa: PLW0603 - one for each process
    if not sys.platform.startswith("linux"):
        return _Started()
    with _lock:
        environment = {name: value for name, value in os.environ.items() if name != UNLIKE}
        if _forker is not None and _forker.environment != environment:
            _forker.close()
            _forker = None
        for attempt in range(2):  # somebody may have ended it
            if _forker is None:
                _forker = _Forker(environment)
            try:
                return _forker.fork()
            except (OSError, EOFError):
                _forker.close()
                _forker = None
                if attempt:
                    raise
            except BaseException:  # an interrupt: an answer is under way
                _forker.close()
                _forker = None
                raise
    raise AssertionError


class _Pipes:
    """Pipes to a worker: this side's ends, and the numbers of the other side's."""

    def __init__(self) -> None:
        pairs = [os.pipe() for _ in range(4)]
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux: otherwise a call's arrays go in 64 KiB at once
            for _, end in pairs[:2]:
                with contextlib.suppress(OSError):  # a user may have but so much
                    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE)
        (there_in, here_in), (here_out, there_out), (here_err, there_err), (end, alive) = pairs
        self.there = (there_in, there_out, there_err, end)
        self.stdin = os.fdopen(here_in, "wb")
        self.stdout = os.fdopen(here_out, "rb")
        self.stderr = os.fdopen(here_err, "rb")
        self.lifeline = alive

    def close_other_side(self) -> None:
        """Close the ends that the worker has."""
        for each in self.there:
            os.close(each)

    def release(self) -> None:
        """Close what no thread reads."""
        with contextlib.suppress(OSError):
            self.stdin.close()
        with contextlib.suppress(OSError):
            os.close(self.lifeline)


class _Started(_Pipes):
    """A worker that is a new interpreter."""

    def __init__(self) -> None:
        super().__init__()
        stdin, stdout, stderr, end = self.there
        try:
            self._process = subprocess.Popen(
                _command("worker", end),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(end,),
                start_new_session=True,
            )
        finally:
            self.close_other_side()

    def kill(self) -> None:
        """As `Worker.kill`."""
        _kill(self._process.pid)

    def wait(self, seconds: float) -> int | None:
        """As `Worker.wait`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None


class _Forked(_Pipes):
    """A worker that was forked."""

    def __init__(self, forker: _Forker) -> None:
        super().__init__()
        self._forker = forker
        modules = (SLOW_TO_IMPORT,) if SLOW_TO_IMPORT in sys.modules else ()
        try:
            self._pid: int = forker.ask(
                "fork", str(Path.cwd()), sys.path, modules, handles=self.there
            )
        finally:
            self.close_other_side()
        self._code: int | None = None

    def kill(self) -> None:
        """As `Worker.kill`."""
        if self._code is None:
            _kill(self._pid)

    def wait(self, seconds: float) -> int | None:
        """As `Worker.wait`."""
        if self._code is None:
            try:
                with _lock:
                    self._code = self._forker.ask("wait", self._pid, seconds)
            except (OSError, EOFError):  # the process that forks has ended
                self._code = -signal.SIGKILL
        return self._code


class _Forker:
    """The process that forks workers, seen from this one."""

    def __init__(self, environment: dict[str, str]) -> None:
        self.environment = environment
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                _command("launch", there.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(there.fileno(),),
                start_new_session=True,
                env=KEEP_MEMORY | environment,
            )

    def fork(self) -> _Forked:
        return _Forked(self)

    def ask(self, *message: Any, handles: tuple[int, ...] = ()) -> Any:
        socket.send_fds(self._socket, [pickle.dumps(message)], handles)
        answer = self._socket.recv(MESSAGE)
        if not answer:
            raise EOFError
        return pickle.loads(answer)

    def close(self) -> None:
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # it ends what workers left behind
        self._process.kill()
        self._process.wait()


_lock = threading.RLock()
_forker: _Forker | None = None


@atexit.register
def _close() -> None:
    if _forker is not None:
        _forker.close()


def _forget() -> None:
    """In a process that was forked from this one, leave the workers to the other."""
    global _forker, _lock
    _forker, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def _command(module: str, number: int) -> list[str]:
    """Return the command that runs `main` of a module here, and finds ropecli where this one is."""
    line = f"from {__package__}.{module} import main; main({number})"
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {line}"]


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def main(number: int) -> NoReturn:
    """Fork workers for the process at the other end of a socket, until it ends."""
    from ropecli.checks.implementation.calling import worker

    gc.freeze()  # otherwise a worker's first collection copies the pages of all modules
    channel = socket.socket(fileno=number)
    _adopt_orphans()
    workers: set[int] = set()
    while True:
        data, handles, _, _ = socket.recv_fds(channel, MESSAGE, 4)
        if not data:
            _end_children(but=set())
            os._exit(0)
        method, *values = pickle.loads(data)
        if method == "wait":
            code = _wait(*values)
            if code is not None:
                workers.discard(values[0])
                _end_children(but=workers)
            channel.send(pickle.dumps(code))
            continue
        folder, path, modules = values
        for module in modules:
            with contextlib.suppress(Exception):  # the worker will say so
                importlib.import_module(module)
        with warnings.catch_warnings():  # of NumPy's threads, which expect forks
            warnings.simplefilter("ignore")
            pid = os.fork()
        if not pid:
            channel.close()
            os.setsid()
            _adopt_orphans()
            for target, handle in enumerate(handles[:3]):
                os.dup2(handle, target)
                os.close(handle)
            with contextlib.suppress(OSError):  # removed meanwhile
                os.chdir(folder)
            sys.path[:] = path
            try:
                worker.main(handles[3])
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(1)
        workers.add(pid)
        for handle in handles:
            os.close(handle)
        channel.send(pickle.dumps(pid))


def _adopt_orphans() -> None:
    """Become the parent of processes below this one whose own has ended, daemons too."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_children(*, but: set[int]) -> None:
    """End the children of this process, and those that it then adopts."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):  # no /proc, or a process of another user
        while children := {*map(int, listed.read_text().split())} - but:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _wait(pid: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)
