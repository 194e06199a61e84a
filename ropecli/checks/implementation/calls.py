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

    from ropecli.checks.implementation.call_adapters import Call, Make
    from ropecli.checks.implementation.framework import Framework

CALL_FAILED = "a call that must be answered failed"


class ImplementationError(Exception):
    """The target raised, or returned no array of the right shape; in one line."""


class WrongResult(ImplementationError):
    """The target returned what is no answer; that is no refusal."""


class Unsupported(Exception):
    """A target of this form can't be asked this."""


def call_failure(error: Exception, dtype: str | None = None) -> Outcome:
    """Return the failure of a law for which the implementation gave nothing to judge."""
    return Outcome(passed=False, note=f"{CALL_FAILED}: {error}", dtype=dtype)


def describe_exception(error: BaseException) -> str:
    """An exception's type and message in one line that is not too long."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own words fail too
        text = ""
    name = type(error).__name__
    return escape_unprintable(f"{name}: {text[:200]}" if text else name)


def escape_unprintable(text: str) -> str:
    """With letters that are no letters, such as those that colour a terminal, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


#: Shapes (leading axes) that a target is tried with, the first one that it takes is used.
LEADING: tuple[tuple[int, ...], ...] = ((), (1, 1), (1,))


class Instance:
    """One instance of the target."""

    def __init__(self, call: Call, frame: Framework, lead: tuple[int, ...]) -> None:
        self._call = call
        self._frame = frame
        self._lead = lead

    def raw(self, x: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
        """What the target gives for x as it is, of whatever shape and dtype.

        Raises:
            TargetError: It raised, or gave no array.
            Unsuited: Its form can't take these positions.
        """
        with translate_errors():
            result = self._call(x, positions)
            if inspect.iscoroutine(result):
                result.close()  # else Python warns that nobody awaited it
            return np.asarray(self._frame.back(result))  # no subclass: it may multiply otherwise

    def rows(self, x: NDArray[np.float64], positions: NDArray[Any], dtype: str) -> Any:
        """R_m x for rows (count, head_dim) of one sequence in a dtype, as float64.

        Raises:
            TargetError: It raised, or gave no real array of x's shape.
            Unsuited: Its form can't take these positions.
        """
        given = x.astype(DTYPES[dtype]).reshape(*self._lead, *x.shape)
        return values(self.raw(given, positions), given).reshape(x.shape)


class _Recorder:
    """A framework that keeps what it handed out, each with the array that it was made of."""

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
    """What makes instances of the implementation."""

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
            TargetError: It could not be made.
        """
        with translate_errors():
            return Instance(self._make(parameters or {}), self.frame, self.lead)

    def construct(self) -> Any:
        """Return the target's own object, for a form that is more than one call."""
        return self.function(**self.init)

    def watched(
        self, x: NDArray[Any], positions: NDArray[Any]
    ) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
        """Call it, and give each argument's name, what it was, and what it is afterwards.

        Raises:
            TargetError: It raised.
        """
        names = ("q", "k", "cos", "sin") if self.form == "tables" else ("x", "positions")
        keep = _Recorder(self.frame)
        with translate_errors():
            call = self._make_adapter(keep)({})
            keep.handed.clear()  # what it was tried with
            call(x, positions)
        for name, (made, before) in zip(names, keep.handed, strict=False):
            yield name, before, self.frame.back(made)

    def find_leading_axes(self, dim: int, dtype: str, axes: int, *, rows: int) -> None:
        """Find out which leading axes it wants: none, or a batch and heads.

        Raises:
            TargetError: It takes none of them; what it said about the first one.
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
    """A result as float64.

    Raises:
        WrongResult: Not real, or not of the shape that was given.
    """
    if result.shape != given.shape:
        msg = f"it returned shape {result.shape} for x of shape {given.shape}"
        raise WrongResult(msg)
    return numbers(result, given)


def numbers(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """A result of whatever shape as float64.

    Raises:
        WrongResult: Not real.
    """
    if result.dtype.kind not in "fiu" and known_dtype(result) not in DTYPES:
        msg = f"it returned {result.dtype} for x of {known_dtype(given)}"
        raise WrongResult(msg)
    return result.astype(np.float64)


@contextlib.contextmanager
def translate_errors() -> Iterator[None]:
    """Run a target's code: what it prints goes to stderr, what it raises becomes a TargetError.

    Raises:
        TargetError: It raised.
        Unsuited: As it is.
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
