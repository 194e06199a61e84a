"""A call of an implementation: what goes in, what comes out, and how it fails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array, dtype_name
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
class Call:
    """One call: vectors, their positions, and how they are handed over.

    All heads of all sequences have the same vectors, each times a factor of its own: a call is
    short to send, and what must come out is computed once for all heads. Arrays are of NumPy, in
    the order batch, heads, sequence, head dim.
    """

    #: (rows, head_dim), in the dtype of the data; a longer sequence has them once more. Or one for
    #: each token of each head, (batch, heads, length, head_dim), where factors are left out.
    vectors: NDArray[Any]
    positions: NDArray[np.int64]  #: (length,), with axes (length, axes).
    per_sequence: bool = False  #: Each sequence has its own: one more axis of the batch, first.
    #: Factor of the vectors, (batch, heads): powers of two that the dtype does not round.
    scales: NDArray[np.float64] = field(default_factory=lambda: np.ones((1, 1)))
    key_heads: int = 0  #: Of the heads, the last ones, which are keys; 0: keys are the queries.
    memory: str = "contiguous"  #: How x lies in memory, one of `MEMORY`.
    gradient: bool = False  #: The vectors are gradients of the result; it takes others.
    arrangement: Convention | None = None  #: The axes in which it is made, if not the first.
    mode: str = "prefill"  #: The kind of its positions.
    promised: int = 0  #: Positions that it may not refuse, from 0 on.
    stepwise: bool = False  #: Of a decoder: step through all but the tokens prefilled.
    prefilled: int = 0  #: Of a decoder: tokens to prefill.
    continues: bool = False  #: Of a decoder: another sequence on the instance of the call before.
    watch: bool = False  #: Report which arguments were written into.
    followed_by: tuple[Call, ...] = ()  #: Calls after which the first result is read once more.

    @classmethod
    def of(
        cls,
        q: NDArray[Any],
        positions: NDArray[np.int64],
        k: NDArray[Any] | None = None,
        **more: Any,
    ) -> Call:
        """Return a call of queries, and of keys, (batch, heads, length, head_dim)."""
        every = q if k is None else np.concatenate([q, k], axis=1)
        key_heads = 0 if k is None else k.shape[1]
        scales = np.ones(every.shape[:2])
        return cls(vectors=every, scales=scales, key_heads=key_heads, positions=positions, **more)

    @property
    def batch(self) -> int:
        """Sequences."""
        return len(self.scales)

    @property
    def heads(self) -> int:
        """Heads of the queries."""
        return int(self.scales.shape[1]) - self.key_heads

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return int(self.positions.shape[1 if self.per_sequence else 0])

    @property
    def dtype(self) -> str:
        """Dtype of the vectors."""
        return known_dtype(self.vectors)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The shape of the queries."""
        return self.batch, self.heads, self.length, self.vectors.shape[-1]

    @property
    def rows(self) -> int:
        """Rows of the queries."""
        return math.prod(self.shape[:3])

    @property
    def nbytes(self) -> int:
        """Bytes of the queries."""
        return math.prod(self.shape) * self.vectors.itemsize

    @property
    def by_sequence(self) -> NDArray[np.int64]:
        """Positions of each sequence, or of all, (batch or 1, length)."""
        return self.positions if self.per_sequence else self.positions[None]

    @property
    def m(self) -> Array:
        """Positions of the rows of one sequence, as float64."""
        return self.positions.astype(np.float64)

    @property
    def x(self) -> Array:
        """The vectors of one sequence, without factors, as float64, (length, head_dim)."""
        return self.vectors.take(range(self.length), axis=0, mode="wrap").astype(np.float64)

    @property
    def q(self) -> NDArray[Any]:
        """The queries that it is given."""
        return self._given_vectors(self.heads_of("q"))

    @property
    def k(self) -> NDArray[Any]:
        """The keys that it is given."""
        return self._given_vectors(self.heads_of("k"))

    @property
    def gradients(self) -> tuple[NDArray[Any], ...]:
        """The gradients of the results, of q and of k if it has its own."""
        every = self.whole().vectors
        return tuple(every[:, self.heads_of(array)] for array in self.arrays)

    def _given_vectors(self, heads: slice) -> NDArray[Any]:
        vectors = self.whole().vectors[:, heads]
        # A gradient does not depend on the vectors it is taken at.
        return np.roll(vectors, 1, axis=-1) if self.gradient else vectors

    @property
    def arrays(self) -> str:
        """The arrays that have vectors of their own: q, and perhaps k."""
        return "qk" if self.key_heads else "q"

    def heads_of(self, array: str) -> slice:
        """Return which of the heads are those of q, k or v."""
        return slice(self.heads) if array == "q" or not self.key_heads else slice(self.heads, None)

    def position_of(self, row: int) -> NDArray[np.int64]:
        """Return the position of a row, counted through sequences, heads and tokens."""
        sequence, _, token = np.unravel_index(row, self.shape[:3])
        return np.asarray(self.by_sequence[sequence if self.per_sequence else 0, token])

    def whole(self) -> Call:
        """Return the call with a vector for each token of each head."""
        if self.vectors.ndim > 2:
            return self
        held = self.vectors.dtype
        exact = np.dtype(np.float32) if held.itemsize == 2 else held  # which multiplies faster
        factors = self.scales.astype(exact)[:, :, None, None]
        every = (self.vectors.astype(exact, copy=False) * factors).astype(held, copy=False)
        if self.length != every.shape[2]:
            every = every.take(range(self.length), axis=2, mode="wrap")
        return replace(self, vectors=every)

    def __str__(self) -> str:
        """A call as a sentence says it."""
        flat = self.positions
        places = f"positions {flat.min():,} to {flat.max():,}" if flat.size > 1 else ""
        places = places or f"position {int(flat.flat[0]):,}"
        size = f"{self.batch} x {self.heads} x {self.length} vectors of {self.dtype}"
        size += ", gradient" if self.gradient else ""
        memory = "" if self.memory == "contiguous" else f", {self.memory}"
        per_sequence = ", each sequence its own" if self.per_sequence and self.batch > 1 else ""
        axes = "" if self.arrangement is None else f", {self.arrangement.describe_axes()}"
        return f"{size}{memory}{axes}, {places}{per_sequence}"


@dataclass(frozen=True, kw_only=True, eq=False)
class Response:
    """The result of a call."""

    q: NDArray[Any]  #: As in the call, in the dtype of the result.
    k: NDArray[Any] | None = None
    v: NDArray[Any] | None = None  #: Of packed q, k and v: the values, which were the keys.
    ignored: int = 0  #: Further arrays that it returned, which are not judged.
    in_place: bool = False  #: The result was written over the argument.
    #: Arguments that were written into: name, and the first change, "x[0, 1] was 0.5, is 0.25".
    changed: tuple[tuple[str, str], ...] = ()
    gradient: tuple[NDArray[Any], ...] | None = None  #: Of q, and of k if it has its own.
    note: str | None = None  #: What a reader should know of the gradient.
    reread: NDArray[Any] | None = None  #: The first result after the later calls.


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluation:
    """A call by an expression over the implementation's name and values of any kind."""

    text: str
    framework: str
    values: Mapping[str, Any]  #: Arrays of NumPy become the framework's; other values stay.
    instance: int = 0  #: Of a class: calls of one number share the instance that the first made.
    #: Seed of the trainable parameters of an instance, which are set; None: they stay.
    weights: int | None = None

    def __str__(self) -> str:
        """A call as a sentence says it."""
        return self.text


@dataclass(frozen=True, kw_only=True, eq=False)
class Evaluated:
    """The result of an expression."""

    results: tuple[NDArray[Any], ...]
    weights: Mapping[str, NDArray[Any]]  #: Trainable parameters of the instance, by name.
    changed: tuple[
        tuple[str, str], ...
    ] = ()  #: Arguments that were written into, as in `Response`.


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


def real_numbers(result: NDArray[Any], dtype: str) -> NDArray[np.float64]:
    """Return a result of any shape, for data of a dtype, as float64."""
    return to_float64(check_real(result, dtype))


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
