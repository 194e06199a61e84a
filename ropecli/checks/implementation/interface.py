"""The only way from the laws to the implementation under test.

Laws see two classes. An `Implementation` describes itself in small data and makes instances; an
`Instance` is called. Every argument and every result is a NumPy array or small data, so that the
implementation itself may be anything, and anywhere: `calling/implementation.py` has the one that is
called in a process of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, dtype_name
from ropecli.checks.implementation.calling.convention import Convention
from ropecli.checks.implementation.calling.request import Request, Response, ScaledRequest
from ropecli.checks.law import Outcome
from ropecli.rotary.rotary import Rotary

NOTHING_WRITTEN = "it must be an array of numbers, got NoneType, and nothing was written over x"


class ImplementationError(Exception):
    """The implementation raised, or returned no array of the right shape; in one line."""


class WrongResult(ImplementationError):
    """The implementation returned a wrong dtype or shape, which does not count as a refusal."""


class Exhausted(ImplementationError):
    """The implementation ran out of memory, or of stack."""


class Died(ImplementationError):
    """A call that crashed, exited, hung, or ran out of memory that it should not need."""

    furthest = -1  #: Largest position of the call that did it; -1 without one.


class OutOfTime(Exception):
    """The budget of a run is spent."""

    found: Outcome | None = None  #: Failure that a law had found by then.


class Unsupported(Exception):
    """An implementation of this form cannot be called this way."""


class Instance(ABC):
    """One instance of the implementation, with whatever it keeps between calls."""

    @abstractmethod
    def call(self, x: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
        """Return the result as it is, of any shape and dtype."""

    @abstractmethod
    def request(self, request: Request | ScaledRequest) -> Response:
        """Make a call of any kind."""

    @abstractmethod
    def announce(self, request: Request | ScaledRequest) -> None:
        """Begin with the next call, if it can run while the last one is judged."""

    def rows(
        self, x: NDArray[np.float64], positions: NDArray[Any], dtype: str
    ) -> NDArray[np.float64]:
        """Return R_m x for rows (count, head_dim) of one sequence in a dtype, as float64."""
        given = x.astype(DTYPES[dtype])
        return as_float64(self.call(given, positions), given)


@dataclass(frozen=True, kw_only=True)
class BaseParameter:
    """The parameter of an implementation that is the base."""

    name: str
    value: float | None  #: Its value; None if it is None, or not a number.
    numeric: bool  #: Whether its value is a number or None.


class Implementation(ABC):
    """The implementation under test, of which instances are made."""

    form: str  #: "apply", "decoder" or "score".
    kind: str  #: "function", "class" or "instance".
    tables: (
        Rotary | None
    )  #: The encoding of the cos and sin that it is given; None if it makes them.
    convention: Convention  #: How it is called.
    arrangements: tuple[Convention, ...]  #: The axes in which it is called; `convention` first.
    costly: bool  #: Whether a call in a new shape takes long, as a program or a compiler does.
    renewable: bool  #: Whether a new instance is free of what earlier calls left behind.
    half_by_default: (
        tuple[str, str] | None
    )  #: Name of a parameter that is a dtype, and its default where that is half precision.

    @property
    @abstractmethod
    def base(self) -> BaseParameter | None:
        """The parameter that is the base; None if it takes none."""

    @abstractmethod
    def fresh(
        self, parameters: Mapping[str, float] | None = None, arrangement: Convention | None = None
    ) -> Instance:
        """Return a new instance; of a function, the function."""

    @abstractmethod
    def takes(self, arrangement: Convention, *, batch: int, heads: int, own: bool) -> bool:
        """Return False for a call that an arrangement of axes cannot express, or is refused."""

    @abstractmethod
    def restart(self) -> bool:
        """Forget what earlier calls left behind; False if it runs in this process, which can't."""

    @abstractmethod
    def decode(self, x: NDArray[Any], prefilled: int) -> NDArray[np.float64]:
        """Return a new decoder's rows for x, the first ones prefilled and the others stepped."""

    @abstractmethod
    def changed_arguments(
        self, x: NDArray[Any], positions: NDArray[np.int64]
    ) -> tuple[bool, Sequence[tuple[str, str]]]:
        """Call a new instance, and return what it wrote into.

        Returns:
            Whether that is its way to return a result; and for each argument that changed, its name
            and its first element that did: "x[0, 1] was 0.5, is 0.25".
        """


def as_float64(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a result of x's shape as float64."""
    if result.shape != given.shape:
        raise WrongResult(f"it returned shape {result.shape} for x of shape {given.shape}")
    return real_numbers(result, given)


def real_numbers(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a result of any shape as float64."""
    return check_real(result, known_dtype(given)).astype(np.float64)


def check_real(result: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return a result of any shape, for data of a dtype, as it is."""
    if result.dtype.kind not in "fiu" and known_dtype(result) not in DTYPES:
        raise WrongResult(f"it returned {result.dtype} for x of {dtype}")
    return result


def known_dtype(array: NDArray[Any]) -> str:
    """Return the name of an array's dtype, ropecli's own where there is one."""
    return dtype_name(array.dtype) or str(array.dtype)
