"""Kernels that are wrong only somewhere: a generator of faults, each with the place where it shows.

A mutant is RoPE in NumPy with one `Fault`, what becomes of a row, in one `Place`, the rows where
that happens. With the fault switched off it is its twin, which is right. Nothing of ropecli's is in
it. What a kernel sees is a `Call`: vectors (batch, heads, length, head_dim) and positions.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from implementations.plain import Array, inv_freq, wide
from judging import check_here, refusals
from ml_dtypes import bfloat16
from numpy.lib.stride_tricks import as_strided

DIM = 16
THETA = inv_freq(DIM)
FULL = 131_072  #: Positions of a context in which one row alone may be wrong.
SHORT = 8192  #: Positions of the context of most mutants, which is quicker.


@dataclass(kw_only=True, eq=False)
class History:
    """State of a kernel between calls."""

    calls: int = 0
    longest: int = 0
    dtypes: set[Any] = field(default_factory=set)
    lengths: set[int] = field(default_factory=set)
    results: dict[Any, Array] = field(default_factory=dict)  #: The last one of each shape.
    capacity: int = 64  #: Rows of a table that doubles when a position is beyond it.
    sequences: int = 0  #: Of a decoder: those begun before this one,
    steps: int = 0  #: the steps of this one,
    stepped: bool = False  #: and whether there was a step in any before.

    def add(self, call: Call, y: Array) -> None:
        """Remember a call."""
        self.calls += 1
        self.longest = max(self.longest, call.length)
        self.dtypes.add(call.x.dtype)
        self.lengths.add(call.length)
        self.results[call.key] = y.copy()
        while self.capacity <= call.positions.max(initial=0):
            self.capacity *= 2


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """Input of a kernel."""

    x: Array  #: (batch, heads, length, head_dim), in any memory.
    positions: Array  #: (batch or 1, length), float64.
    before: History
    part: str = "x"  #: "x", or "q" or "k" of a kernel that takes both.
    other: Array | None = None  #: Of k, the queries; of q, the keys.
    mode: str = "call"  #: Of a decoder: "prefill" or "step".

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
    def flat(self) -> Array:
        """Index of each row in the whole call."""
        return (self.sequence * self.heads + self.head) * self.length + self.row

    @property
    def m(self) -> Array:
        """Position of each row, (batch or 1, 1, length)."""
        return self.positions[:, None]

    @property
    def own(self) -> bool:
        """True if sequences have positions of their own."""
        return bool((self.positions != self.positions[:1]).any())

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

    def turn(self, m: Array | None = None, theta: Array = THETA, x: Array | None = None) -> Array:
        """Return rows turned by positions m that are broadcast to (batch, heads, length)."""
        angle = np.asarray(self.m if m is None else m)[..., None] * theta
        return rotate(self.x if x is None else x, np.cos(angle), np.sin(angle))


def _root(x: Array) -> Array:
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


def rotate(x: Array, cos: Array, sin: Array) -> Array:
    """Turn the pairs (i, i + pairs), in the dtype of x."""
    y, n = wide(x), x.shape[-1] // 2
    c, s = cos.astype(y.dtype), sin.astype(y.dtype)
    a, b = y[..., :n], y[..., n:]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1).astype(x.dtype)


# Faults: what becomes of a row.

Rows = Callable[[Call], Array]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Fault: all rows as they come out of it, or its effect on the result."""

    name: str
    rows: Rows | None = None
    effect: Callable[[Call, Array], Array] | None = None
    called: str = ""  #: Pattern of the words that name it, in place of the place's.


def in_float16(call: Call) -> Array:
    with np.errstate(over="ignore"):
        angle = (call.m[..., None] * THETA).astype(np.float16).astype(np.float64)
    angle = np.where(np.isfinite(angle), angle, 0.0)
    return rotate(call.x, np.cos(angle), np.sin(angle))


def neighbours(call: Call) -> Array:
    """The pairs (2i, 2i + 1) where halves were meant."""
    order = np.arange(DIM).reshape(-1, 2).T.ravel()
    y = np.empty_like(call.x)
    y[..., order] = call.turn(x=call.x[..., order])
    return y


def one_pair_twice(call: Call) -> Array:
    """The fifth pair turns as the fourth."""
    theta = THETA.copy()
    theta[4] = theta[3]
    return call.turn(theta=theta)


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


def position_fault(name: str, positions: Callable[[Call], Array]) -> Fault:
    return Fault(name=name, rows=lambda call: call.turn(positions(call)))


NOT_TURNED = Fault(name="not turned", rows=lambda call: call.x)
NEXT = position_fault("turned as its neighbour", lambda call: call.m + 1)
SIGN = position_fault("turned the other way", lambda call: -call.m)
NAN = Fault(name="NaN", rows=lambda call: np.full_like(call.x, np.nan))
ZEROS = Fault(name="zeros", rows=lambda call: np.zeros_like(call.x))
STALE = Fault(name="stale", rows=stale)
FACTOR = Fault(name="factor", rows=lambda call: (1.125 * call.turn()).astype(call.x.dtype))
PAIR = Fault(name="one pair turned as another", rows=one_pair_twice)
LAYOUT = Fault(name="neighbouring coordinates paired", rows=neighbours)
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


def into_input(call: Call, y: Array) -> Array:
    call.x[...] = y
    return y


def into_one_buffer(call: Call, y: Array) -> Array:
    buffers = call.before.results
    buffer = buffers.setdefault(("buffer", call.key), np.empty_like(y))
    buffer[...] = y
    return buffer


INTO_INPUT = Fault(name="written into the input", effect=into_input)
INTO_BUFFER = Fault(name="one buffer for all results", effect=into_one_buffer)
SQUEEZED = Fault(name="axis of length 1 dropped", effect=lambda _, y: y[:, :, 0])
WIDENED = Fault(name="returned in float64", effect=lambda _, y: y.astype(np.float64))


# Places: the rows where a fault shows.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Rows where a fault shows."""

    name: str
    wrong: Callable[[Call], Any]  #: Broadcast to (batch, heads, length): which rows.
    says: str  #: Pattern of the words by which the verdict must name it.
    form: str = "function"  #: "function", "class", "both" or "decoder".
    options: Mapping[str, Any] = field(default_factory=dict)  #: Of check.
    faults: tuple[Fault, ...] | None = None  #: Those that show here; None: any.


def head_from(n: int) -> Place:
    return Place(
        name=f"heads from index {n}",
        wrong=lambda call: call.head >= n,
        says=rf"heads from .*\b{n + 1}(st|nd|rd|th)",
    )


def heads_above(n: int) -> Place:
    return Place(
        name=f"more than {n} heads",
        wrong=lambda call: call.heads > n,
        says=f"more than {n} heads",
    )


def tail(n: int) -> Place:
    return Place(
        name=f"last n mod {n} rows",
        wrong=lambda call: call.row >= call.length - call.length % n,
        says=f"last n mod {n} rows",
    )


def no_multiple(n: int) -> Place:
    return Place(
        name=f"length not a multiple of {n}",
        wrong=lambda call: call.length % n != 0,
        says=f"not a multiple of {n}",
    )


def longer(n: int) -> Place:
    return Place(
        name=f"length above {n:,}",
        wrong=lambda call: call.length > n,
        says=f"more than {n:,} tokens",
    )


def flat_from(n: int) -> Place:
    return Place(
        name=f"rows of the call from index {n:,}",
        wrong=lambda call: call.flat >= n,
        says=f"rows of the whole call from the {n + 1:,}",
    )


def batch_above(n: int) -> Place:
    return Place(
        name=f"batch above {n}",
        wrong=lambda call: call.batch > n,
        says=f"batches of more than {n}",
    )


def sequence_from(n: int) -> Place:
    return Place(
        name=f"sequences from index {n}",
        wrong=lambda call: call.sequence >= n,
        says=rf"sequences of a batch from .*\b{n + 1}(st|nd|rd|th)",
    )


def in_memory(kind: str, fault: Fault) -> Place:
    return Place(
        name=f"{kind} input",
        wrong=lambda call: call.memory == kind,
        says=f"{kind}",
        faults=(fault, NOT_TURNED),
    )


def in_dtype(name: str) -> Place:
    return Place(
        name=f"{name} only",
        wrong=lambda call: str(call.x.dtype) == name,
        says=name,
        options={"dtypes": ("float32", "float16", "bfloat16")},
        faults=(FLOAT16, FACTOR, NAN),
    )


PLACES = (
    head_from(8),
    head_from(16),
    heads_above(8),
    heads_above(32),
    tail(64),
    tail(32),
    tail(128),
    no_multiple(64),
    longer(4096),
    flat_from(4096),
    Place(
        name="one row in 131,072",
        wrong=lambda call: call.m == 98_765,
        says="98,765",
        options={"context_length": FULL},
        faults=(NOT_TURNED, NEXT, STALE),
    ),
    Place(
        name="row 98,765 of a long call",
        wrong=lambda call: call.row == 98_765,
        says="98,76[56]",
        options={"context_length": FULL},
        faults=(NOT_TURNED, ZEROS),
    ),
    Place(
        name="one token at position 4,096",
        wrong=lambda call: (call.length == 1) & (call.m == 4096),
        says="4,?096",
    ),
    Place(
        name="one token of float16 at position 32,768",
        wrong=lambda call: (
            (call.length == 1) & (call.m == 32_768) & (call.x.dtype == np.dtype(np.float16))
        ),
        says="32,?768",
        options={"context_length": FULL, "dtypes": ("float32", "float16")},
        faults=(NEXT, NOT_TURNED),
    ),
    Place(
        name="positions from 32,768",
        wrong=lambda call: call.m >= 32_768,
        says="32,?768|int16",
        options={"context_length": FULL},
        faults=(INT16, FIXED, FAST_SINE),
    ),
    Place(
        name="positions from 4,096",
        wrong=lambda call: call.m >= 4096,
        says="4,?09[56]",
        faults=(CLAMPED, NOT_TURNED),
    ),
    batch_above(4),
    sequence_from(1),
    sequence_from(4),
    Place(
        name="as many sequences as heads",
        wrong=lambda call: call.batch == call.heads and call.batch > 1,
        says="as many sequences as heads",
    ),
    Place(
        name="one token",
        wrong=lambda call: call.length == 1 and call.positions.min() > 0,
        says="decode|1 token|token alone",
    ),
    Place(
        name="chunk after a prefill",
        wrong=lambda call: call.chunk,
        says="chunk|do not start at 0",
        faults=(INDEX, FIRST_POSITION, FACTOR, NOT_TURNED),
    ),
    Place(
        name="packed sequences",
        wrong=lambda call: call.packed,
        says="packed",
        faults=(NEXT, FACTOR, WORDS),
    ),
    Place(
        name="positions of each sequence",
        wrong=lambda call: call.own,
        says="own positions|positions of (each|the first)",
        faults=(FACTOR, WORDS, NEXT),
    ),
    Place(
        name="own positions of the second sequence",
        wrong=lambda call: call.own & (call.sequence >= 1),
        says="own positions|positions of (each|the first)|sequences .*2nd",
        faults=(FIRST_SEQUENCE, RUNS_ON),
    ),
    *(in_memory(kind, CONTIGUOUS) for kind in ("transposed", "sliced", "strided", "expanded")),
    in_memory("offset", FROM_START),
    in_dtype("float16"),
    in_dtype("bfloat16"),
    Place(
        name="from the second call on",
        wrong=lambda call: call.before.calls > 0,
        says="second|twice|call",
        form="class",
        faults=(STALE, FACTOR, NEXT),
    ),
    Place(
        name="after a longer call",
        wrong=lambda call: call.before.longest > call.length,
        says="long",
        form="class",
        faults=(FACTOR, NEXT, PAIR),
    ),
    Place(
        name="after float16",
        wrong=lambda call: (
            np.dtype(np.float16) in call.before.dtypes and call.x.dtype != np.dtype(np.float16)
        ),
        says="after .*float16|dtype of the first call|float16",
        form="class",
        options={"dtypes": ("float32", "float16")},
        faults=(FLOAT16, FACTOR, NEXT),
    ),
    Place(
        name="the call in which a table grows",
        wrong=lambda call: (
            (call.before.calls > 0)
            & (call.positions.max(initial=0) >= call.before.capacity)
            & (call.m >= call.before.capacity)
        ),
        says="grow|cache|table",
        form="class",
        faults=(NOT_TURNED, ZEROS, FIRST_POSITION),
    ),
    Place(
        name="a result kept until the next call",
        wrong=lambda call: True,
        says="buffer|first result|overwr",
        form="class",
        faults=(INTO_BUFFER,),
    ),
    Place(
        name="from the 513th step on",
        wrong=lambda call: (call.mode == "step") & (call.before.steps >= 512),
        says="51[23]",
        form="decoder",
        faults=(NEXT, NOT_TURNED, FACTOR),
    ),
    Place(
        name="prefill after decode",
        wrong=lambda call: (call.mode == "prefill") & call.before.stepped,
        says="after decode|second sequence|prefill",
        form="decoder",
        faults=(NEXT, FACTOR),
    ),
    Place(
        name="second sequence of a decoder",
        wrong=lambda call: (call.mode == "step") & (call.before.sequences > 1),
        says="second sequence|sequence",
        form="decoder",
        faults=(NEXT, NOT_TURNED),
    ),
    Place(
        name="k alone",
        wrong=lambda call: call.part == "k",
        says=r"\bk\b|keys",
        form="both",
        faults=(FACTOR, NOT_TURNED, SIGN, CROSSED),
    ),
    Place(
        name="k with fewer heads",
        wrong=lambda call: (
            call.part == "k" and call.other is not None and call.heads < call.other.shape[1]
        ),
        says=r"(\bk\b|keys).*(fewer|heads)|(fewer|heads).*(\bk\b|keys)",
        form="both",
        faults=(NOT_TURNED, FACTOR, NEXT),
    ),
    Place(
        name="tokens of k further apart",
        wrong=lambda call: (
            call.part == "k"
            and call.other is not None
            and call.heads < call.other.shape[1]
            and (call.sequence * call.length + call.row > 0)
        ),
        says=r"(\bk\b|keys).*(fewer|heads)|(fewer|heads).*(\bk\b|keys)",
        form="both",
        faults=(OF_QUERIES,),
    ),
    Place(
        name="q alone",
        wrong=lambda call: call.part == "q",
        says=r"\bq\b|queries|keys",
        form="both",
        faults=(FACTOR, NEXT),
    ),
)


# Faults that users of released kernels met, and others of their kind.


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A kernel with a fault in one place."""

    fault: Fault
    place: Place
    thread: str = ""  #: owner/repository#number, where one like it happened.
    escapes: str = ""  #: Why no law finds it; empty if one does.

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

    def target(self, *, on: bool = True) -> Any:
        """Return the kernel; its twin, which is right, if not on."""

        def run(call: Call) -> Array:
            y = call.turn()
            rows = np.broadcast_to(self.place.wrong(call), y.shape[:3])
            if on and self.fault.rows is not None and rows.any():
                y = np.where(rows[..., None], self.fault.rows(call), y)
            call.before.add(call, y)
            if on and self.fault.effect is not None and rows.any():
                y = self.fault.effect(call, y)
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
    """Return each place with the faults that show there, three of the general ones in turn."""
    turns = itertools.cycle(GENERAL)
    made = []
    for place in PLACES:
        faults = place.faults or tuple(itertools.islice(turns, 3))
        made += [Mutant(fault=fault, place=place) for fault in faults]
    return made


GENERATED = generate()


def from_thread(fault: Fault, place: Place, thread: str = "", *, escapes: str = "") -> Mutant:
    return Mutant(fault=fault, place=place, thread=thread, escapes=escapes)


class Group:
    """Places of one form and options, written shortly."""

    def __init__(self, form: str = "function", **options: Any) -> None:
        self.form, self.options = form, options

    def __call__(
        self,
        name: str,
        wrong: Callable[[Call], Any],
        says: str,
    ) -> Place:
        return Place(
            name=name,
            wrong=wrong,
            says=says,
            form=self.form,
            options=self.options,
        )


_sizes, _pairs = Group(), Group("both")
_kept, _halves = (
    Group("class"),
    Group(dtypes=("float32", "float16", "bfloat16")),
)
_far = Group(context_length=FULL)

ONE_OF_MANY = _sizes(
    "one token, sequences from the second",
    lambda call: (call.length == 1) & (call.sequence > 0),
    "sequences.*2nd|one token|decode|token",
)
HEADS_OF_ONE = _sizes(
    "one token, heads from the second",
    lambda call: (call.length == 1) & (call.head > 0),
    "heads.*2nd|one token|decode|token",
)

REPORTED = [
    from_thread(ZEROS, ONE_OF_MANY, "ml-explore/mlx#3949"),
    from_thread(BY_HEAD, HEADS_OF_ONE, "elixir-nx/emlx#121"),
    from_thread(RUNS_ON, sequence_from(1), "turboderp/exllama#101"),
    from_thread(
        CROSSED,
        _pairs(
            "q in each call",
            lambda call: call.part == "q" and call.other is not None,
            r"\bq\b|queries",
        ),
        "hpcaitech/ColossalAI#6444",
    ),
    from_thread(
        ZEROS,
        _pairs(
            "heads of k beyond half of those of q",
            lambda call: (
                (call.part == "k")
                & (call.other is not None and 1 < call.heads < call.other.shape[1])
                & (call.head >= call.heads // 2)
            ),
            r"(\bk\b|keys)",
        ),
        "hpcaitech/ColossalAI#6444",
    ),
    from_thread(
        ZEROS,
        _pairs(
            "heads of q that those of k do not divide",
            lambda call: (
                (call.part == "q")
                & (call.other is not None)
                & (call.head >= call.heads - call.heads % call.other.shape[1])
                if call.other is not None
                else False
            ),
            r"(\bq\b|queries|heads)",
        ),
        "fla-org/flash-linear-attention#1029",
    ),
    from_thread(
        AFTER,
        _pairs(
            "q of one token",
            lambda call: call.part == "q" and call.length == 1,
            r"(\bq\b|queries|token|decode)",
        ),
        "ml-explore/mlx-lm#1805",
    ),
    from_thread(
        OF_QUERIES,
        _pairs(
            "tokens of a k with one head",
            lambda call: (
                call.part == "k"
                and call.other is not None
                and call.heads == 1 < call.other.shape[1]
                and (call.sequence * call.length + call.row > 0)
            ),
            r"(\bk\b|keys)",
        ),
        "sgl-project/sglang#20598",
    ),
    from_thread(
        CONTIGUOUS,
        _pairs(
            "a k that is not contiguous",
            lambda call: call.part == "k" and call.memory not in {"contiguous", "offset"},
            "transposed|sliced|strided|expanded|contiguous",
        ),
        "vllm-project/vllm#17091",
    ),
    from_thread(  # the limit of a grid in CUDA
        NOT_TURNED,
        replace(longer(65_535), options={"context_length": FULL}),
    ),
    from_thread(
        ALONG_HEADS,
        _sizes(
            "as many heads as tokens",
            lambda call: call.heads == call.length and call.length > 1,
            "as many heads as tokens",
        ),
        "deepspeedai/DeepSpeed#8052",
    ),
    from_thread(
        EXCHANGED,
        _sizes(
            "as many sequences as tokens",
            lambda call: call.own & (call.batch == call.length) & (call.positions.shape[0] > 1),
            "as many sequences as tokens",
        ),
    ),
    from_thread(
        COUNTS_ON,
        _sizes(
            "first token of a packed sequence",
            lambda call: (
                (np.diff(call.m, axis=-1, prepend=call.m[..., :1]) < 0) & (call.length > 1)
            ),
            "packed|first (row|token)",
        ),
    ),
    from_thread(
        FIRST_POSITION,
        _kept(
            "the second call of a length",
            lambda call: call.length in call.before.lengths and call.length > 1,
            "cache|second|twice|call",
        ),
        "lucidrains/rotary-embedding-torch#11",
    ),
    from_thread(
        FACTOR,
        _kept(
            "after eight lengths",  # the limit of a cache of compiled kernels
            lambda call: len(call.before.lengths) >= 8,
            "call|state|cache|after",
        ),
    ),
    from_thread(
        FAST_SINE,
        _far(
            "positions from 40,000 of long calls",
            lambda call: (call.m >= 40_000) & (call.length > 64),
            "40,?0|lose digits|far",
        ),
        "kekzl/imp#1316",
    ),
    from_thread(
        BFLOAT16,
        _halves(
            "long calls in bfloat16",
            lambda call: (
                (call.length > 256)
                & (str(call.x.dtype) == "bfloat16")
                & (call.m > 256)
                & (call.m % 2 == 1)
            ),
            "bfloat16",
        ),
        "huggingface/candle#3520",
    ),
    from_thread(
        ZEROS,
        _sizes(
            "heads that fill no group of 4",
            lambda call: (call.head >= call.heads - call.heads % 4) & (call.heads > 4),
            "n mod 4|multiple of 4|last .*heads",
        ),
    ),
    from_thread(
        INTO_INPUT,
        _sizes(
            "one token, in place",
            lambda call: call.length == 1 and call.x.flags.writeable,
            "written into",
        ),
    ),
    from_thread(
        SQUEEZED,
        _sizes(
            "one token, fewer axes",
            lambda call: call.length == 1,
            "shape",
        ),
    ),
    from_thread(
        WIDENED,
        _halves(
            "one token of half precision",
            lambda call: call.length == 1 and call.x.itemsize == 2,
            "float64|dtype",
        ),
    ),
    from_thread(
        SIGN,
        _sizes(
            "an odd number of heads, from nine on",
            lambda call: call.heads % 2 == 1 and call.heads > 8,
            "heads",
        ),
    ),
    from_thread(
        NEXT,
        _sizes(
            "the last row of sequences of more than one token",
            lambda call: (call.row == call.length - 1) & (call.length > 1),
            "last row",
        ),
    ),
    from_thread(
        STALE,
        _sizes(
            "the last sequence of a batch of three or more",
            lambda call: (call.sequence == call.batch - 1) & (call.batch > 2),
            "last sequence|sequences",
        ),
    ),
    from_thread(
        ZEROS,
        _sizes(
            "more than 32 heads in sequences of more than 64",
            lambda call: call.heads > 32 and call.length > 64,
            "32 heads.*64|64.*32 heads",
        ),
    ),
    from_thread(
        FACTOR,
        _sizes(
            "exactly 3,000 rows",
            lambda call: call.length == 3000,
            "3,?000",
        ),
        escapes="one length in thousands, on neither side of a power of two or of a tile",
    ),
    from_thread(
        NEXT,
        _kept(
            "after a thousand calls",
            lambda call: call.before.calls >= 1000,
            "call",
        ),
    ),
]
MUTANTS = {mutant.name: mutant for mutant in (*GENERATED, *REPORTED)}
assert len(MUTANTS) == len(GENERATED) + len(REPORTED)


def assert_named(mutant: Mutant) -> None:
    """The verdict catches a mutant, and says where it is wrong."""
    verdict = check_here(mutant.target(), **mutant.options)
    assert verdict.passed == bool(mutant.escapes), mutant.escapes
    said = verdict.diagnosis or ""
    assert mutant.escapes or re.search(mutant.says, said, re.IGNORECASE), said


def assert_twin_passes(mutant: Mutant) -> None:
    """With the fault switched off, nothing is refused."""
    assert refusals(check_here(mutant.target(on=False), **mutant.options)) == []
