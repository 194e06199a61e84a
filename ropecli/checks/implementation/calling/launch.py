"""New worker processes, each below a process of ours that ends with it all that it started."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any, NoReturn

PIPE = 2**20  #: Bytes that a pipe holds.
#: Where the user sets nothing else.
ENVIRONMENT = {
    # Arrays of a call are made in memory that the C library keeps: a new page costs as much time as
    # the numbers in it.
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**30),
    # Threads of OpenMP, and so PyTorch's, sleep between calls: they spend 5 times the calls' time
    # in waiting for the next one, and take the core on which results are compared.
    "OMP_WAIT_POLICY": "PASSIVE",
}
FIRST_FREE = 3  #: Descriptor after those of the standard streams.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36  #: Of Linux.
_lifelines: weakref.WeakSet[Any] = weakref.WeakSet()  #: Pipes that end workers when they close.


def _leave_workers() -> None:
    """In a process that was forked from this one, let the workers end with the other."""
    for each in [*_lifelines]:
        each.close()


os.register_at_fork(after_in_child=_leave_workers)


class Worker:
    """A worker process, with pipes for its standard streams."""

    def __init__(self) -> None:
        end, alive = (_above_streams(each) for each in os.pipe())
        self._lifeline = os.fdopen(alive, "wb")
        _lifelines.add(self._lifeline)
        line = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main({end})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", line],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(end,),
                start_new_session=True,
                env={**ENVIRONMENT, **os.environ},
            )
        except BaseException:
            self._lifeline.close()
            raise
        finally:
            os.close(end)
        pipes: list[Any] = [self._process.stdin, self._process.stdout, self._process.stderr]
        self.stdin, self.stdout, self.stderr = pipes
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Linux: otherwise a call's arrays go in 64 KiB at once
            for pipe in pipes[:2]:
                with contextlib.suppress(OSError):  # the user's quota of pipes is exceeded
                    fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE)

    def wait(self, seconds: float) -> int | None:
        """Return its exit code, negative for a signal; None if it has not ended by then."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(seconds)
        return None

    def end(self, seconds: float) -> int | None:
        """End it, and the processes that it started; return as `wait`."""
        with contextlib.suppress(OSError, ValueError):  # it has ended, or is ended once more
            self._lifeline.write(b"\0")  # a process that was forked meanwhile may keep a copy open
            self._lifeline.close()
        return self.wait(seconds)


def main(lifeline: int) -> NoReturn:
    """Run a worker until it ends, or the process at the other end of a pipe."""
    _set_process_option(PR_SET_CHILD_SUBREAPER, 1)  # the parent of daemons that it leaves
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    worker = os.fork()  # before anything that starts threads is imported
    if not worker:
        try:
            os.close(lifeline)
            os.setsid()
            _set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)
            from ropecli.checks.implementation.calling.worker import serve

            serve()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        os._exit(1)
    for stream in range(FIRST_FREE):
        os.close(stream)

    def end_with_parent() -> None:
        os.read(lifeline, 1)
        os.kill(worker, signal.SIGKILL)

    threading.Thread(target=end_with_parent, daemon=True).start()
    _, status = os.waitpid(worker, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, signal.SIGKILL)
    _end_children()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        with contextlib.suppress(OSError):  # of SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _above_streams(descriptor: int) -> int:
    """Return a descriptor that is not one of a standard stream, which this process may lack."""
    if descriptor >= FIRST_FREE:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, FIRST_FREE)
    os.close(descriptor)
    return moved


def _set_process_option(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _end_children() -> None:
    """End the children of this process, and those that it then adopts."""
    listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    with contextlib.suppress(OSError):  # no /proc, or a process of another user
        while children := [*map(int, listed.read_text().split())]:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
