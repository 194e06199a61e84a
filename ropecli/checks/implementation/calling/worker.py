"""A process that runs an implementation for its parent, over pipes.

Messages are pickles: (method, arguments) in, (answer or error, what was replaced) out. Before an
answer go a mark, the sizes of its arrays, bytes, and then the arrays. What the implementation
prints goes to stderr, from whatever language, so that it cannot disturb them; what it writes into
every descriptor that it finds is skipped up to the mark.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import json
import math
import os
import pickle
import resource
import sys
from operator import is_
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ropecli.checks.implementation.call import Exhausted, ImplementationError, Unsupported
from ropecli.checks.implementation.calling.foreign import describe_exception, memory_in_use
from ropecli.errors import RopecliError

#: Set in a worker: code that is loaded there and calls `check` itself must not start another.
IN_WORKER = "ROPECLI_WORKER"
MARK = 16  #: Random bytes, sent first, that begin each answer.
SHARE = 0.5  #: Of the machine's memory that a worker may use.
OUT_OF_REACH = 512  #: First number of the pipes, above those that foreign code closes or writes to.
_all, _map = all, map  # before foreign code replaces them
WATCHED = (builtins, json, math, np, np.linalg, pickle)


def serve() -> NoReturn:
    """Serve one parent, over stdin and stdout, until it closes them."""
    requests = os.fdopen(_move_out_of_reach(os.dup(0)), "rb")
    answers = os.fdopen(_move_out_of_reach(os.dup(1)), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin, sys.stdout, sys.stderr = (
        _open_stream(0, "r"),
        _open_stream(1, "w"),
        _open_stream(2, "w"),
    )
    _end_first_without_memory()
    os.environ[IN_WORKER] = "1"
    # Before foreign code replaces them.
    dump, load, leave, number = pickle.dumps, pickle.load, os._exit, os.getpid
    own = number()
    served = _Served()
    mark = requests.read(MARK)
    while True:
        try:
            method, values = load(requests)
        except EOFError:
            leave(0)  # whatever threads and exit handlers foreign code has left
        arrays: list[pickle.PickleBuffer] = []
        answer = served.answer(method, values), served.find_replaced()
        data = dump(answer, protocol=5, buffer_callback=arrays.append)
        parts = [each.raw() for each in arrays]
        if number() != own:  # a child that foreign code forked, and that came back from the call
            leave(0)
        try:
            answers.write(mark + dump([part.nbytes for part in parts]))
            for part in parts:
                answers.write(part)
            answers.write(data)
            answers.flush()
        except BrokenPipeError:  # foreign code wrote into it, so that it is not read any more
            leave(0)


def _open_stream(number: int, mode: str) -> Any:
    """Return a standard stream that passes lines on at once, and takes every character."""
    return os.fdopen(number, mode, buffering=1, errors="backslashreplace", closefd=False)


class _Served:
    """The engine of this process, once it is loaded."""

    def __init__(self) -> None:
        self._engine: Any = None
        self._known = [_Names(module) for module in WATCHED]

    def answer(self, method: str, values: tuple[Any, ...]) -> Any:
        """Return the answer to a request, or the error in its place."""
        try:
            work = self._load if method == "load" else getattr(self._engine, method)
            return work(*values)
        except (Exhausted, MemoryError) as error:  # also where a request is unpacked
            used, limit = memory_in_use()
            exhausted = Exhausted(str(error) or "MemoryError")
            exhausted.is_full = 2 * used > limit
            return exhausted
        except (ImplementationError, Unsupported, RopecliError) as error:
            return error
        # Also of our own code where it meets functions replaced. Ctrl-C does not come here.
        except (Exception, KeyboardInterrupt, GeneratorExit) as error:
            return ImplementationError(describe_exception(error))

    def _load(self, source: Any, memory: float | None) -> None:
        _bound_memory(memory)
        self._engine = source.engine()

    def find_replaced(self) -> tuple[str, ...]:
        """Return functions that are others than after the last request."""
        return tuple(name for known in self._known for name in known.find_changes())


class _Names:
    """Return what the names of a module stand for."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._before = dict(vars(module))
        self._values = [*self._before.values()]

    def find_changes(self) -> list[str]:
        """Return the public names that have named something else since the last time."""
        now = self._module.__dict__
        if now.__len__() == self._values.__len__() and _all(_map(is_, now.values(), self._values)):
            return []
        names = [name for name in self._before if not name.startswith("_")]
        changed = [name for name in names if now.get(name) is not self._before[name]]
        self._before = dict(now)
        self._values = [*now.values()]
        return [f"{self._module.__name__}.{name}" for name in changed]


def _move_out_of_reach(descriptor: int) -> int:
    """Return a descriptor's copy with a high number, and close it."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = min(OUT_OF_REACH, max(3, most // 2)) if most > 0 else OUT_OF_REACH
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, least)
    os.close(descriptor)
    return moved


def _end_first_without_memory() -> None:
    """Let this process end before others where memory is short."""
    with contextlib.suppress(OSError):  # Linux
        Path("/proc/self/oom_score_adj").write_text("1000")


def _bound_memory(gigabytes: float | None) -> None:
    """Turn a call that needs more data than the limit into a MemoryError."""
    with contextlib.suppress(OSError, ValueError):
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        wanted = int(SHARE * machine if gigabytes is None else 1e9 * gigabytes)
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        least = min(each for each in (wanted, soft, hard) if each >= 0)
        resource.setrlimit(resource.RLIMIT_DATA, (least, hard))
