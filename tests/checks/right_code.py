"""Right code, and faults planted in it from outside.

`plant` wraps a right implementation (`Base`) and keeps its signature. It reads each call as (batch,
heads, sequence, head_dim), and replaces rows in the place of a mutant by those of its fault.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from callings import AXES as DECLARED
from callings import COUNTED, POSITIONS, TABLES, Called, Calling, pack, unpack
from conventions import Convention
from faults import ANYWHERE, Call, Fault, History, Mutant, Place
from implementations.case import Right
from implementations.intended import HALF
from implementations.plain import Array, align, angles, half, interleaved, inv_freq, rotate_half
from implementations.registry import RIGHT
from judging import DIM, FORMS, Module, check_here

from ropecli import Rotary
from ropecli.arrays import DTYPES
from ropecli.checks.implementation.calling.find import CallError
from ropecli.checks.implementation.check import Verdict

CONTEXT = 64
SMALL = 8  #: Head dim of most implementations that are made here.
BLOCK, BEYOND = 16, 32  #: Rows and positions.
#: Axes of code that takes any leading ones, and of code that has the heads after the sequence.
LEADING: Mapping[int, tuple[str, ...]] = {2: ("s d",), 3: ("h s d", "b s d"), 4: ("b h s d",)}
HEADS_LAST: Mapping[int, tuple[str, ...]] = {3: ("s h d",), 4: ("b s h d",)}

Places = Callable[[Sequence[Any], int], Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class Base:
    """Right implementation, the options of `check` for it, and how its arguments are read."""

    name: str
    target: Any
    options: Mapping[str, Any]
    rope: Callable[[int], Rotary]  #: The rotation of a sequence of that length.
    axes: Mapping[int, tuple[str, ...]] = field(default_factory=lambda: LEADING)
    vectors: int = 1  #: Arguments that are rotated, the first ones where it is not `last`.
    last: bool = False  #: The vectors come last.
    #: Positions, (sequence,) or (batch, sequence), by the arguments and the tokens of a call.
    places: Places
    #: The other arguments, by vectors and positions; None if they cannot say them.
    others: Callable[[Array, Array], Sequence[Any] | None]
    kind: str = "function"

    def reading(self, ndim: int, axis: str) -> str | None:
        """The axes of an array: where there are several readings, that of a place's axis."""
        texts = self.axes.get(ndim, ())
        return next((text for text in texts if axis in text), texts[0] if texts else None)

    def arguments(self, x: Array, positions: Array) -> list[Any] | None:
        """All arguments of a call with x in its axes."""
        others = self.others(x, positions)
        if others is None:
            return None
        vectors = [x, *(as_strided(2 * x, x) for _ in range(self.vectors - 1))]
        return [*others, *vectors] if self.last else [*vectors, *others]

    def judge(self, target: Any, **options: Any) -> Verdict:
        """The verdict of `check` on this implementation, or on one with its signature."""
        return check_here(target, **{**self.options, **options})


# Places in right code.


def _along(axis: str, what: str, beyond: int, block: int) -> list[Place]:
    """Return places of heads, sequences or rows."""
    every: dict[str, Callable[[Array, int], Any]] = {
        f"the first {what}": lambda i, _: i == 0,
        f"the last {what}": lambda i, n: i == n - 1,
        f"every second {what}": lambda i, _: i % 2 == 1,
        f"each {what} beyond {beyond}": lambda i, _: i >= beyond,
        f"each {block}th {what}": lambda i, _: i % block == 0,
        f"all but the first {what}": lambda i, _: i > 0,
    }
    return [Place(name, "", _by_index(axis, of), axis=axis) for name, of in every.items()]


def _by_index(axis: str, of: Callable[[Array, int], Any]) -> Callable[[Call], Any]:
    def wrong(call: Call) -> Any:
        index = {"b": call.sequence, "h": call.head, "s": call.row}[axis]
        return of(index, call.x.shape["bhs".index(axis)])

    return wrong


def _of_axes(place: Place, count: int) -> Place:
    return replace(
        place,
        name=f"{place.name}, of {count} axes",
        wrong=lambda call: place.wrong(call) & (call.ndim == count),
    )


def _places() -> Iterator[Place]:
    heads, sequences = _along("h", "head", 3, 4), _along("b", "sequence", 2, 3)
    yield from (*heads, *sequences, *_along("s", "row", BEYOND, BLOCK))
    yield from (_of_axes(each[-1], n) for each in (heads, sequences) for n in (3, 4))
    of_calls: dict[str, Callable[[Call], Any]] = {
        "position 1": lambda c: c.m == 1,
        "the last position": lambda c: c.m == CONTEXT - 1,
        "odd positions": lambda c: c.m % 2 == 1,
        f"positions beyond {BEYOND}": lambda c: c.m >= BEYOND,
        f"positions {BLOCK}n": lambda c: c.m % BLOCK == 0,
        "calls of 2 axes": lambda c: c.ndim == 2,
        "calls of 3 axes": lambda c: c.ndim == 3,
        "calls of 4 axes": lambda c: c.ndim == 4,
        "float32": lambda c: c.dtype == "float32",
        "float64": lambda c: c.dtype == "float64",
        "float16": lambda c: c.dtype == "float16",
        "strided input": lambda c: c.strided,
        "one token": lambda c: c.length == 1,
        "own positions": lambda c: c.own,
        "keys": lambda c: c.part == "k",
        "a second call": lambda c: c.again,
        "a second instance": lambda c: c.before.sibling,
    }
    for name, wrong in of_calls.items():
        yield Place(name, "", wrong, axis="h" if name == "one token" else "s")


#: Each fault in each place.
PLANTED = [Mutant(fault, place) for place in _places() for fault in ANYWHERE]


def dtypes_of(mutant: Mutant) -> tuple[str, str]:
    """Return the dtypes in which code with a fault is judged."""
    return ("float32", "float16" if mutant.place.name == "float16" else "float64")


@dataclass(frozen=True, kw_only=True, eq=False)
class Planted:
    """A mutant in a right implementation."""

    mutant: Mutant
    base: Base

    def target(self) -> Any:
        """Return the implementation with the fault."""
        target = self.base.target
        if inspect.isclass(target):
            return self._class()
        signature, memory = inspect.signature(target), History()

        @functools.wraps(target)
        def wrapper(*args: Any, **keywords: Any) -> Any:
            bound = signature.bind(*args, **keywords)
            bound.apply_defaults()
            return self.change(bound.args, lambda: target(*args, **keywords), memory)

        return wrapper

    def _class(self) -> type:
        base, made = self.base, self.base.target
        alive: weakref.WeakSet[Any] = weakref.WeakSet()

        @functools.wraps(made.__init__)
        def init(self: Any, *args: Any, **keywords: Any) -> None:
            self.memory = History(sibling=len(alive) > 0)
            alive.add(self)
            made.__init__(self, *args, **keywords)

        def faulty(method: Any, places: Callable[[Any, int], Array] | None = None) -> Any:
            @functools.wraps(method)
            def call(instance: Any, *args: Any) -> Any:
                at = None if places is None else places(instance, args[0].shape[-2])
                run = functools.partial(method, instance, *args)
                return self.change(args, run, instance.memory, at)

            return call

        methods: dict[str, Any] = {"__init__": init}
        if base.kind == "decoder":
            methods["prefill"] = faulty(made.prefill, lambda _, length: np.arange(length))
            methods["step"] = faulty(made.step, lambda made, _: np.array([made.length]))
        else:
            name = "forward" if hasattr(made, "forward") else "__call__"
            methods[name] = faulty(getattr(made, name))
        return type(made.__name__, (made,), methods)

    def change(
        self,
        given: Sequence[Any],
        run: Callable[[], Any],
        memory: History,
        places: Array | None = None,
    ) -> Any:
        """Make a call, and return its result with the fault, written in place if it is."""
        base = self.base
        vectors = given[len(given) - base.vectors :] if base.last else given[: base.vectors]
        before = [x.copy() for x in vectors]
        value = run()
        in_place = value is None
        results = vectors if in_place else value if isinstance(value, tuple) else (value,)
        changed = []
        for part, x, given_x, y in zip("qk", before, vectors, results, strict=False):
            known = (part, x.shape, str(x.dtype))
            call = self._read(given, x, y, places, memory)
            if call is not None:
                strided, again = not given_x.flags.c_contiguous, known in memory.seen
                call = replace(call, part=part, strided=strided, again=again)
            changed.append(y if call is None else self._faulty(call, y))
            memory.seen.add(known)
        if in_place:
            for x, y in zip(vectors, changed, strict=True):
                x[...] = y
            return None
        return tuple(changed) if isinstance(value, tuple) else changed[0]

    def _faulty(self, call: Call, like: Array) -> Array:
        """Return a result with the fault, in its own axes."""
        return pack(self.mutant.change(call, call.y), like, call.text)

    def _read(
        self,
        given: Sequence[Any],
        x: Array,
        y: Array,
        places: Array | None,
        memory: History,
    ) -> Call | None:
        """Return a call as a mutant sees it; None if it cannot be read."""
        base, rope = self.base, self.base.rope(1)
        text = base.reading(x.ndim, self.mutant.place.axis)
        if text is None or np.shape(y) != x.shape:
            return None
        length = x.shape[text.split().index(next(w for w in text.split() if w.endswith("s")))]
        m = np.asarray(base.places(given, length) if places is None else places, np.float64)
        own = m.ndim > (1 if rope.axes == 1 else 2)
        m = m if own else m[None]
        m = m.repeat(length if m.shape[1] == 1 else 1, axis=1)  # one position may serve all rows
        if own:
            text = base.reading(x.ndim, "b") or text
        by_axes = [unpack(each, text, rope.head_dim) for each in (x, y)]
        if m.shape[1] != by_axes[0].shape[2] or m.shape[0] not in {1, len(x)}:
            return None
        return Call(
            x=by_axes[0],
            y=by_axes[1],
            positions=m,
            before=memory,
            rope=base.rope(1 + int(m.max(initial=0))),
            text=text,
            part="q",
        )


def plant(mutant: Mutant, base: Base) -> Any:
    """Return a right implementation with a fault in a place."""
    return Planted(mutant=mutant, base=base).target()


# What a fault changes.

#: Sequences, heads and tokens of calls, the first position, and what each next sequence adds to it.
SHAPES = (
    (1, 1, 40, 0, 0), (1, 1, 40, 24, 0), (1, 1, 1, 7, 0), (1, 5, 6, 0, 0), (5, 1, 6, 0, 0),
    (4, 1, 6, 3, 2), (4, 5, 6, 0, 0), (4, 5, 6, 3, 1),
)  # fmt: skip


#: Axes, and a row of `SHAPES`.
_Call = tuple[str, tuple[int, int, int, int, int]]


def changes(mutant: Mutant, base: Base) -> bool:
    """Return True if rows change in some calls of all axes that are taken, and others stay right.

    If all that a fault can change were changed, it might be another rotation, and right. So it is
    if all heads in one axis but the first come out as they were: a part of one head is rotated.
    """
    made = plant(mutant, base)
    instances = [made(), made()] if inspect.isclass(made) else [made]
    wrong = right = several = False
    for call, dtype in itertools.product(_calls(base), dtypes_of(mutant)):
        might = _most_changes(mutant.fault, mutant.place.axis, base, call, dtype)
        for instance, strided in itertools.product(instances, (False, True)):
            results = _results(base, instance, call, dtype, strided=strided)
            changed = _changed_rows(results, _right_results(base, call, dtype))
            wrong |= any(each.any() for each in changed)
            right |= any((~one & all_).any() for one, all_ in zip(changed, might, strict=True))
            several |= not _is_one_head(base, call, dtype, results)
            if wrong and right and several:
                return True
    return False


def _is_one_head(base: Base, call: _Call, dtype: str, results: Sequence[Array]) -> bool:
    """Return True if only the first coordinates of an axis of several heads are rotated."""
    text, (*shape, _, _) = call
    if "h*d" not in text:
        return False
    x, dim = _vectors(base, text, (*shape,), dtype), base.rope(1).head_dim
    expected = [y.copy() for y in _right_results(base, call, dtype)]
    for times, y in enumerate(expected, 1):
        y[..., dim:] = times * x[..., dim:]
    return not any(each.any() for each in _changed_rows(results, expected))


@functools.cache
def _most_changes(fault: Fault, axis: str, base: Base, call: _Call, dtype: str) -> list[Array]:
    """Return which rows of each result a fault changes if it shows everywhere."""
    made = plant(Mutant(fault, Place("all", "", lambda _: True, axis=axis)), base)
    instance = made() if inspect.isclass(made) else made
    results = _results(base, instance, call, dtype, strided=False)
    return _changed_rows(results, _right_results(base, call, dtype))


def _changed_rows(results: Sequence[Array], right: Sequence[Array]) -> list[Array]:
    """Return which rows of each result differ from the right ones."""
    return [
        np.abs(got.astype(np.float64) - was).max(axis=-1) > 1e-2 * np.abs(was).max(initial=1)
        for got, was in zip(results, right, strict=True)
    ]


def _calls(base: Base) -> list[_Call]:
    texts = dict.fromkeys(itertools.chain.from_iterable(base.axes.values()))
    return [
        (text, shape)
        for text, shape in itertools.product(texts, SHAPES)
        if (shape[0] == 1 or "b " in text) and (shape[1] == 1 or "h" in text)
    ]


@functools.cache
def _right_results(base: Base, call: _Call, dtype: str) -> list[Array]:
    made = base.target() if inspect.isclass(base.target) else base.target
    return [y.astype(np.float64) for y in _results(base, made, call, dtype, strided=False)]


def _results(base: Base, instance: Any, call: _Call, dtype: str, *, strided: bool) -> list[Array]:
    """Return the results of a call; none if it cannot be made."""
    text, (batch, heads, length, first, step) = call
    x = _vectors(base, text, (batch, heads, length), dtype).copy()
    if strided:
        x = as_strided(x)
    if base.kind == "decoder":
        return [instance.prefill(x), instance.step(x[..., :1, :])]
    places = first + np.arange(length)
    positions = places + step * np.arange(batch)[:, None] if step else places
    axes = base.options.get("axes", 1)
    if axes > 1:
        positions = np.repeat(positions[..., None], axes, axis=-1)
    arguments = base.arguments(x, positions)
    if arguments is None:
        return []
    try:
        value = getattr(instance, "forward", instance)(*arguments)
    except (ValueError, IndexError, AssertionError):
        return []
    vectors = arguments[-base.vectors :] if base.last else arguments[: base.vectors]
    return [*(vectors if value is None else value if isinstance(value, tuple) else (value,))]


def as_strided(x: Array, like: Array | None = None) -> Array:
    """The same numbers, every second one of a longer row; as they are where `like` is not so."""
    if like is not None and like.flags.c_contiguous:
        return x
    return np.repeat(x, 2, axis=-1)[..., ::2]


@functools.cache
def _vectors(base: Base, text: str, shape: tuple[int, int, int], dtype: str) -> Array:
    dim = base.rope(1).head_dim
    given = np.random.default_rng(0).standard_normal((*shape, dim)).astype(DTYPES[dtype])
    sizes = dict(zip("bhsd", (*shape, dim), strict=True))
    words = [word.split("*") for word in text.split()]
    like = np.empty([int(np.prod([sizes[letter] for letter in word])) for word in words])
    return pack(given, like, text)


# Right implementations.


def second(given: Sequence[Any], _: int) -> Any:
    """Positions of (x, positions)."""
    return given[-1]


def count_positions(given: Sequence[Any], length: int) -> Array:
    """Positions of (x, offset), or of x alone."""
    offset = given[-1] if np.ndim(given[-1]) == 0 else 0
    return int(offset) + np.arange(length)


def given_positions(_: Array, positions: Array) -> Sequence[Any]:
    return (positions,)


def from_zero(_: Array, positions: Array) -> Sequence[Any] | None:
    return () if positions.ndim == 1 and positions[0] == 0 else None


def given_offset(_: Array, positions: Array) -> Sequence[Any] | None:
    return (int(positions[0]),) if positions.ndim == 1 else None


def zoo(case: Right) -> Base:
    """One of the zoo, by its own options."""
    at_length = case.at_length
    expect = None if case.expect is None else case.expect()
    rope = case.intended()
    return Base(
        name=case.name,
        target=case.target,
        options={
            "expect": expect,
            "form": FORMS[case.kind],
            **case.options,
            "context_length": CONTEXT,
        },
        rope=at_length or (lambda _: rope),
        places=second,
        others=given_positions,
        kind=case.kind,
    )


#: Rotations of the implementations that are made here.
SMALL_ROPES = (
    Rotary(head_dim=SMALL, layout="half"),
    Rotary(head_dim=SMALL),
    Rotary(head_dim=SMALL, rotary_dim=4, layout="half"),
    Rotary(head_dim=SMALL, direction="reversed"),
)


def tables_of_call(rope: Rotary, arguments: str) -> tuple[Places, Any]:
    """Reader and maker of the tables of a call."""
    theta = rope.inv_freq

    def places(given: Sequence[Any], _: int) -> Array:
        """Positions by the angle of the slowest pair, which makes less than half a turn."""
        cos, sin = (np.asarray(table)[..., -1] for table in given[-2:])
        slowest = sin  # the last argument: the angles themselves, or cos + i sin
        if arguments.endswith("cos, sin"):
            slowest = np.arctan2(sin.astype(np.float64), cos.astype(np.float64))
        elif np.iscomplexobj(sin):
            slowest = np.angle(sin)
        m: Array = np.rint(slowest / theta[-1])
        return m if m.ndim < 3 else m.reshape(len(m), -1)  # without an axis of heads

    def others(_: Array, positions: Array) -> Sequence[Any]:
        angle = angles(positions, theta)
        twice = np.concatenate([angle, angle], axis=-1)
        if rope.layout == "interleaved":
            twice = np.repeat(angle, 2, axis=-1)
        if arguments.endswith("freqs_cis"):
            return (np.exp(1j * angle),)
        return (twice,) if arguments.endswith("freqs") else (np.cos(twice), np.sin(twice))

    return places, others


def make_base(number: int, arguments: str, axes: str) -> Base:
    """Make one that is called with certain arguments, in certain axes."""
    ropes = [rope for rope in SMALL_ROPES if rope.direction == "forward" or arguments not in TABLES]
    rope = ropes[number % len(ropes)]
    told = arguments in TABLES or number % 2 == 0
    calling = Calling(
        arguments=arguments,
        axes=axes,
        in_place=number % 3 == 0,
        most_batches=None,
        most_heads=None,
        most_rows=None,
        dtypes=None,
        limit_is_told=False,
    )
    convention = Convention(
        rope=rope,
        at_length=None,
        table=np.float64,
        own_dtype=False,
        told=told,
        original=None,
        dtypes=("float32",),
        context=CONTEXT,
        seed=0,
    )
    first = arguments == "positions, x"
    places: Places = second
    others: Any = given_positions
    if first:
        places = lambda given, _: given[0]  # noqa: E731
    elif arguments in COUNTED:
        with_offset = arguments in {"x, offset", "q, k, start_pos"}
        places = count_positions if with_offset else (lambda _, length: np.arange(length))
        others = given_offset if with_offset else from_zero
        if arguments == "x, seq_len":
            others = lambda x, m: None if from_zero(x, m) is None else (m.shape[-1],)  # noqa: E731
    elif arguments in TABLES:
        places, others = tables_of_call(rope, arguments)
    return Base(
        name=f"{arguments} in {axes}",
        target=Called(convention=convention, calling=calling).implementation(),
        options={
            "expect": rope if told else None,
            "head_dim": SMALL,
            "context_length": CONTEXT,
        },
        rope=lambda _: rope,
        axes={len(axes.split()): (axes,)},
        vectors=2 if arguments.startswith("q, k") else 1,
        last=first,
        places=places,
        others=others,
    )


# Those that take any leading axes.

THETA = inv_freq(SMALL)


def readme(x: Array, positions: Array) -> Array:
    """The one in README: shared positions alone."""
    n = x.shape[-1] // 2
    angle = positions[:, None] * 10_000.0 ** (-np.arange(n) / n)
    a, b, cos, sin = x[..., :n], x[..., n:], np.cos(angle), np.sin(angle)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


def rows_of_a_kernel(x: Array, positions: Array) -> Array:
    """Rows (n, dim) and a position for each, as kernels in Cython, C and Fortran are written."""
    n, dim = x.shape
    assert positions.shape == (n,)
    y = np.empty_like(x)
    for i in range(dim // 2):
        angle = positions * THETA[i]
        cos, sin = np.cos(angle), np.sin(angle)
        y[:, 2 * i] = x[:, 2 * i] * cos - x[:, 2 * i + 1] * sin
        y[:, 2 * i + 1] = x[:, 2 * i] * sin + x[:, 2 * i + 1] * cos
    return y


def by_position(x: Array, positions: Array) -> Array:
    """Shared positions, or those of each sequence."""
    angle = angles(positions, THETA)
    return interleaved(x, np.cos(angle), np.sin(angle))


def both(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
    """Queries and keys."""
    return by_position(q, positions), by_position(k, positions)


def by_offset(x: Array, offset: int = 0) -> Array:
    """Consecutive positions."""
    return by_position(x, offset + np.arange(x.shape[-2]))


def by_itself(x: Array) -> Array:
    """Positions that it counts."""
    return by_position(x, np.arange(x.shape[-2]))


def in_place(x: Array, positions: Array) -> None:
    """The result is written over x."""
    x[...] = by_position(x, positions)


def of_neighbouring_heads(x: Array, positions: Array) -> Array:
    """Axes (sequence, heads, dim), with a batch before them or not."""
    y = np.swapaxes(by_position(np.swapaxes(x, -2, -3), positions), -2, -3)
    return np.ascontiguousarray(y)


def with_tables(q: Array, k: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    """Tables (sequence, dim), or of each sequence, as in Transformers."""
    cos, sin = (align(q, table) for table in (cos, sin))
    return tuple((x * cos + rotate_half(x) * sin).astype(x.dtype) for x in (q, k))


def with_angles(x: Array, freqs: Array) -> Array:
    """Angles (sequence, dim), each in both halves."""
    angle = freqs[..., : x.shape[-1] // 2].astype(np.float64)
    return half(x, np.cos(angle), np.sin(angle))


def _generic() -> Iterator[Base]:
    given: dict[str, Any] = {"head_dim": SMALL, "context_length": CONTEXT}
    neighbours, halves = (Rotary(head_dim=SMALL, layout=name) for name in ("interleaved", "half"))

    def base(target: Any, rope: Rotary = neighbours, **more: Any) -> Base:
        options = given | more.pop("options", {})
        every = {"places": second, "others": given_positions} | more
        return Base(
            name=target.__name__, target=target, options=options, rope=lambda _: rope, **every
        )

    yield base(readme, halves)
    yield base(rows_of_a_kernel, axes={2: ("s d",)})
    yield base(by_position)
    yield base(both, vectors=2)
    yield base(by_offset, places=count_positions, others=given_offset)
    yield base(by_itself, places=count_positions, others=from_zero)
    yield base(in_place)
    yield base(of_neighbouring_heads, axes=HEADS_LAST)
    for target, arguments in ((with_tables, "q, k, cos, sin"), (with_angles, "x, freqs")):
        places, others = tables_of_call(halves, arguments)
        yield base(
            target,
            halves,
            vectors=2 if "k" in arguments else 1,
            options={"expect": halves},
            places=places,
            others=others,
        )
    yield base(
        Module, HALF(head_dim=DIM), options={"head_dim": DIM, "form": "module"}, kind="class"
    )


def all_bases() -> tuple[list[Base], list[Base]]:
    """Right implementations that take any leading axes, and those of certain axes."""
    calls = itertools.product((*POSITIONS, *COUNTED, *TABLES), DECLARED)
    return (
        [*(zoo(case) for case in RIGHT), *_generic()],
        [make_base(number, *call) for number, call in enumerate(calls)],
    )


FREE, FIXED = all_bases()


def order(mutant: Mutant) -> list[Base]:
    """All implementations in an order of its own, those of any axes every second one."""
    random = np.random.default_rng([*f"{mutant.place.name}: {mutant.fault.name}".encode()])
    one, other = ([each[i] for i in random.permutation(len(each))] for each in (FREE, FIXED))
    both = [base for pair in itertools.zip_longest(one, other) for base in pair]
    return [base for base in both if base is not None]


def made_wrong(mutant: Mutant) -> Iterator[Base]:
    """Yield the implementations that a mutant makes wrong."""
    return (base for base in order(mutant) if changes(mutant, base))


def passes(mutant: Mutant, base: Base) -> Verdict | None:
    """The verdict of `check` that an implementation with a fault is right; None if it is not.

    A verdict fails where any law does: the quick ones are asked first, and all the others
    only where these saw nothing. There is none where no call rotates anything, as where each
    second call of a shape gives its vectors back.
    """
    asked: Mapping[str, Any]
    for asked in ({}, {"select": "every shape"}, {"ignore": ()}):
        try:
            verdict = base.judge(plant(mutant, base), dtypes=dtypes_of(mutant), **asked)
        except CallError:
            return None
        if not verdict.passed or _is_left_out(mutant.place, base, verdict):
            return None  # it fails, or is said not to be judged in these axes
    return verdict


def _is_left_out(place: Place, base: Base, verdict: Verdict) -> bool:
    """Return True if calls of a place's axes, or of all that code takes, are said not judged."""
    texts = {option.split(maxsplit=1)[1].strip('"') for option in verdict.not_judged}
    of_place = any(f"{len(text.split())} axes" in place.name for text in texts)
    return of_place or {*itertools.chain(*base.axes.values())} <= texts
