"""One call of an implementation, in plain arrays: what goes in, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEMORY = ("contiguous", "transposed", "sliced", "strided", "expanded", "offset")


@dataclass(frozen=True, kw_only=True, eq=False)
class Request:
    """One call. Arrays are of NumPy, in the order batch, heads, sequence, head dim."""

    q: NDArray[Any]  #: (batch, heads, length, head_dim), in the dtype of the data.
    k: NDArray[Any] | None = None  #: (batch, key_heads, length, head_dim); None: as q.
    positions: NDArray[np.int64]  #: (length,), with axes (length, axes).
    own: bool = False  #: Each sequence of the batch has positions of its own: one axis more, first.
    memory: str = "contiguous"  #: How x lies in memory, one of `MEMORY`.
    stepwise: bool = False  #: Of a decoder: step through all but the tokens prefilled.
    prefilled: int = 0  #: Of a decoder: tokens to prefill.
    again: bool = False  #: Of a decoder: another sequence on the instance of the call before.
    watch: bool = False  #: Report which arguments were written into.
    #: Gradients of the results, q's and perhaps k's, to be taken back to q and k.
    gradient: tuple[NDArray[Any], ...] | None = None
    then: tuple[Request, ...] = ()  #: Later calls, after which the first result is read once more.
    beside: Request | None = None  #: A call that another thread makes at the same time,
    apart: bool = False  #: of another instance.

    @property
    def kind(self) -> tuple[Any, ...]:
        """The dtype and the shape of the queries."""
        return (self.q.dtype.name, *self.q.shape)

    def whole(self) -> Request:
        """Return this request."""
        return self


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaledRequest:
    """A call in which all heads have the same vectors, but for a factor.

    It is what is sent to another process, which makes the request of it.
    """

    #: (rows, head_dim), in the dtype of the data; a longer sequence has them once more.
    rows: NDArray[Any]
    scales: NDArray[np.float64]  #: (batch, heads), powers of two that the dtype does not round.
    heads: int  #: Of the queries.
    key_heads: int | None  #: None: no keys.
    positions: NDArray[np.int64]  #: As of `Request`,
    own: bool  #: the same,
    memory: str  #: and the same.
    gradient: bool  #: The vectors are gradients of the result; it takes others.

    @property
    def kind(self) -> tuple[Any, ...]:
        """The dtype and the shape of the queries."""
        length = self.positions.shape[1 if self.own else 0]
        return (self.rows.dtype.name, len(self.scales), self.heads, length, self.rows.shape[1])

    def whole(self) -> Request:
        """Return the request."""
        held = self.rows.dtype
        exact = np.dtype(np.float32) if held.itemsize == 2 else held  # which multiplies faster
        factors = self.scales.astype(exact)[:, :, None, None]
        every = (self.rows.astype(exact, copy=False) * factors).astype(held, copy=False)
        length = self.positions.shape[1 if self.own else 0]
        if length > len(self.rows):
            every = every.take(range(length), axis=2, mode="wrap")
        given = tuple(every[:, :n] for n in (self.heads, self.key_heads) if n is not None)
        gradient = None
        if self.gradient:  # of other vectors, on which it does not depend
            gradient, given = given, tuple(np.roll(each, 1, axis=-1) for each in given)
        return Request(
            q=given[0],
            k=given[1] if len(given) > 1 else None,
            positions=self.positions,
            own=self.own,
            memory=self.memory,
            gradient=gradient,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Unlike:
    """A result unlike that of the same call alone; heads of keys follow those of queries."""

    when: str  #: What was otherwise.
    second: bool  #: It is that of the second of two calls.
    alone: NDArray[Any]
    together: NDArray[Any] | None  #: None if it raised.
    error: str | None  #: What it raised.


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """The result of a call."""

    q: NDArray[Any]  #: As in the request, in the dtype of the result; scores for scores.
    k: NDArray[Any] | None = None
    v: NDArray[Any] | None = None  #: Of packed q, k and v: the values, which were the keys.
    in_place: bool = False  #: The result was written over the argument.
    #: Arguments that were written into: name, and the first element that changed.
    changed: tuple[tuple[str, str], ...] = ()
    gradient: tuple[NDArray[Any], ...] | None = None  #: As in the request.
    note: str | None = None  #: What a reader should know of the gradient.
    reread: NDArray[Any] | None = None  #: The first result after the later calls.
    unlike: Unlike | None = None  #: What two calls at the same time gave that they do not alone.


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of an implementation."""

    name: str
    kind: str  #: As in `inspect`: POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, VAR_POSITIONAL, ...
    required: bool
    default: Any = None  #: Numbers, strings, booleans and None; anything else as its text.
    annotation: str = ""
    #: Of an annotation that is a class, such as a configuration: its name and parameters.
    made_by: tuple[str, tuple[Parameter, ...]] | None = None


@dataclass(frozen=True, kw_only=True)
class Description:
    """Description of an implementation."""

    name: str  #: The name by which a call names it.
    kind: str  #: "function", "class" or "instance".
    type_name: str  #: Name of its type.
    is_callable: bool  #: Whether it, or an instance of the class, can be called itself.
    parameters: tuple[Parameter, ...] | None  #: Of the function, or of the class; None: unknown.
    #: Of a class or instance: the parameters of its methods forward, __call__, ...
    methods: dict[str, tuple[Parameter, ...]] = field(default_factory=dict)
    frameworks: tuple[str, ...] = ()  #: That its code mentions, most likely first.
    other: str = ""  #: Name of the second function, which turns vectors by the first one's tables.
    other_parameters: tuple[Parameter, ...] | None = None
    module: str = ""  #: The module from which others import it; empty if it is in none.
    path: str = ""  #: Its name there, with dots where it is an attribute of a class.
