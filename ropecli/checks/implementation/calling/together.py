"""Two calls at the same time: one is stopped at many points, and the other one made meanwhile."""

from __future__ import annotations

import dis
import functools
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import evenly_spread
from ropecli.checks.implementation.call import ImplementationError, RaceMismatch, Unsupported
from ropecli.checks.implementation.calling.foreign import describe_exception

Call = Callable[[], "NDArray[Any]"]

FROM_ANOTHER = "from another thread"
AFTER_ANOTHER = "after a call from another thread"
AT_ONCE = "while another thread calls it too"
POINTS = 32  #: Points of a call at which it is stopped.
SECONDS = 0.3  #: Of computing, for all of them.
FREE, FREE_SECONDS = 200, 0.25  #: Calls that two threads make without a pause, and of computing.
#: Calls that must have run at the same time as one of the other thread, which a busy machine may
#: rarely let them, and seconds after which that is given up.
MET, MET_SECONDS = 40, 2.0
SWITCH = 1e-6  #: Seconds between switches of threads meanwhile.
#: Seconds to wait for a call that may wait for a lock itself: half as long each time that it does,
LONGEST_WAIT, SHORTEST_WAIT = 1.0, 0.002
LOCKED = 0.005  #: and seconds where it has come to a `with`.
HANGS = 20.0  #: Seconds after which two calls are taken to wait for each other.
#: What may write into memory that calls share: a thread may be replaced by another one after it.
WRITES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR", "STORE_DEREF", "STORE_SLICE", "BINARY_OP"}
#: Packages in which no call is stopped.
TRUSTED = {"ropecli", "numpy", "torch", "jax", "ml_dtypes"}


def call_together(one: Call, other: Call) -> RaceMismatch | None:
    """Return a result that is unlike that of the same call alone; None if all are alike.

    The first call is stopped after operations that may write into memory, and the other one is
    made by another thread before it goes on. Then both are made by two threads without a pause,
    which shows code that is not Python's.
    """
    both = _Compared((one(), other()))
    thread = _Thread()
    thread.start(other)
    found, error = thread.finish()
    if error is not None:
        raise Unsupported(f"it cannot be called from another thread: {error}")
    both.add(1, found, None, FROM_ANOTHER)
    for way in (_stop_at_points, _run_freely):
        if both.mismatch is None:
            way(one, other, thread, both)
    thread.end()
    return both.mismatch


class _Compared:
    """Results with those of the calls alone, and the one that is most unlike."""

    def __init__(self, alone: tuple[NDArray[Any], NDArray[Any]]) -> None:
        self._alone = alone
        self._most = 0.0
        self.mismatch: RaceMismatch | None = None

    def add(self, which: int, result: Any, error: str | None, when: str) -> None:
        """Compare a result, or what was raised in its place."""
        alone = self._alone[which]
        if error is not None or result.shape != alone.shape:
            error = error or f"the result has shape {result.shape}, and {alone.shape} alone"
            off, result = np.inf, None
        elif np.array_equal(result, alone, equal_nan=True):
            return
        else:
            with np.errstate(all="ignore"):
                off = float(np.abs(result.astype(np.float64) - alone.astype(np.float64)).max())
        if self.mismatch is None or not off <= self._most:
            self._most = off
            self.mismatch = RaceMismatch(
                when=when, second=bool(which), alone=alone, together=result, error=error
            )


class _Thread:
    """A thread that makes one call after another."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, str | None]] = queue.SimpleQueue()
        self._waiting = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def start(self, call: Call) -> None:
        """Begin a call."""
        self._waiting += 1
        self._calls.put(call)

    def finish(self, seconds: float = HANGS) -> tuple[Any, str | None]:
        """Return the result of a call, or what it raised."""
        result = self._results.get(timeout=seconds)
        self._waiting -= 1
        return result

    @property
    def idle(self) -> bool:
        """True if the result of each call was taken."""
        return not self._waiting

    def end(self) -> None:
        """Let it end."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            self._results.put(_result_of(call))


def _result_of(call: Call) -> tuple[Any, str | None]:
    try:
        with np.errstate(all="ignore"):  # each thread has its own
            return call(), None
    except BaseException as error:  # of a thread: not even KeyboardInterrupt is ours
        return None, describe_exception(error)


class _Tracer:
    """Counts the operations of a call that may write, and stops it after one of them."""

    def __init__(self, stop: Callable[[], None] = lambda: None, point: int = -1) -> None:
        self.count = 0
        self.enters = False  #: Whether it has come to the beginning of a `with`.
        self._stop = stop
        self._point = point
        self._after: dict[FrameType, bool] = {}

    def run(self, call: Call) -> NDArray[Any]:
        """Return the result of a call."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return call()
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "call":
            if frame.f_globals.get("__name__", "").partition(".")[0] in TRUSTED:
                return None
            frame.f_trace_opcodes = True
        elif event == "opcode":
            if self._after.get(frame):
                if self.count == self._point:
                    self._stop()
                self.count += 1
            operation = _operations(frame.f_code).get(frame.f_lasti, "")
            self._after[frame] = operation in WRITES or operation.startswith("CALL")
            self.enters = operation == "BEFORE_WITH"
        elif event == "return":
            self._after.pop(frame, None)
        return self._trace


_known: dict[CodeType, dict[int, str]] = {}


def _operations(code: CodeType) -> dict[int, str]:
    """Return the name of each operation of code, by its place."""
    if code not in _known:
        _known[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
    return _known[code]


def _stop_at_points(one: Call, other: Call, thread: _Thread, both: _Compared) -> None:
    counted = _Tracer()
    thread.start(other)  # so that what is kept is of the other call, as it will be
    thread.finish()
    result, error = _result_of(lambda: counted.run(one))
    if error is not None:  # it cannot be traced
        return
    both.add(0, result, None, AFTER_ANOTHER)
    wait = LONGEST_WAIT

    def stop() -> None:
        nonlocal wait
        meanwhile = _Tracer()
        thread.start(lambda: meanwhile.run(other))
        end = time.monotonic() + wait
        while not thread.idle:
            try:
                both.add(1, *thread.finish(LOCKED), AT_ONCE)
            except queue.Empty:  # it may wait for the call that is stopped here
                if meanwhile.enters or time.monotonic() > end:
                    wait = max(wait / 2, SHORTEST_WAIT)
                    return

    end = time.process_time() + SECONDS
    for point in evenly_spread(counted.count, POINTS).tolist():
        stopped = _Tracer(stop, point)
        both.add(0, *_result_of(functools.partial(stopped.run, one)), AT_ONCE)
        _wait_for(thread, both)
        if both.mismatch is not None or time.process_time() > end:
            return


def _run_freely(one: Call, other: Call, thread: _Thread, both: _Compared) -> None:
    end, latest = time.process_time() + FREE_SECONDS, time.monotonic() + MET_SECONDS
    before = sys.getswitchinterval()
    runs, met = [False, False], 0

    def again(which: int, call: Call) -> Any:
        """Make a call again and again, until a result is unlike the one alone."""
        nonlocal met
        for count in itertools.count(1):
            runs[which] = True
            meets = runs[not which]
            result, error = _result_of(call)
            met += meets or runs[not which]
            runs[which] = False
            both.add(which, result, error, AT_ONCE)
            enough = count >= FREE or time.process_time() > end
            if both.mismatch is not None or (enough and (met >= MET or time.monotonic() > latest)):
                return

    sys.setswitchinterval(SWITCH)
    try:
        thread.start(lambda: again(1, other))
        again(0, one)
        _wait_for(thread, None)
    finally:
        sys.setswitchinterval(before)


def _wait_for(thread: _Thread, both: _Compared | None) -> None:
    if thread.idle:
        return
    try:
        result, error = thread.finish()
    except queue.Empty:
        raise ImplementationError(
            f"two calls at the same time do not end within {HANGS:g} s"
        ) from None
    if both is not None:
        both.add(1, result, error, AT_ONCE)
