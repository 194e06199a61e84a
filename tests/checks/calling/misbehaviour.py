"""A right implementation, and what else it may do in a long call; loaded by its path."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import enum
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

LONG = 100  #: Rows that `check` calls it with in few of its calls, and never while it is found.


def right(x: Any, positions: Any) -> Any:
    d = x.shape[-1]
    angle = np.asarray(positions, float)[..., None] * 1e4 ** (-np.arange(0, d, 2) / d)
    if angle.ndim == 3 and x.ndim == 4:
        angle = angle[:, None]
    a, b = x[..., : d // 2].astype(float), x[..., d // 2 :].astype(float)
    c, s = np.cos(angle), np.sin(angle)
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


def but(action: Callable[[], object]) -> Callable[[Any, Any], Any]:
    def kernel(x: Any, positions: Any) -> Any:
        y = right(x, positions)
        if x.shape[-2] > LONG:
            action()
        return y

    return kernel


def _overflow() -> None:
    """Recurse in C, past the end of the stack."""
    value: list[Any] = []
    for _ in range(10**6):
        value = [value]
    sys.setrecursionlimit(2**31 - 1)
    repr(value)


def _announce() -> None:
    """Say that the call that does not end has begun."""
    if begun := os.environ.get("CALL_BEGUN"):
        Path(begun).touch()


def _loop() -> None:
    _announce()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        pass


def _stop() -> None:
    _announce()
    os.kill(os.getpid(), signal.SIGSTOP)


def _write_everywhere(end: int = 1024) -> None:
    for descriptor in range(3, end):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"garbage")


def _garble() -> None:
    """Write into the socket of the answers, too."""
    _write_everywhere(4096)


def _fork() -> None:
    """Leave a child with every pipe, and end."""
    if os.fork() == 0:
        time.sleep(300)
    os._exit(4)


def _leave_things_behind() -> None:
    atexit.register(time.sleep, 300)
    threading.Thread(target=sys.exit).start()
    threading.Thread(target=time.sleep, args=(300,)).start()
    np.seterr(all="raise")
    sys.stdout = sys.stderr = None


def _raise(error: Exception) -> None:
    raise error


def _recurse() -> None:
    _recurse()


kept: list[Any] = []


def leaks(x: Any, positions: Any) -> Any:
    kept.append(np.ones(2**23))
    return right(x, positions)


def in_batches(action: Callable[[], object]) -> Callable[[Any, Any], Any]:
    def kernel(x: Any, positions: Any) -> Any:
        if x.ndim == 4 and x.shape[0] > 2:
            action()
        return right(x, positions)

    return kernel


aborts = but(os.abort)
aborts_in_batches = in_batches(os.abort)
loops_in_batches = in_batches(_loop)
exhausts = but(lambda: _raise(MemoryError("no memory")))
exhausts_stack = but(_recurse)
exhausts_device = but(lambda: _raise(RuntimeError("CUDA out of memory. Tried to allocate 1 GiB")))
segfaults = but(lambda: ctypes.string_at(0))
exits = but(lambda: os._exit(3))
signals = but(lambda: os.kill(os.getpid(), 35))  # of real time, without a name
overflows = but(_overflow)
loops = but(_loop)
stops = but(_stop)
forks = but(_fork)
closes_all = but(lambda: os.closerange(0, 4096))
writes = but(_write_everywhere)
garbles = but(_garble)

closes = but(lambda: os.closerange(0, 256))
leaves = but(_leave_things_behind)
prints = but(lambda: os.write(1, b"\x1b[31m" + bytes(range(256)) + b"\n"))
prints_a_line = but(lambda: sys.stdout.write("x" * 30_000_000))
prints_lines = but(lambda: sys.stdout.write("line\n" * 5_000_000))
eats = but(lambda: [np.zeros(2**30, np.uint8) for _ in range(100_000)])


def always_aborts(x: Any, positions: Any) -> Any:
    os.abort()


def always_loops(x: Any, positions: Any) -> Any:
    _loop()


def returns_too_much(x: Any, positions: Any) -> Any:
    return np.broadcast_to(np.float32(1), (10**6, 10**7))


def returns_objects(x: Any, positions: Any) -> Any:
    return right(x, positions).astype(object)


class Style(enum.IntEnum):
    """An enum that only its own module knows."""

    HALF = 1


class Words(str):
    """Text that only its own module knows."""

    __slots__ = ()


WORDS, NUMBER = Words("a"), np.int64(1)


def foreign_defaults(
    x: Any, positions: Any, style: Any = Style.HALF, name: Any = WORDS, n: Any = NUMBER
) -> Any:
    return right(x, positions)


class DecoderThatAborts:
    """One whose instances can't be made."""

    def __init__(self) -> None:
        os.abort()

    def prefill(self, x: Any) -> Any:
        return x

    def step(self, x: Any) -> Any:
        return x
