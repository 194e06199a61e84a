"""The one place that calls numba.njit: caching, threads, and safety after a fork.

No kernel is compiled with fast-math, `contract` included: without it serial and parallel code give
the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import types
from typing import TYPE_CHECKING, Any, TypeVar

import numba
import numpy as np
from numba import prange
from numba.extending import overload

from ropecli.kernels._cache import open_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "for_types",
    "on_this_thread",
    "parallel",
    "prange",
    "serial",
    "thread_count",
    "threading_layer",
]

Function = TypeVar("Function", bound="Callable[..., Any]")


class _Process:
    """State of this process: whether threads were started, and the lock of those who start them."""

    def __init__(self) -> None:
        self.launch = threading.RLock()
        self.launched = False
        self.forked_after_launch = False

    def after_fork(self) -> None:
        """A child has none of the parent's threads, and perhaps a lock that is never freed."""
        self.launch = threading.RLock()
        self.forked_after_launch = self.forked_after_launch or self.launched


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.after_fork)


class _Thread(threading.local):
    """State of a thread: whether the kernels that it calls run on it alone."""

    alone = False


_thread = _Thread()


@contextlib.contextmanager
def on_this_thread() -> Iterator[None]:
    """Run the kernels that this thread calls on it alone, at the same time as those of others."""
    before = _thread.alone
    _thread.alone = True
    try:
        yield
    finally:
        _thread.alone = before


def serial(function: Function) -> Function:
    """Compile a helper that kernels call."""
    return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]


def for_types(*, by: int = 0, **special: Callable[..., Any]) -> Callable[[Function], Function]:
    """Choose a compiled helper by the type of an argument; any other type takes the function.

    Args:
        by: Which argument decides.
        special: Helpers by the name of a NumPy type; each takes the first argument only.
    """
    by_dtype = {np.dtype(name): helper for name, helper in special.items()}

    def decorate(function: Function) -> Function:
        def choose(*arguments: Any) -> Any:
            helper = by_dtype.get(arguments[by].dtype)
            return function(*arguments) if helper is None else helper(arguments[0])

        def choose_by_type(*types: Any) -> Any:
            helper = special.get(str(types[by]))
            if helper is None:
                return function
            if len(types) == 1:
                return lambda value: helper(value)  # noqa: PLW0108 -- no dispatcher will do
            return lambda value, like: helper(value)

        overload(choose, strict=False)(choose_by_type)
        return functools.update_wrapper(choose, function)  # type: ignore[return-value]

    return decorate


class parallel:
    """A kernel whose `prange` loops run on all threads; called from Python only.

    One call at a time: the `workqueue` layer aborts the process when two Python threads enter it,
    and one kernel keeps every core busy anyway. A serial twin gives the same bits where threads
    would harm: in a child forked after a parallel call, which GNU OpenMP would kill, and for work
    too small to share, where waking and waiting for threads would take longer than the work. It
    also serves callers with threads of their own: `on_this_thread`.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._threaded = _compile(function, parallel=True)
        self._single = _compile(_twin(function), parallel=False)

    def __call__(self, *arguments: Any, small: bool = False) -> None:
        """Run the kernel on the arrays given; on this thread alone if the work is small."""
        if small or _thread.alone or _process.forked_after_launch:
            self._single(*arguments)
            return
        with _process.launch:
            _process.launched = True
            self._threaded(*arguments)


def _compile(function: Callable[..., None], *, parallel: bool) -> Callable[..., None]:
    compiled = numba.njit(parallel=parallel, nogil=True)(function)
    if compiled is not function:  # NUMBA_DISABLE_JIT=1 hands the function back
        compiled._cache = open_cache(function)
    return compiled  # type: ignore[no-any-return]


def _twin(function: Callable[..., None]) -> Callable[..., None]:
    """A copy under another name: Numba's cache can't tell parallel and serial code apart."""
    twin = types.FunctionType(
        function.__code__, function.__globals__, f"{function.__name__}_serial"
    )
    twin.__qualname__ = f"{function.__qualname__}_serial"
    twin.__module__ = function.__module__
    return twin


def thread_count() -> int:
    """Threads that a parallel kernel uses."""
    return int(numba.get_num_threads())


def threading_layer() -> str:
    """The threading layer in use: omp, tbb or workqueue; "not started" before the first kernel."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return "not started"
