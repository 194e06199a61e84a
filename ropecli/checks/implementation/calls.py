"""Calls of the implementation under test with NumPy arrays, and how they fail."""

from __future__ import annotations

import contextlib
import inspect
import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.framework import known_dtype
from ropecli.checks.law import Outcome
from ropecli.errors import RopecliError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from ropecli.checks.implementation.framework import Framework

    #: NumPy arrays in, the framework's result out.
    Call = Callable[[NDArray[Any], NDArray[np.int64]], Any]
    #: Makes an instance of the implementation, with further keyword arguments.
    Make = Callable[[Mapping[str, Any]], Call]

CALL_FAILED = "a call that must be answered failed"
#: Leading axes that are tried in this order; the first ones that the implementation takes stay.
LEADING: tuple[tuple[int, ...], ...] = ((), (1, 1), (1,))


class ImplementationError(Exception):
    """The implementation raised, or returned no array of the right shape; in one line."""


class WrongResult(ImplementationError):
    """The implementation returned a wrong dtype or shape, which does not count as a refusal."""


class Unsupported(Exception):
    """An implementation of this form cannot be called this way."""


def call_failure(error: Exception, dtype: str | None = None) -> Outcome:
    """Return the failure of a law for which the implementation gave nothing to judge."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


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


class Instance:
    """One instance of the implementation."""

    def __init__(self, call: Call, frame: Framework, lead: tuple[int, ...]) -> None:
        self._call = call
        self._frame = frame
        self._lead = lead

    def raw(self, x: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        """Return the result for x as it is, of any shape and dtype.

        Raises:
            ImplementationError: It raised, or returned no array.
            Unsupported: Its form cannot take these positions.
        """
        with translate_errors():
            result = self._call(x, positions)
            if inspect.iscoroutine(result):
                result.close()  # otherwise Python warns that it was never awaited
            return np.asarray(self._frame.back(result))  # a subclass may multiply differently

    def rows(self, x: NDArray[np.float64], positions: NDArray[Any], dtype: str) -> Any:
        """Return R_m x for rows (count, head_dim) of one sequence in a dtype, as float64.

        Raises:
            ImplementationError: It raised, or returned no real array of x's shape.
            Unsupported: Its form cannot take these positions.
        """
        given = x.astype(DTYPES[dtype]).reshape(*self._lead, *x.shape)
        return values(self.raw(given, positions), given).reshape(x.shape)


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


class Implementation:
    """The implementation under test, of which instances are made."""

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
        self.lead: tuple[int, ...] = LEADING[0]

    def fresh(self, parameters: Mapping[str, Any] | None = None) -> Instance:
        """Return a new instance; of a function, the function.

        Raises:
            ImplementationError: It could not be made.
        """
        with translate_errors():
            return Instance(self._make(parameters or {}), self.frame, self.lead)

    def construct(self) -> Any:
        """Return the implementation's own object, for a form that is more than one call."""
        return self.function(**self.init)

    def arguments_after_call(
        self, x: NDArray[Any], positions: NDArray[Any]
    ) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
        """Call it, and yield each argument's name with its values before and after.

        Raises:
            ImplementationError: It raised.
        """
        names = ("q", "k", "cos", "sin") if self.form == "tables" else ("x", "positions")
        recorder = _Recorder(self.frame)
        with translate_errors():
            call = self._make_adapter(recorder)({})
            recorder.handed.clear()  # arguments of trial calls
            call(x, positions)
        for name, (made, before) in zip(names, recorder.handed, strict=False):
            yield name, before, self.frame.back(made)

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


def values(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a result as float64.

    Raises:
        WrongResult: Not real, or not of x's shape.
    """
    if result.shape != given.shape:
        msg = f"it returned shape {result.shape} for x of shape {given.shape}"
        raise WrongResult(msg)
    return numbers(result, given)


def numbers(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a result of any shape as float64.

    Raises:
        WrongResult: Not real.
    """
    if result.dtype.kind not in "fiu" and known_dtype(result) not in DTYPES:
        msg = f"it returned {result.dtype} for x of {known_dtype(given)}"
        raise WrongResult(msg)
    return result.astype(np.float64)


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
