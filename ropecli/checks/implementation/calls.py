"""Calls of the implementation under test with NumPy arrays, and how they fail."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.checks.implementation.call_adapters import base_parameter, step_through
from ropecli.checks.implementation.interface import (
    BaseParameter,
    Implementation,
    ImplementationError,
    Instance,
    Unsupported,
)
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from ropecli.checks.implementation.call_adapters import Call, Make
    from ropecli.checks.implementation.framework import Framework

#: Leading axes that are tried in this order; the first ones that the implementation takes stay.
LEADING: tuple[tuple[int, ...], ...] = ((), (1, 1), (1,))


def describe_exception(error: BaseException) -> str:
    """Return an exception's type and message in one line, cut to a readable length."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own message may raise, too
        text = ""
    name = type(error).__name__
    return escape_unprintable(f"{name}: {text[:200]}" if text else name)


def escape_unprintable(text: str) -> str:
    """Return the text with control characters, such as those that colour a terminal, escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class LocalInstance(Instance):
    """An instance in this process."""

    def __init__(self, call: Call, frame: Framework, lead: tuple[int, ...]) -> None:
        self._call = call
        self._frame = frame
        self.lead = lead

    def call(self, x: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
        """Call it with arrays of its framework."""
        with translate_errors():
            result = self._call(x, positions)
            if inspect.iscoroutine(result):
                result.close()  # otherwise Python warns that it was never awaited
            return np.asarray(self._frame.back(result))  # a subclass may multiply differently


class _Recorder:
    """A framework that records the arrays that it hands out, with what they were made from."""

    def __init__(self, frame: Framework) -> None:
        self._frame = frame
        self.handed: list[tuple[Any, NDArray[Any]]] = []
        self.dtypes = frame.dtypes

    def to(self, array: NDArray[Any]) -> Any:
        """Return the framework's array, and remember it."""
        made = self._frame.to(array)
        self.handed.append((made, array.copy()))
        return made

    def back(self, value: Any) -> NDArray[Any]:
        """Return it as NumPy."""
        return self._frame.back(value)


class LocalImplementation(Implementation):
    """An implementation in this process."""

    def __init__(
        self,
        make_adapter: Callable[[Framework], Make],
        frame: Framework,
        function: Any,
        form: str,
        init: Mapping[str, Any],
    ) -> None:
        self._make_adapter = make_adapter
        self._make = make_adapter(frame)
        self.frame = frame
        self.function = function
        self.form = form
        self.init = init
        self.lead = LEADING[0]
        self.renewable = inspect.isclass(function) and form != "decoder"

    @functools.cached_property
    def base(self) -> BaseParameter | None:
        """Its parameter that is the base, with the value given or the default."""
        taken = base_parameter(self.function, self.form)
        if taken is None:
            return None
        name, default = taken
        own = self.init.get(name, default)
        number = isinstance(own, int | float | np.integer | np.floating)
        return BaseParameter(
            name=name, value=float(own) if number else None, numeric=number or own is None
        )

    def fresh(self, parameters: Mapping[str, float] | None = None) -> LocalInstance:
        """Make an instance of the class; a function is its own."""
        with translate_errors():
            return LocalInstance(self._make(parameters or {}), self.frame, self.lead)

    def decode(self, x: NDArray[Any], prefilled: int) -> NDArray[np.float64]:
        """Prefill and step a new decoder."""
        with translate_errors():
            decoder = self.function(**self.init)
            parts: list[NDArray[Any]] = []
            if prefilled:
                first = decoder.prefill(self.frame.to(x[..., :prefilled, :]))
                parts = [self.frame.back(first)]
            parts += step_through(decoder, x[..., prefilled:, :], self.frame)
            return np.concatenate(parts, axis=-2).astype(np.float64).reshape(x.shape)

    def arguments_after_call(
        self, x: NDArray[Any], positions: NDArray[np.int64]
    ) -> list[tuple[str, NDArray[Any], NDArray[Any]]]:
        """Call a new instance, recording the arrays that it is given."""
        names = ("q", "k", "cos", "sin") if self.form == "tables" else ("x", "positions")
        recorder = _Recorder(self.frame)
        with translate_errors():
            call = self._make_adapter(recorder)({})
            recorder.handed.clear()  # arguments of trial calls
            call(x, positions)
        return [
            (name, before, self.frame.back(made))
            for name, (made, before) in zip(names, recorder.handed, strict=False)
        ]

    def find_leading_axes(self, dim: int, dtype: str, axes: int, *, rows: int) -> None:
        """Find the leading axes that it takes: none, or a batch and heads.

        Raises:
            ImplementationError: It takes none of them; the error of the first one.
        """
        x = np.ones((rows, dim))
        positions = np.arange(rows)
        if axes > 1:
            positions = np.repeat(positions[:, None], axes, axis=1)
        first: ImplementationError | None = None
        # Transformers' functions take a batch and heads.
        order = LEADING if self.form != "tables" else (LEADING[1], LEADING[0], LEADING[2])
        for lead in order:
            self.lead = lead
            try:
                self.fresh().rows(x, positions, dtype)
            except ImplementationError as error:
                first = first or error
            else:
                return
        self.lead = order[0]
        raise first or ImplementationError("it could not be called")


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Run foreign code: its output goes to stderr, and its exceptions are translated.

    Raises:
        ImplementationError: It raised.
        Unsupported: Its form cannot be called this way.
    """
    try:
        with (
            contextlib.redirect_stdout(sys.stderr),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            yield
    except (ImplementationError, Unsupported):
        raise
    except RopecliError as error:
        raise ImplementationError(escape_unprintable(str(error))) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and what others derive from it
        raise ImplementationError(describe_exception(error)) from None
