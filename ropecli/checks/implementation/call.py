"""A call of an implementation: its convention, what goes in, what comes out, and how it fails."""

from __future__ import annotations

import ast
import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, dtype_name
from ropecli.checks.law import Outcome
from ropecli.errors import ArgumentError
from ropecli.names import one_of
from ropecli.units import UNIT

#: What a call may name, besides the implementation itself; `calling/values.py` makes them.
ROLES = {
    "x": "vectors",
    "q": "queries",
    "k": "keys",
    "qkv": "queries, keys and values stacked on the axis 3 of `axes_of_x`",
    "positions": "integers",
    "offset": "the first position, where they are consecutive",
    "offsets": "the first position of each sequence, (batch,)",
    "length": "number of tokens",
    "cos": "cosines, times the attention factor",
    "sin": "sines, times the attention factor",
    "freqs": "angles of each token, in the form of `freqs`",
    "cos_cache": "cosines of every position, (context, columns)",
    "sin_cache": "sines of every position, (context, columns)",
    "freqs_cache": "angles of every position, in the form of `freqs`, (context, ...)",
    "cos_sin_cache": "cosines and sines of every position side by side, (context, rotary dim)",
    "inv_freq": "inverse frequencies, (pairs,)",
    "head_dim": "coordinates of a vector",
    "rotary_dim": "coordinates that are rotated",
    "heads": "heads of the queries",
    "key_heads": "heads of the keys",
    "axes_dims": "even shares of head_dim for the coordinates of a position, a tuple",
    "grid": "sizes of a grid that has all positions, one for each of their coordinates, a tuple",
    "places": "number of each token in that grid, whose last coordinate counts first",
    "base": "base of the frequencies",
    "context": "positions that must be taken",
    "dtype": "dtype of x, as the framework names it; float32 where an instance is made",
    "end": "the largest position, plus 1",
    "cu_seqlens": "where each sequence begins in b*s, and the last one ends, int32, (batch + 1,)",
    "out": "array of x's shape and dtype for the result, full of NaN",
    "config": "where an instance is made: object with these sizes, by the names that models use",
}
#: Forms of `freqs`, and the shape of one token's.
FREQS = {
    "angles": "(columns,), radians",
    "complex": "(pairs,), cos + i sin",
    "cos sin": "(columns, 2)",
    "matrix": "(pairs, 2, 2), the rotation of each pair",
    "cos then sin": "(2 columns,), the cosines first",
    "sin then cos": "(2 columns,), the sines first",
    "stacked": "(columns,), in an array (2, ...) of cosines and sines",
}
PACKED = "3"  #: The axis on which q, k and v are stacked.
#: Tables with a row for each token, and those with a row for each position.
TABLES = ("cos", "sin", "freqs")
CACHES = ("cos_cache", "sin_cache", "freqs_cache", "cos_sin_cache")
COLUMNS = {
    "half": "each frequency in both halves",
    "interleaved": "twice side by side",
    "single": "once",
}
POSITIONS_DTYPES = ("int64", "int32", "float32")
#: Calls that are met most, and their arguments.
FORMS = {
    "apply": "x, positions",
    "tables": "q, k, cos, sin",
    "module": "x, positions",
    "decoder": "x",
    "score": "q, k, positions",
}
#: Calls of a decoder's instance.
PREFILL, STEP = ".prefill(x)", ".step(x)"
FRAMEWORKS = ("numpy", "torch", "jax", "mlx", "tensorflow", "tinygrad")
#: Ways in which x lies in memory.
MEMORY = ("contiguous", "transposed", "sliced", "strided", "expanded", "offset")
NOTHING_WRITTEN = "it must be an array of numbers, got NoneType, and nothing was written over x"


@dataclass(frozen=True, kw_only=True)
class Convention:
    """A calling convention: an expression and the axes of what it names.

    `call` is a Python expression over the implementation's name and the names of `ROLES`, such as
    `apply(q, k, cos, sin)` or `Rotary(dim=head_dim)(x, positions)`. A call of a class makes an
    instance once, which later calls use again.

    Axes are written as letters: b(atch), h(eads), s(equence), d (head dim), 1, and products such as
    b*s. Axes left out have length 1.
    """

    call: str
    scores: bool = False  #: It returns the scores before softmax, (queries, keys).
    step: str = ""  #: Of a decoder: the call with one more token.
    axes_of_x: str = "b h s d"
    axes_of_positions: str = "s"  #: With a b in it they are always given for each sequence.
    axes_of_tables: str = "b s d"  #: Of cos, sin and freqs; of caches without b.
    columns: str = "half"  #: Columns of tables: one of `COLUMNS`.
    freqs: str = "angles"  #: One of `FREQS`.
    tables_dtype: str = ""  #: Dtype of tables; that of x if empty, of angles float32 at least.
    positions_dtype: str = "int64"
    framework: str = "numpy"

    def __post_init__(self) -> None:
        """Validate."""
        for name, value, allowed in (
            ("freqs", self.freqs, FREQS),
            ("tables", self.columns, COLUMNS),
            ("framework", self.framework, FRAMEWORKS),
            ("positions dtype", self.positions_dtype, POSITIONS_DTYPES),
            ("tables dtype", self.tables_dtype or next(iter(UNIT)), UNIT),
        ):
            one_of(name, value, allowed)
        for text in filter(None, (self.call, self.step)):
            _names_in(text)
        letters("axes of x", self.axes_of_x, needed="sd")
        letters("axes of positions", self.axes_of_positions, needed="s", known="bs")
        letters("axes of tables", self.axes_of_tables, needed="sd")

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names that the call mentions."""
        return frozenset[str]().union(*map(_names_in, filter(None, (self.call, self.step))))

    def options(self) -> str:
        """The command-line options that say this convention, as they can be pasted."""
        names = {
            "call": "--call",
            "axes_of_x": "--axes-of-x",
            "axes_of_positions": "--axes-of-positions",
            "axes_of_tables": "--axes-of-tables",
            "columns": "--tables",
            "freqs": "--freqs",
            "tables_dtype": "--tables-dtype",
            "positions_dtype": "--positions-dtype",
            "framework": "--framework",
        }
        unused = {"scores", "step"}  # a form says them
        if not self.names & {*TABLES, *CACHES}:
            unused.add("columns")
        if not self.names & {*TABLES, *CACHES, "inv_freq"}:
            unused.add("tables_dtype")
        if not self.names & {*TABLES} and "1" not in self.axes_of_tables:
            unused.add("axes_of_tables")  # of a cache: (rows, columns)
        if not self.names & {"freqs", "freqs_cache"}:
            unused.add("freqs")
        if "positions" not in self.names:
            unused |= {"axes_of_positions", "positions_dtype"}
        words = []
        for field in fields(self):
            value = getattr(self, field.name)
            shown = field.name in {"call", "axes_of_x"} or value != field.default
            if shown and field.name not in unused:
                words.append(f"{names[field.name]} {_quote(value)}")
        form = "score" if self.scores else "decoder" if self.step else ""
        return " ".join([*words, *([f"--form {form}"] if form else [])])

    def describe_axes(self) -> str:
        """The axes of the vectors, and of the tables if there are any."""
        tables = f", tables {self.axes_of_tables}" if self.names & {*TABLES} else ""
        return f"axes {self.axes_of_x}{tables}"

    def with_keywords(self, target: str, more: Mapping[str, Any]) -> Convention:
        """The convention with other keyword arguments where the implementation itself is called."""
        if not more:
            return self
        call, step = (_with_keywords(each, target, more) for each in (self.call, self.step))
        return replace(self, call=call, step=step)


def _with_keywords(text: str, target: str, more: Mapping[str, Any]) -> str:
    """Return a call with other keyword arguments where the implementation itself is called."""
    if not text:
        return text
    tree = parse_call(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called_name(node) == target:
            kept = [word for word in node.keywords if word.arg not in more]
            added = [ast.keyword(arg=k, value=ast.Constant(v)) for k, v in more.items()]
            node.keywords = [*kept, *added]
    return ast.unparse(tree)


def _quote(text: str) -> str:
    quoted = shlex.quote(text)
    return f'"{text}"' if quoted != text and not set(text) & set('"$`\\!') else quoted


@functools.lru_cache(maxsize=1024)
def _names_in(text: str) -> frozenset[str]:
    """Return the names of an expression but those called, which may be named as an argument is."""
    nodes = [*ast.walk(tree := parse_call(text))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    outermost: ast.AST = tree.body
    while isinstance(outermost, ast.Call | ast.Attribute):
        outermost = outermost.func if isinstance(outermost, ast.Call) else outermost.value
    return frozenset(
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and node not in called and node is not outermost
    )


def parse_call(text: str) -> ast.Expression:
    """Parse an expression."""
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError) as error:
        msg = f"call must be a Python expression such as apply(x, positions), got {text!r}"
        msg += f": {error}"
        raise ArgumentError(msg) from None


def called_name(node: ast.Call) -> str:
    """The plain name that is called; empty if it is something else."""
    return node.func.id if isinstance(node.func, ast.Name) else ""


@functools.lru_cache(maxsize=256)
def letters(
    name: str, text: str, *, needed: str = "", known: str = "bhsd"
) -> tuple[tuple[str, ...], ...]:
    """Return the letters of each axis: "b*s h d" becomes (("b", "s"), ("h",), ("d",))."""
    words = text.replace("tokens", "b*s").split()
    split = [word.split("*") for word in words if word != PACKED]
    axes = tuple(tuple(letter for letter in word if letter != "1") for word in split)
    flat = [letter for axis in axes for letter in axis]
    if not words or set(flat) - set(known) or len(set(flat)) < len(flat) or set(needed) - set(flat):
        example = "'b h s d' or 'b*s h*d'" if "d" in known else "'b s' or 'b*s'"
        msg = f"{name} must be letters of {' '.join(known)}, each once, such as {example}"
        msg += f", got {text!r}"
        raise ArgumentError(msg)
    return axes


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
    """A call in which all heads have the same vectors, but for a factor; short to send."""

    #: (rows, head_dim), in the dtype of the data; a longer sequence has them once more.
    rows: NDArray[Any]
    scales: NDArray[np.float64]  #: (batch, heads), powers of two that the dtype does not round.
    heads: int  #: Of the queries.
    key_heads: int | None  #: None: no keys.
    #: As in `Request`.
    positions: NDArray[np.int64]
    own: bool
    memory: str
    gradient: bool  #: The vectors are gradients of the result; it takes others.

    @property
    def kind(self) -> tuple[Any, ...]:
        """The dtype and the shape of the queries."""
        length = self.positions.shape[1 if self.own else 0]
        return (self.rows.dtype.name, len(self.scales), self.heads, length, self.rows.shape[1])

    def whole(self) -> Request:
        """Return the request with all its vectors."""
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

    when: str  #: What the other thread did.
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


class ImplementationError(Exception):
    """The implementation raised, or returned no array of the right shape; in one line."""


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
