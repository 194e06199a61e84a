"""Faults, each in a place: how a row goes wrong, and in which calls and rows.

A `Mutant` is a fault in a place. It is planted in RoPE written out in NumPy, by `Mutant.target`, or
in other right code, by `right_code.plant`. What it sees is a `Call`: vectors (batch, heads, length,
head_dim) and positions. With the fault switched off a mutant is its twin, which is right.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from implementations.plain import Array
from judging import check_here, refusals
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

from ropecli import Rotary

DIM = 16
ROPE = Rotary(head_dim=DIM, layout="half")
THETA = ROPE.inv_freq
FULL = 131_072  #: Positions of a context in which one row alone may be wrong.
SHORT = 8192  #: Positions of the context of most mutants, which is quicker.
FAR = {"context_length": FULL}
HALF = {"dtypes": ("float32", "float16")}
HALVES = {"dtypes": ("float32", "float16", "bfloat16")}


@dataclass(kw_only=True, eq=False)
class History:
    """State of an implementation between calls."""

    calls: int = 0
    longest: int = 0
    dtypes: set[str] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    results: dict[Any, Array] = field(default_factory=dict)  #: The last one of each shape.
    capacity: int = 64  #: Rows of a table that doubles when a position is beyond it.
    sequences: int = 0  #: Of a decoder: those begun before this one,
    steps: int = 0  #: the steps of this one,
    stepped: bool = False  #: and whether there was a step in any before.
    seen: set[Any] = field(default_factory=set)  #: Of planted faults: shapes and dtypes of calls,
    sibling: bool = False  #: and whether another instance lived when this one was made.

    def add(self, call: Call, y: Array) -> None:
        """Remember a call."""
        self.calls += 1
        self.longest = max(self.longest, call.length)
        self.dtypes.add(call.dtype)
        self.lengths.add(call.length)
        self.results[call.key] = y.copy()
        while self.capacity <= call.positions.max(initial=0):
            self.capacity *= 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """Input of an implementation, and its right result."""

    x: Array  #: (batch, heads, length, head_dim), in any memory.
    positions: Array  #: (batch or 1, length), float64, with one more axis for several.
    before: History
    part: str = "x"  #: "x", or "q" or "k" of a kernel that takes both.
    other: Any = None  #: Of k, the queries; of q, the keys.
    mode: str = "call"  #: Of a decoder: "prefill" or "step".
    rope: Rotary = ROPE
    y: Any = None  #: The right result, where other code has made it.
    text: str = "b h s d"  #: Axes of the array.
    axis: str = "s"  #: Along which rows are exchanged.
    strided: bool = False
    again: bool = False  #: It is not the first call of its shape and dtype.

    @property
    def batch(self) -> int:
        return int(self.x.shape[0])

    @property
    def heads(self) -> int:
        return int(self.x.shape[1])

    @property
    def length(self) -> int:
        return int(self.x.shape[2])

    @property
    def ndim(self) -> int:
        return len(self.text.split())

    @property
    def dtype(self) -> str:
        return str(self.x.dtype)

    @property
    def sequence(self) -> Array:
        """Index of each row's sequence, (batch, 1, 1)."""
        return np.arange(self.batch)[:, None, None]

    @property
    def head(self) -> Array:
        return np.arange(self.heads)[:, None]

    @property
    def row(self) -> Array:
        return np.arange(self.length)

    @property
    def token(self) -> Array:
        """Index of each row's token among those of all sequences."""
        return self.sequence * self.length + self.row

    @property
    def flat(self) -> Array:
        """Index of each row in the whole call."""
        return (self.sequence * self.heads + self.head) * self.length + self.row

    @property
    def m(self) -> Array:
        """Position of each row, (batch or 1, 1, length), on the first axis of several."""
        return (self.positions if self.positions.ndim == 2 else self.positions[..., 0])[:, None]

    @property
    def own(self) -> bool:
        """True if sequences have positions of their own."""
        return bool((self.positions != self.positions[:1]).any())

    @property
    def fewer(self) -> bool:
        """True for keys with fewer heads than the queries."""
        return self.part == "k" and bool(self.heads < self.other.shape[1])

    @property
    def packed(self) -> bool:
        return self.length > 1 and bool((np.diff(self.positions, axis=1) < 0).any())

    @property
    def chunk(self) -> bool:
        """True if it continues where another call ended."""
        steps = np.diff(self.positions, axis=1)
        return self.length > 1 and bool((steps == 1).all() and (self.positions[:, 0] > 0).all())

    @property
    def memory(self) -> str:
        """Layout of x in memory."""
        x = self.x
        if any(stride == 0 for size, stride in zip(x.shape, x.strides, strict=True) if size > 1):
            return "expanded"
        if x.strides[-1] != x.itemsize:
            return "strided"
        if x.flags.c_contiguous:
            return "contiguous" if _root(x).ctypes.data == x.ctypes.data else "offset"
        long = [stride for size, stride in zip(x.shape, x.strides, strict=True) if size > 1]
        return "sliced" if long == sorted(long, reverse=True) else "transposed"

    @property
    def key(self) -> Any:
        return (self.part, self.x.shape, str(self.x.dtype))

    def turn(
        self,
        m: Array | None = None,
        theta: Array | None = None,
        x: Array | None = None,
        *,
        step: float = 0,
        sign: int = 1,
        pairs: Array | None = None,
    ) -> Array:
        """Return rows turned by positions m that are broadcast to (batch, heads, length)."""
        theta = self.rope.inv_freq if theta is None else theta
        if m is None and self.rope.axes > 1:
            angle = ((self.positions + step) @ theta)[:, None]
        else:
            angle = (np.asarray(self.m if m is None else m) + step)[..., None] * theta
        return self.rotate(np.cos(angle), sign * np.sin(angle), x, pairs)

    def rotate(
        self, cos: Array, sin: Array, x: Array | None = None, pairs: Array | None = None
    ) -> Array:
        """Return rows turned by tables, in float64."""
        rope = self.rope
        before, after = (rope.pairs_in, rope.pairs_out) if pairs is None else (pairs, pairs)
        y = (self.x if x is None else x).astype(np.float64)
        a, b = (rope.attention_factor * y[..., before[:, i]] for i in (0, 1))
        sin = sin if rope.direction == "forward" else -sin
        y[..., after[:, 0]], y[..., after[:, 1]] = a * cos - b * sin, a * sin + b * cos
        return y


def _root(x: Array) -> Array:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


# Faults: what becomes of a row.


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Fault: all rows as they come out of it, or its effect on the result."""

    name: str
    rows: Callable[[Call], Array] | None = None
    effect: Callable[[Call, Array], Array] | None = None
    called: str = ""  #: Pattern of the words that name it, in place of the place's.


def in_float16(call: Call) -> Array:
    with np.errstate(over="ignore"):
        angle = (call.m[..., None] * THETA).astype(np.float16).astype(np.float64)
    angle = np.where(np.isfinite(angle), angle, 0.0)
    return call.rotate(np.cos(angle), np.sin(angle))


def tables_of_bfloat16(call: Call) -> Array:
    angle = call.m[..., None] * THETA
    return call.rotate(*(f(angle).astype(bfloat16).astype(np.float64) for f in (np.cos, np.sin)))


def in_another_layout(call: Call) -> Array:
    """Halves where neighbours are paired, and neighbours where anything else is."""
    used = np.sort(call.rope.pairs_in.ravel())
    neighbours, halves = used.reshape(-1, 2), used.reshape(2, -1).T
    return call.turn(pairs=halves if (neighbours == call.rope.pairs_in).all() else neighbours)


def of_another_base(call: Call) -> Array:
    theta = call.rope.inv_freq
    return call.turn(theta=np.sign(theta) * np.abs(theta) ** 1.5)


def one_pair_twice(call: Call) -> Array:
    """The fifth pair turns as the fourth."""
    theta = THETA.copy()
    theta[4] = theta[3]
    return call.turn(theta=theta)


def last_pair_fixed(call: Call) -> Array:
    return call.turn(theta=np.append(THETA[:-1], 0.0))


def stale(call: Call) -> Array:
    """Rows that the last call of this shape left in the buffer."""
    return call.before.results.get(call.key, np.zeros_like(call.x))


def from_memory(call: Call, *, from_start: bool = False) -> Array:
    """Rows as they lie one after another in memory, turned; beyond its end are zeros."""
    root = _root(call.x)
    begin = (call.x.ctypes.data - root.ctypes.data) // call.x.itemsize
    size = root.size if root.flags.c_contiguous else call.x.size
    flat = np.append(as_strided(root, (size,), (call.x.itemsize,)), np.zeros(1, call.x.dtype))
    places = np.minimum(np.arange(call.x.size) + (0 if from_start else begin), size)
    return call.turn(x=flat[places].reshape(call.x.shape))


def of_queries(call: Call) -> Array:
    """Keys read by the heads of the queries: tokens lie further apart than they do."""
    assert call.other is not None
    tokens = call.x.transpose(0, 2, 1, 3).ravel()
    heads = call.other.shape[1]
    token = (call.sequence * call.length + call.row) * heads + call.head
    places = token[..., None] * DIM + np.arange(DIM)
    return call.turn(x=np.take(tokens, places, mode="wrap"))


def cross(call: Call) -> Array:
    """Compute the first half from the other of q and k."""
    assert call.other is not None
    heads = np.minimum(np.arange(call.heads), call.other.shape[1] - 1)
    from_other = call.turn(x=call.other[:, heads])
    return np.concatenate([from_other[..., : DIM // 2], call.turn()[..., DIM // 2 :]], axis=-1)


def words_of_32_bits(call: Call) -> Array:
    """Positions of 64 bits read as if they had 32: every other one is the upper half, 0."""
    m = np.where(call.row % 2, 0.0, call.m[..., call.row // 2])
    return call.turn(m)


def overwrite_half(call: Call) -> Array:
    """Overwrite the first half before the second one has read it."""
    half, angle = DIM // 2, call.m[..., None] * THETA
    first = call.turn()[..., :half]
    a, b = first.astype(np.float64), call.x[..., half:].astype(np.float64)
    second = (b * np.cos(angle) + a * np.sin(angle)).astype(call.x.dtype)
    return np.concatenate([first, second], axis=-1)


def offset_of_16_bits(call: Call) -> Array:
    """Rows are read where an element's offset, kept in 16 bits, points."""
    rows = call.turn().reshape(-1, DIM)
    read = (np.arange(len(rows)) * DIM % 2**16) // DIM
    return rows[read].reshape(call.x.shape)


def into_input(call: Call, y: Array) -> Array:
    call.x[...] = y
    return y


def into_one_buffer(call: Call, y: Array) -> Array:
    buffers = call.before.results
    buffer = buffers.setdefault(("buffer", call.key), np.empty_like(y))
    buffer[...] = y
    return buffer


def in_turns(call: Call, y: Array) -> Array:
    """Two buffers for each shape, one after the other."""
    buffers = call.before.results
    number = call.before.calls % 2
    buffer = buffers.setdefault(("turn", number, call.key), np.empty_like(y))
    buffer[...] = y
    return buffer


def in_one_pool(call: Call, y: Array) -> Array:
    """The beginning of one buffer for all shapes."""
    pool = call.before.results.setdefault("pool", np.empty(2**24, y.dtype))
    view: Array = pool[: y.size].reshape(y.shape)
    view[...] = y
    return view


def position_fault(name: str, positions: Callable[[Call], Array]) -> Fault:
    return Fault(name=name, rows=lambda call: call.turn(positions(call)))


NOT_TURNED = Fault(name="not turned", rows=lambda call: call.x)
NEXT = position_fault("turned as its neighbour", lambda call: call.m + 1)
SIGN = position_fault("turned the other way", lambda call: -call.m)
NAN = Fault(name="NaN", rows=lambda call: np.full_like(call.x, np.nan))
ZEROS = Fault(name="zeros", rows=lambda call: np.zeros_like(call.x))
STALE = Fault(name="stale", rows=stale)
FACTOR = Fault(name="factor", rows=lambda call: 1.125 * call.turn())
PAIR = Fault(name="one pair turned as another", rows=one_pair_twice)
LAYOUT = Fault(name="neighbouring coordinates paired", rows=in_another_layout)
FLOAT16 = Fault(name="angle in float16", rows=in_float16)
#: Faults that may show anywhere.
GENERAL = (NOT_TURNED, NEXT, SIGN, NAN, ZEROS, STALE, FACTOR, PAIR, LAYOUT, FLOAT16)

INDEX = position_fault("turned by its index", lambda call: call.row + 0.0 * call.m)
FIRST_SEQUENCE = position_fault("positions of the first sequence", lambda call: call.m[:1])
FIRST_POSITION = position_fault("turned by the first position", lambda call: call.m[..., :1])
INT16 = position_fault("int16 positions", lambda call: (call.m + 2**15) % 2**16 - 2**15)
FIXED = position_fault(  # 16 bits before the point and 16 after it
    "int32 fixed point", lambda call: (call.m * 2**16 + 2**31) % 2**32 / 2**16 - 2**15
)
CLAMPED = position_fault("table clamped", lambda call: np.minimum(call.m, 4095))
RUNS_ON = position_fault(
    "positions run on in the next sequence", lambda call: call.m + call.sequence * call.length
)
BY_HEAD = position_fault("turned by position and head", lambda call: call.m + call.head)
ALONG_HEADS = position_fault(
    "turned along the heads",
    lambda call: np.swapaxes(call.m[..., np.arange(call.heads) % call.length], 1, 2),
)
EXCHANGED = position_fault(
    "positions read across sequences",
    lambda call: call.positions.T.reshape(call.m.shape),
)
COUNTS_ON = position_fault(
    "counts on across the boundary", lambda call: np.roll(call.m, 1, axis=-1) + 1
)
AFTER = position_fault("turned as after the call", lambda call: call.m + call.length)
BFLOAT16 = position_fault(
    "positions in bfloat16", lambda call: call.m.astype(bfloat16).astype(np.float64)
)
CONTIGUOUS = Fault(name="read as contiguous", rows=from_memory)
FROM_START = Fault(
    name="offset of the storage ignored", rows=lambda call: from_memory(call, from_start=True)
)
OF_QUERIES = Fault(name="heads of q used for k", rows=of_queries)
CROSSED = Fault(name="half of it from the other one", rows=cross)
WORDS = Fault(name="int64 positions read as int32", rows=words_of_32_bits)
FAST_SINE = Fault(  # an argument reduced in single precision
    name="phase lost far out",
    rows=lambda call: call.turn(call.m * (1 + 2.0**-17)),
    called="lose digits",
)
INTO_INPUT = Fault(name="written into the input", effect=into_input)
INTO_BUFFER = Fault(name="one buffer for all results", effect=into_one_buffer)
SQUEEZED = Fault(name="axis of length 1 dropped", effect=lambda _, y: y[:, :, 0])
WIDENED = Fault(name="returned in float64", effect=lambda _, y: y.astype(np.float64))
ALIASED = Fault(name="half overwritten before it is read", rows=overwrite_half)
TABLES = Fault(name="tables in bfloat16", rows=tables_of_bfloat16)
OFFSET = Fault(name="offset of 16 bits", rows=offset_of_16_bits)
LAST_PAIR = Fault(name="last pair left alone", rows=last_pair_fixed)
BYTE = position_fault("position of 8 bits", lambda call: call.m % 256)
REDUCED = position_fault("angle reduced in single precision", lambda call: call.m * (1 + 2.0**-20))
GOES_ON = position_fault(
    "counts on from the sequence before", lambda call: call.m + sum(call.before.lengths)
)
TURNS = Fault(name="two buffers in turn", effect=in_turns)
POOL = Fault(name="one buffer for all shapes", effect=in_one_pool)
#: Those that are planted in other right code.
ANYWHERE = (
    Fault(name="left unrotated", rows=NOT_TURNED.rows),
    Fault(name="zeroed", rows=ZEROS.rows),
    Fault(name="exchanged", rows=lambda call: np.roll(call.y, -1, axis="bhs".index(call.axis))),
    Fault(name="at the next position", rows=lambda call: call.turn(step=1)),
    Fault(name="of another base", rows=of_another_base),
    Fault(name="rotated the other way", rows=lambda call: call.turn(sign=-1)),
    Fault(name="in another layout", rows=in_another_layout),
)


# Places: the rows where a fault shows.


@dataclass(frozen=True)
class Place:
    """Rows where a fault shows."""

    name: str
    says: str  #: Pattern of the words by which the verdict must name it.
    wrong: Callable[[Call], Any]  #: Broadcast to (batch, heads, length): which rows.
    form: str = "function"  #: "function", "class", "both" or "decoder".
    options: Mapping[str, Any] = field(default_factory=dict)  #: Of check.
    axis: str = "s"  #: Along which rows are exchanged.


def head_from(n: int) -> Place:
    says = rf"heads from .*\b{n + 1}(st|nd|rd|th)"
    return Place(f"heads from index {n}", says, lambda c: c.head >= n)


def heads_above(n: int) -> Place:
    return Place(f"more than {n} heads", f"more than {n} heads", lambda c: c.heads > n)


def tail(n: int) -> Place:
    name = f"last n mod {n} rows"
    return Place(name, name, lambda c: c.row >= c.length - c.length % n)


def no_multiple(n: int) -> Place:
    says = f"not a multiple of {n}"
    return Place(f"length {says}", says, lambda c: c.length % n != 0)


def longer(n: int) -> Place:
    return Place(f"length above {n:,}", f"more than {n:,} tokens", lambda c: c.length > n)


def flat_from(n: int) -> Place:
    says = f"rows of the whole call from the {n + 1:,}"
    return Place(f"rows of the call from index {n:,}", says, lambda c: c.flat >= n)


def batch_above(n: int) -> Place:
    return Place(f"batch above {n}", f"batches of more than {n}", lambda c: c.batch > n)


def sequence_from(n: int) -> Place:
    says = rf"sequences of a batch from .*\b{n + 1}(st|nd|rd|th)"
    return Place(f"sequences from index {n}", says, lambda c: c.sequence >= n)


def in_memory(kind: str) -> Place:
    return Place(f"{kind} input", kind, lambda c: c.memory == kind)


def in_dtype(name: str) -> Place:
    return Place(f"{name} only", name, lambda c: c.dtype == name, options=HALVES)


def padded(call: Call) -> Array:
    zeros: Array = (call.positions[:, :1] == 0) & (call.positions == 0)
    where: Array = call.own & (zeros.sum(axis=1) > 1)[:, None, None]
    return where


def nth_packed(call: Call) -> Array:
    """Index of the packed sequence that a row is in."""
    begins = np.diff(call.positions, axis=1, prepend=call.positions[:, :1]) < 0
    return np.cumsum(begins, axis=1)[:, None]


#: Places with the faults that show there; where none are named, three of the general ones in turn.
TABLE: tuple[tuple[Any, ...], ...] = (
    (head_from(8),),
    (head_from(16),),
    (heads_above(8),),
    (heads_above(32),),
    (tail(64),),
    (tail(32),),
    (tail(128),),
    (no_multiple(64),),
    (longer(4096),),
    (flat_from(4096),),
    (Place("one row in 131,072", "98,765", lambda c: c.m == 98_765, options=FAR), NOT_TURNED, NEXT,
      STALE),
    (Place("row 98,765 of a long call", "98,76[56]", lambda c: c.row == 98_765, options=FAR),
      NOT_TURNED, ZEROS),
    (Place("one token at position 4,096", "4,?096", lambda c: (c.length == 1) & (c.m == 4096)),),
    (Place("one token of float16 at position 32,768", "32,?768",
      lambda c: (c.length == 1) & (c.m == 32_768) & (c.dtype == "float16"),
      options={**FAR, **HALF}), NEXT, NOT_TURNED),
    (Place("positions from 32,768", "32,?768|int16", lambda c: c.m >= 32_768, options=FAR), INT16,
      FIXED, FAST_SINE),
    (Place("positions from 4,096", "4,?09[56]", lambda c: c.m >= 4096), CLAMPED, NOT_TURNED),
    (batch_above(4),),
    (sequence_from(1),),
    (sequence_from(4),),
    (Place("as many sequences as heads", "as many sequences as heads",
      lambda c: c.batch == c.heads and c.batch > 1),),
    (Place("one token", "decode|1 token|token alone",
      lambda c: c.length == 1 and c.positions.min() > 0),),
    (Place("chunk after a prefill", "chunk|do not start at 0", lambda c: c.chunk), INDEX,
      FIRST_POSITION, FACTOR, NOT_TURNED),
    (Place("packed sequences", "packed", lambda c: c.packed), NEXT, FACTOR, WORDS),
    (Place("positions of each sequence", "own positions|positions of (each|the first)",
      lambda c: c.own), FACTOR, WORDS, NEXT),
    (Place("own positions of the second sequence",
      "own positions|positions of (each|the first)|sequences .*2nd",
      lambda c: c.own & (c.sequence >= 1)), FIRST_SEQUENCE, RUNS_ON),
    *((in_memory(kind), CONTIGUOUS, NOT_TURNED)
      for kind in ("transposed", "sliced", "strided", "expanded")),
    (in_memory("offset"), FROM_START, NOT_TURNED),
    (in_dtype("float16"), FLOAT16, FACTOR, NAN),
    (in_dtype("bfloat16"), FLOAT16, FACTOR, NAN),
    (Place("from the second call on", "second|twice|call", lambda c: c.before.calls > 0, "class"),
      STALE, FACTOR, NEXT),
    (Place("after a longer call", "long", lambda c: c.before.longest > c.length, "class"), FACTOR,
      NEXT, PAIR),
    (Place("after float16", "after .*float16|dtype of the first call|float16",
      lambda c: "float16" in c.before.dtypes and c.dtype != "float16", "class", HALF), FLOAT16,
      FACTOR, NEXT),
    (Place("the call in which a table grows", "grow|cache|table|kept between calls",
      lambda c: (c.before.calls > 0) & (c.m >= c.before.capacity), "class"), NOT_TURNED, ZEROS,
      FIRST_POSITION),
    (Place("a result kept until the next call", "buffer|first result|overwr", lambda c: True,
      "class"), INTO_BUFFER),
    (Place("from the 513th step on", "51[23]",
      lambda c: (c.mode == "step") & (c.before.steps >= 512), "decoder"), NEXT, NOT_TURNED, FACTOR),
    (Place("prefill after decode", "after decode|second sequence|prefill",
      lambda c: (c.mode == "prefill") & c.before.stepped, "decoder"), NEXT, FACTOR),
    (Place("second sequence of a decoder", "second sequence|sequence",
      lambda c: (c.mode == "step") & (c.before.sequences > 1), "decoder"), NEXT, NOT_TURNED),
    (Place("k alone", r"\bk\b|keys", lambda c: c.part == "k", "both"), FACTOR, NOT_TURNED, SIGN,
      CROSSED),
    (Place("k with fewer heads", r"(\bk\b|keys).*(fewer|heads)|(fewer|heads).*(\bk\b|keys)",
      lambda c: c.fewer, "both"), NOT_TURNED, FACTOR, NEXT),
    (Place("tokens of k further apart", r"(\bk\b|keys).*(fewer|heads)|(fewer|heads).*(\bk\b|keys)",
      lambda c: c.fewer and c.token > 0, "both"), OF_QUERIES),
    (Place("q alone", r"\bq\b|queries|keys|shifted by 1", lambda c: c.part == "q", "both"),
      FACTOR, NEXT),
    # Users of released kernels met these, in the thread that is named, and others like them.
    (Place("one token, sequences from the second",  # ml-explore/mlx#3949
      "sequences.*2nd|one token|decode|token", lambda c: (c.length == 1) & (c.sequence > 0)),
      ZEROS),
    (Place("one token, heads from the second",  # elixir-nx/emlx#121
      "heads.*2nd|one token|decode|token", lambda c: (c.length == 1) & (c.head > 0)), BY_HEAD),
    (sequence_from(1), RUNS_ON),  # turboderp/exllama#101
    (Place("q in each call", r"\bq\b|queries", lambda c: c.part == "q",  # hpcaitech/ColossalAI#6444
      "both"), CROSSED),
    (Place("heads of k beyond half of those of q", r"(\bk\b|keys)",  # hpcaitech/ColossalAI#6444
      lambda c: c.fewer and c.heads > 1 and c.head >= c.heads // 2, "both"), ZEROS),
    (Place("heads of q that those of k do not divide",  # fla-org/flash-linear-attention#1029
      r"(\bq\b|queries|heads)",
      lambda c: c.part == "q" and c.head >= c.heads - c.heads % c.other.shape[1], "both"), ZEROS),
    (Place("q of one token", r"(\bq\b|queries|token|decode)",  # ml-explore/mlx-lm#1805
      lambda c: c.part == "q" and c.length == 1, "both"), AFTER),
    (Place("tokens of a k with one head", r"(\bk\b|keys)",  # sgl-project/sglang#20598
      lambda c: c.fewer and c.heads == 1 and c.token > 0, "both"), OF_QUERIES),
    (Place("a k that is not contiguous",  # vllm-project/vllm#17091
      "transposed|sliced|strided|expanded|contiguous",
      lambda c: c.part == "k" and c.memory not in {"contiguous", "offset"}, "both"), CONTIGUOUS),
    (replace(longer(65_535), options=FAR), NOT_TURNED),
    (Place("as many heads as tokens", "as many heads as tokens",  # deepspeedai/DeepSpeed#8052
      lambda c: c.heads == c.length and c.length > 1), ALONG_HEADS),
    (Place("as many sequences as tokens", "as many sequences as tokens",
      lambda c: c.own & (c.batch == c.length) & (c.positions.shape[0] > 1)), EXCHANGED),
    (Place("first token of a packed sequence", "packed|first (row|token)",
      lambda c: (np.diff(c.m, axis=-1, prepend=c.m[..., :1]) < 0) & (c.length > 1)), COUNTS_ON),
    (Place("the second call of a length",  # lucidrains/rotary-embedding-torch#11
      "cache|second|twice|call", lambda c: c.length in c.before.lengths and c.length > 1, "class"),
      FIRST_POSITION),
    (Place("after eight lengths", "call|state|cache|after", lambda c: len(c.before.lengths) >= 8,
      "class"), FACTOR),
    (Place("positions from 40,000 of long calls", "40,?0|lose digits|far",  # kekzl/imp#1316
      lambda c: (c.m >= 40_000) & (c.length > 64), options=FAR), FAST_SINE),
    (Place("long calls in bfloat16", "bfloat16",  # huggingface/candle#3520
      lambda c: (c.length > 256) & (c.dtype == "bfloat16") & (c.m > 256) & (c.m % 2 == 1),
      options=HALVES), BFLOAT16),
    (Place("heads that fill no group of 4", "n mod 4|multiple of 4|last .*heads",
      lambda c: (c.head >= c.heads - c.heads % 4) & (c.heads > 4)), ZEROS),
    (Place("one token, in place", "written into", lambda c: c.length == 1 and c.x.flags.writeable),
      INTO_INPUT),
    (Place("one token, fewer axes", "shape", lambda c: c.length == 1), SQUEEZED),
    (Place("one token of half precision", "float64|dtype",
      lambda c: c.length == 1 and c.x.itemsize == 2, options=HALVES), WIDENED),
    (Place("an odd number of heads, from nine on", "heads",
      lambda c: c.heads % 2 == 1 and c.heads > 8), SIGN),
    (Place("the last row of sequences of more than one token", "last row",
      lambda c: (c.row == c.length - 1) & (c.length > 1)), NEXT),
    (Place("the last sequence of a batch of three or more", "last sequence|sequences",
      lambda c: (c.sequence == c.batch - 1) & (c.batch > 2)), STALE),
    (Place("more than 32 heads in sequences of more than 64", "32 heads.*64|64.*32 heads",
      lambda c: c.heads > 32 and c.length > 64), ZEROS),
    (Place("exactly 3,000 rows", "3,?000", lambda c: c.length == 3000), FACTOR),
    (Place("after five hundred calls", "call", lambda c: c.before.calls >= 500, "class"), NEXT),
    # Launches, offsets, tables, buffers and state.
    (Place("a last row that fills no block of 128", "last (row|n mod)",
      lambda c: (c.row == c.length - 1) & (c.length % 128 == 1)), NOT_TURNED),
    (Place("heads of all sequences from index 256", "heads|sequences|batch",
      lambda c: c.sequence * c.heads + c.head >= 256), NEXT),
    (Place("elements from 65,536", "rows of the whole call from the 4,097",
      lambda c: c.flat * DIM >= 2**16), OFFSET),
    (Place("one token", "decode|1 token|token alone",
      lambda c: c.length == 1 and c.positions.min() > 0), ALIASED),
    (Place("more than 512 tokens", "more than 512 tokens|bfloat16 tables",
      lambda c: c.length > 512), TABLES),
    (Place("one token from position 256", "256", lambda c: (c.length == 1) & (c.m >= 256)), BYTE),
    (Place("rows from index 1,024", "1,?02[45]", lambda c: c.row >= 1024), ZEROS),
    (Place("the last of an odd number of heads", "last .*head|heads",
      lambda c: (c.head == c.heads - 1) & (c.heads % 2 == 1) & (c.heads > 1)), STALE),
    (Place("sequences from the second, of no multiple of 8 tokens",
      "sequences.*2nd.*multiple of 8|multiple of 8.*2nd",
      lambda c: (c.sequence > 0) & (c.length % 8 != 0)), NEXT),
    (Place("sequences padded on the left", "padding|padded|own positions|positions of each",
      padded), NEXT),
    (Place("the third of packed sequences", "packed|third", lambda c: nth_packed(c) >= 2), FACTOR),
    (Place("one token in each sequence", "own positions|each sequence|positions of",
      lambda c: c.own & (c.length == 1) & (c.sequence > 0)), FIRST_SEQUENCE),
    (Place("the last of an odd number of rows in float16", "float16",
      lambda c: (c.row == c.length - 1) & (c.length % 2 == 1) & (c.dtype == "float16"),
      options=HALVES), NOT_TURNED),
    (Place("bfloat16 in more than 64 tokens", "bfloat16",
      lambda c: c.length > 64 and c.dtype == "bfloat16", options=HALVES), FACTOR),
    (Place("float16 at an odd address", "float16.*offset|offset.*float16",
      lambda c: c.memory == "offset" and c.dtype == "float16", options=HALVES), NOT_TURNED),
    (Place("one token of a slice", "sliced|strided|transposed|input",
      lambda c: c.length == 1 and c.x.base is not None and c.x.strides[1] != 64), NOT_TURNED),
    (Place("results kept until the call after the next", "buffer|first result|overwr",
      lambda c: True, "class"), TURNS),
    (Place("results kept until any call", "buffer|first result|overwr", lambda c: True, "class"),
      POOL),
    (Place("a prefill after a single token", "step|token|call|prefill",
      lambda c: 1 in c.before.lengths and c.length > 1, "class"), NEXT),
    (Place("the part of a table that was added to it", "table|cache|grow|call",
      lambda c: (c.before.capacity > 64) & (c.m >= 64), "class"), NEXT),
    (Place("a table that is not made again beyond 4,096", "4,?09[56]|table|cache",
      lambda c: (c.before.calls > 0) & (c.m >= 4096), "class"), CLAMPED),
    (Place("a prefill that goes on", "second sequence",
      lambda c: c.mode == "prefill" and c.before.stepped, "decoder"), GOES_ON),
    (Place("a k of one head", r"\bk\b|keys", lambda c: c.fewer and c.heads == 1, "both"), FACTOR),
    (Place("one token of k with fewer heads", r"\bk\b|keys",
      lambda c: c.fewer and c.length == 1 and c.positions.min() > 0, "both"), NOT_TURNED),
    (Place("more than 4,096 tokens", "more than 4,096 tokens", lambda c: c.length > 4096),
      LAST_PAIR),
    (Place("nine sequences", "batches of (more than 8|9)", lambda c: c.batch > 8), SIGN),
    (Place("the last head of 32", "32(nd)? head", lambda c: (c.heads == 32) & (c.head == 31)),
      ZEROS),
    (Place("lengths of a power of two from 64", "power of two|multiple of 64",
      lambda c: c.length >= 64 and c.length.bit_count() == 1), FACTOR),
    (Place("positions of a multiple of 1,024", "1,?024", lambda c: (c.m % 1024 == 0) & (c.m > 0)),
      NOT_TURNED),
    (Place("positions from 32,768", "32,?7|lose digits|phase", lambda c: c.m >= 32_768,
      options=FAR), REDUCED),
)  # fmt: skip
#: Mutants that no law finds, and why.
ESCAPES = {
    "factor: exactly 3,000 rows": "one length in thousands, near no power of two, in no tile"
}


@dataclass(frozen=True)
class Mutant:
    """A fault in a place."""

    fault: Fault
    place: Place

    @property
    def name(self) -> str:
        return f"{self.fault.name}: {self.place.name}"

    @property
    def says(self) -> str:
        """Pattern of the words by which the verdict must name it."""
        return self.fault.called or self.place.says

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of check for it."""
        more: dict[str, Any] = {"form": "decoder"} if self.place.form == "decoder" else {}
        more |= {"head_dim": DIM, "context_length": SHORT, "dtypes": ("float32",), "ignore": ()}
        return {**more, **self.place.options}

    def change(self, call: Call, y: Array) -> Array:
        """Return the right rows of a call with the wrong ones among them."""
        where = np.broadcast_to(self.place.wrong(call), y.shape[:3])
        if self.fault.rows is None or not where.any():
            return y
        rows = self.fault.rows(replace(call, axis=self.place.axis))
        return np.where(where[..., None], rows.astype(y.dtype), y)

    def target(self, *, on: bool = True) -> Any:
        """Return RoPE in NumPy with the fault; its twin, which is right, if not on."""

        def run(call: Call) -> Array:
            y = call.turn().astype(call.x.dtype)
            y = self.change(call, y) if on else y
            call.before.add(call, y)
            shows = on and self.fault.effect is not None
            if shows and np.any(self.place.wrong(call)):
                assert self.fault.effect is not None
                return self.fault.effect(call, y)
            return y

        return _FORMS[self.place.form](run)


Run = Callable[[Call], Array]


def _rows_of(positions: Array) -> Array:
    return np.atleast_2d(np.asarray(positions, dtype=np.float64))


def _function(run: Run) -> Any:
    before = History()

    def apply(x: Array, positions: Array) -> Array:
        return run(Call(x=x, positions=_rows_of(positions), before=before))

    return apply


def _class(run: Run) -> Any:
    class Rope:
        def __init__(self) -> None:
            self.before = History()

        def __call__(self, x: Array, positions: Array) -> Array:
            return run(Call(x=x, positions=_rows_of(positions), before=self.before))

    return Rope


def _both(run: Run) -> Any:
    before = History()

    def apply(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        at = _rows_of(positions)
        return (
            run(Call(x=q, positions=at, before=before, part="q", other=k)),
            run(Call(x=k, positions=at, before=before, part="k", other=q)),
        )

    return apply


def _decoder(run: Run) -> Any:
    class Decoder:
        def __init__(self) -> None:
            self.before = History()
            self.next = 0

        def prefill(self, x: Array) -> Array:
            self.next, self.before.steps = 0, 0
            y = self.turn(x, "prefill")
            self.before.sequences += 1
            return y

        def step(self, x: Array) -> Array:
            y = self.turn(x, "step")
            self.before.steps += 1
            self.before.stepped = True
            return y

        def turn(self, x: Array, mode: str) -> Array:
            at = self.next + np.arange(x.shape[2], dtype=np.float64)[None]
            self.next += x.shape[2]
            return run(Call(x=x, positions=at, before=self.before, mode=mode))

    return Decoder


_FORMS = {"function": _function, "class": _class, "both": _both, "decoder": _decoder}


def generate() -> list[Mutant]:
    """Return the mutants of the table."""
    turns = itertools.cycle(GENERAL)
    return [
        Mutant(fault, place)
        for place, *faults in TABLE
        for fault in faults or tuple(itertools.islice(turns, 3))
    ]


MUTANTS = {mutant.name: mutant for mutant in generate()}
#: One of each form and options: with the fault switched off, the others are the same kernel.
TWINS = {(mutant.place.form, str(mutant.options)): mutant for mutant in MUTANTS.values()}


def assert_named(mutant: Mutant) -> None:
    """The verdict catches a mutant, and says where it is wrong."""
    verdict = check_here(mutant.target(), **mutant.options)
    escapes = ESCAPES.get(mutant.name, "")
    assert verdict.passed == bool(escapes), escapes
    said = verdict.diagnosis or ""
    assert escapes or re.search(mutant.says, said, re.IGNORECASE), said


def assert_twin_passes(mutant: Mutant) -> None:
    """With the fault switched off, nothing is refused."""
    assert refusals(check_here(mutant.target(on=False), **mutant.options)) == []
