"""A call of an implementation: what goes in, what comes out, and how it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, dtype_name
from ropecli.checks.implementation.convention import Convention
from ropecli.checks.law import Outcome
from ropecli.rotary.rotary import Rotary

#: Ways in which x lies in memory.
MEMORY = ("contiguous", "transposed", "sliced", "strided", "expanded", "offset")
NOTHING_WRITTEN = "it must be an array of numbers, got NoneType, and nothing was written over x"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Arguments by which an instance is made and called."""

    convention: Convention
    rope: Rotary  #: The encoding of the tables and of the sizes that it is given.
    context: int  #: Positions that it must take.


@dataclass(frozen=True, kw_only=True, eq=False)
class Positions:
    """Positions of the sequences of a call."""

    positions: NDArray[np.int64]  #: (length,), with axes (length, axes).
    per_sequence: bool = False  #: Each sequence has its own: one more axis of the batch, first.

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return int(self.positions.shape[1 if self.per_sequence else 0])

    @property
    def by_sequence(self) -> NDArray[np.int64]:
        """Positions of each sequence, or of all, (batch or 1, length)."""
        return self.positions if self.per_sequence else self.positions[None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Request(Positions):
    """One call. Arrays are of NumPy, in the order batch, heads, sequence, head dim."""

    q: NDArray[Any]  #: (batch, heads, length, head_dim), in the dtype of the data.
    k: NDArray[Any] | None = None  #: (batch, key_heads, length, head_dim); None: as q.
    memory: str = "contiguous"  #: How x lies in memory, one of `MEMORY`.
    stepwise: bool = False  #: Of a decoder: step through all but the tokens prefilled.
    prefilled: int = 0  #: Of a decoder: tokens to prefill.
    reuse_instance: bool = (
        False  #: Of a decoder: another sequence on the instance of the call before.
    )
    watch: bool = False  #: Report which arguments were written into.
    #: Gradients of the results, q's and perhaps k's, to be taken back to q and k.
    gradient: tuple[NDArray[Any], ...] | None = None
    #: Later calls, after which the first result is read once more.
    followed_by: tuple[Request, ...] = ()

    @property
    def kind(self) -> tuple[Any, ...]:
        """The dtype and the shape of the queries."""
        return (self.q.dtype.name, *self.q.shape)

    def whole(self) -> Request:
        """Return this request."""
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledRequest(Positions):
    """A call in which all heads have the same vectors, but for a factor; short to send."""

    #: (rows, head_dim), in the dtype of the data; a longer sequence has them once more.
    rows: NDArray[Any]
    scales: NDArray[np.float64]  #: (batch, heads), powers of two that the dtype does not round.
    heads: int  #: Of the queries.
    key_heads: int | None  #: None: no keys.
    memory: str  #: As in `Request`.
    gradient: bool  #: The vectors are gradients of the result; it takes others.

    @property
    def kind(self) -> tuple[Any, ...]:
        """The dtype and the shape of the queries."""
        sizes = (len(self.scales), self.heads, self.length, self.rows.shape[1])
        return (self.rows.dtype.name, *sizes)

    def whole(self) -> Request:
        """Return the request with all its vectors."""
        held = self.rows.dtype
        exact = np.dtype(np.float32) if held.itemsize == 2 else held  # which multiplies faster
        factors = self.scales.astype(exact)[:, :, None, None]
        every = (self.rows.astype(exact, copy=False) * factors).astype(held, copy=False)
        if self.length > len(self.rows):
            every = every.take(range(self.length), axis=2, mode="wrap")
        given = tuple(every[:, :n] for n in (self.heads, self.key_heads) if n is not None)
        gradient = None
        if self.gradient:  # of other vectors, on which it does not depend
            gradient, given = given, tuple(np.roll(each, 1, axis=-1) for each in given)
        return Request(
            q=given[0],
            k=given[1] if len(given) > 1 else None,
            positions=self.positions,
            per_sequence=self.per_sequence,
            memory=self.memory,
            gradient=gradient,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """The result of a call."""

    q: NDArray[Any]  #: As in the request, in the dtype of the result.
    k: NDArray[Any] | None = None
    v: NDArray[Any] | None = None  #: Of packed q, k and v: the values, which were the keys.
    ignored: int = 0  #: Further arrays that it returned, which are not judged.
    in_place: bool = False  #: The result was written over the argument.
    #: Arguments that were written into: name, and the first change, "x[0, 1] was 0.5, is 0.25".
    changed: tuple[tuple[str, str], ...] = ()
    gradient: tuple[NDArray[Any], ...] | None = None  #: As in the request.
    note: str | None = None  #: What a reader should know of the gradient.
    reread: NDArray[Any] | None = None  #: The first result after the later calls.


class ImplementationError(Exception):
    """The implementation raised, or returned no array of the right shape; in one line."""

    place = ""  #: Lines of code through which an exception came.


class WrongResult(ImplementationError):
    """The implementation returned a wrong dtype or shape, which does not count as a refusal."""


class Exhausted(ImplementationError):
    """The implementation ran out of memory, or of stack."""

    is_full = False  #: True if its process has little memory left for the next call.


class Died(ImplementationError):
    """A call that crashed, exited, hung, or ran out of memory that it should not need."""

    furthest = -1  #: Largest position of the call that did it; -1 without one.


class OutOfTime(Exception):
    """The budget of a run is spent."""

    found: Outcome | None = None  #: Failure that a law had found by then.


class Unsupported(Exception):
    """An implementation of this form cannot be called this way."""


def real_numbers(result: NDArray[Any], given: NDArray[Any]) -> NDArray[np.float64]:
    """Return a result of any shape as float64."""
    return to_float64(check_real(result, known_dtype(given)))


def to_float64(result: NDArray[Any]) -> NDArray[np.float64]:
    """Convert a result whose memory may hold anything, a signalling NaN too, without a warning."""
    with np.errstate(invalid="ignore"):
        return result.astype(np.float64)


def check_real(result: NDArray[Any], dtype: str) -> NDArray[Any]:
    """Return a result of any shape, for data of a dtype, as it is."""
    if result.dtype.kind not in "fiu" and known_dtype(result) not in DTYPES:
        raise WrongResult(f"it returned {result.dtype} for x of {dtype}")
    return result


def known_dtype(array: NDArray[Any]) -> str:
    """Return the name of an array's dtype, ropecli's own where there is one."""
    return dtype_name(array.dtype) or str(array.dtype)
