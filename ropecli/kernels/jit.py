"""The one place that calls numba.njit: caching, threads, and safety after a fork.

No kernel is compiled with fast-math, `contract` included: without it serial and parallel code give
the same bits.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import prange
from numba.extending import overload

from ropecli.kernels.cache import discard, edition_folder, hold_lock, is_kept, numba_folder
from ropecli.kernels.settings import blame_settings

__all__ = [
    "for_types",
    "on_this_thread",
    "parallel",
    "prange",
    "serial",
    "thread_count",
    "threading_layer",
]

OPTIMIZATION = 1  #: LLVM's level. Loops are vectorized at each of 1 to 3, and are as fast.
Function = TypeVar("Function", bound="Callable[..., Any]")


class _Process:
    """State of this process: whether it may start threads, and locks for that and for compiling."""

    def __init__(self) -> None:
        self.launch, self.compiling = threading.RLock(), threading.RLock()
        self.launched = self.announced = False
        self.has_threads = False  #: At a fork: our kernels' or those of another library.
        self.lost_threads = False  #: In a child, which has none of the parent's.

    def before_fork(self) -> None:
        """Look for threads: those of OpenMP may be PyTorch's, and a child would wait for them."""
        self.has_threads = self.launched
        with contextlib.suppress(OSError):  # there is no /proc
            self.has_threads |= len([*Path("/proc/self/task").iterdir()]) > 1

    def after_fork(self) -> None:
        """Give a child free locks, and let it run on one thread if others were lost."""
        self.launch, self.compiling = threading.RLock(), threading.RLock()
        self.lost_threads |= self.has_threads


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_process.before_fork, after_in_child=_process.after_fork)


class _Thread(threading.local):
    """State of a thread: whether the kernels that it calls run on it alone."""

    alone = False


_thread = _Thread()


@contextlib.contextmanager
def on_this_thread() -> Iterator[None]:
    """Run the kernels that this thread calls on it alone, concurrently with other threads'."""
    before = _thread.alone
    _thread.alone = True
    try:
        yield
    finally:
        _thread.alone = before


def serial(function: Function) -> Function:
    """Compile a helper that kernels call."""
    return numba.njit(nogil=True, no_cfunc_wrapper=True)(function)  # type: ignore[no-any-return]


def for_types(*, by: int = 0, **special: Callable[..., Any]) -> Callable[[Function], Function]:
    """Choose a compiled helper by the type of an argument; any other type takes the function."""
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
    would harm: in a child of a process with threads, for which GNU OpenMP would wait, and for work
    too small to share, where waking and waiting for threads would take longer than the work. It
    also serves callers with threads of their own: `on_this_thread`. Where the result is larger
    than the caches, a streaming twin has other helpers in the place of some.
    """

    def __init__(
        self,
        function: Callable[..., None],
        kind: str = "",
        streaming: Mapping[str, Any] | None = None,
        **names: Any,
    ) -> None:
        """Declare the kernel; nothing is compiled before it is called.

        Args:
            function: The kernel, or with a kind the template of one.
            kind: Suffix of the kernel's name.
            streaming: Helpers of the streaming twin by their names in the kernel.
            names: Helpers of the kernel by their names in the template.
        """
        if kind:
            function = _twin(function, kind, **names)
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._function = function
        self._streaming = streaming or {}
        self.threaded = Compiled(function, parallel=True)
        self.single = Compiled(_twin(function, "serial"), parallel=False)

    @functools.cached_property
    def streaming(self) -> Compiled:
        """The kernel on all threads, for results larger than the caches."""
        return Compiled(_twin(self._function, "streaming", **self._streaming), parallel=True)

    def __call__(self, *arguments: Any, small: bool = False, stream: bool = False) -> None:
        """Run the kernel on the arrays given."""
        if small or _thread.alone or _process.lost_threads:
            self.single(*arguments)
            return
        with _process.launch:
            _process.launched = True
            (self.streaming if stream else self.threaded)(*arguments)


class Compiled:
    """A compiled function. A damaged, full or contended cache costs time, never a result."""

    def __init__(self, function: Callable[..., None], *, parallel: bool) -> None:
        self._function, self._parallel = function, parallel
        self._folder = edition_folder()
        self._ready: set[tuple[Any, ...]] = set()  #: Kinds of arguments that have been compiled.
        self.dispatcher = self._declare()

    def __call__(self, *arguments: Any) -> None:
        """Run the function, compiled for these kinds of arguments."""
        if not numba.config.DISABLE_JIT:
            signature = tuple(map(_kind, arguments))
            if signature not in self._ready:
                self._announce()
                with blame_settings():
                    self._compile(tuple(map(numba.typeof, arguments)))
                self._ready.add(signature)
        self.dispatcher(*arguments)

    def _announce(self) -> None:
        """Say to a person at a prompt, once, why the first call takes seconds."""
        if _process.announced or not hasattr(sys, "ps1") or sys.stderr is None:
            return
        if self._folder is None or not is_kept(self._folder, self._function):
            _process.announced = True
            sys.stderr.write("ropecli compiles its kernels, once on this machine: some seconds\n")

    def _declare(self) -> Any:
        # A wrapper for callers in C takes a tenth of the time, and there are none.
        options = {"parallel": self._parallel, "nogil": True, "no_cfunc_wrapper": True}
        if self._folder is None or numba.config.DISABLE_JIT:
            return numba.njit(**options)(self._function)
        with numba_folder(self._folder), blame_settings():
            return numba.njit(cache=True, **options)(self._function)

    def _compile(self, types: tuple[Any, ...]) -> None:
        if self._folder is not None:
            with hold_lock(self._folder, self._function):
                for _ in range(2):  # the second time without what could not be loaded
                    # Errors of damaged files have no common base below Exception.
                    with contextlib.suppress(Exception), _few_passes():
                        self.dispatcher.compile(types)
                    if types in self.dispatcher.signatures:  # perhaps not saved, on a full disk
                        return
                    discard(self._folder, self._function)
                    self.dispatcher = self._declare()
            self._folder = None
            self.dispatcher = self._declare()
        with _few_passes():
            self.dispatcher.compile(types)


@contextlib.contextmanager
def _few_passes() -> Iterator[None]:
    """Let LLVM optimize no more than what makes kernels faster, in four fifths of the time.

    Only what other threads compile meanwhile is optimized less, too.
    """
    with _process.compiling:
        numba.config.reload_config()  # the environment may have changed
        level = numba.config.OPT
        numba.config.OPT = type(level)(min(level, OPTIMIZATION))
        try:
            yield
        finally:
            numba.config.OPT = level


def _kind(argument: Any) -> Any:
    """Return the properties of an argument that compiled code depends on."""
    if isinstance(argument, np.ndarray):
        return argument.dtype, argument.ndim, argument.flags.num
    return type(argument)


def _twin(function: Callable[..., None], kind: str, **names: Any) -> Callable[..., None]:
    """Return a copy with another name: Numba's cache can't tell parallel and serial code apart."""
    name = f"{function.__name__}_{kind}"
    names_of_twin = {**function.__globals__, **names} if names else function.__globals__
    twin = types.FunctionType(function.__code__, names_of_twin, name)
    twin.__qualname__ = f"{function.__qualname__}_{kind}"
    twin.__module__ = function.__module__
    return twin


def thread_count() -> int:
    """Return the number of threads that a parallel kernel uses."""
    with blame_settings():
        return int(numba.get_num_threads())


def threading_layer() -> str:
    """Return the threading layer: omp, tbb, workqueue, or "not started" before the first kernel."""
    try:
        return str(numba.threading_layer())
    except ValueError:
        return "not started"
