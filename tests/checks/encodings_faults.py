"""Faults of positional encodings: each is planted in right code by a wrapper of it."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from encodings_right import RIGHT, Array, Right
from ml_dtypes import bfloat16

WEIGHTS = (
    *("table", "r1", "r2", "hidden", "hidden_bias", "output", "output_bias", "c", "threshold"),
    *("key_positions", "r", "u", "v", "pos_key", "pos_query", "pos_q", "pos_k", "pos_emb"),
)
#: Axis of the rows, and of the heads, where a form has them.
ROWS = {"table": 0, "grid": 0}
HEADS = {"slopes": -1, "bias": -3, "scores": -3}
MAPS = ("bias", "scores", "buckets")
SUMS = ("scores",)
#: Least difference that counts as a fault, as a share of the largest value.
LEAST = 1e-4


@dataclass(eq=False)
class Call:
    """One call of right code in a wrapper."""

    right: Right
    code: Callable[..., Any]
    arguments: dict[str, Any]
    state: dict[str, Any] = field(default_factory=dict)

    def again(self, **changed: Any) -> Array:
        """Return what the right code gives with other arguments."""
        return np.asarray(self.code(**{**self.arguments, **changed}))

    def has(self, *names: str) -> bool:
        """Return True if the code has all of these parameters."""
        return {*names} <= self.arguments.keys()

    @property
    def weights(self) -> dict[str, Array]:
        """The weights that are handed over."""
        return {name: value for name, value in self.arguments.items() if name in WEIGHTS}


Fault = Callable[[Array, Call], Array]  #: Of a right result and its call, the wrong one.
FAULTS: dict[str, tuple[tuple[str, ...], Fault]] = {}
EVERY = ("table", "grid", "bias", "slopes", "buckets", "scores", "shift")
NUMBERS = ("table", "grid", "bias", "slopes", "scores", "shift")


def _fault(name: str, *forms: str) -> Callable[[Fault], Fault]:
    def keep(fault: Fault) -> Fault:
        FAULTS[name] = (forms, fault)
        return fault

    return keep


def _simple(name: str, forms: tuple[str, ...], fault: Callable[[Array], Array]) -> None:
    FAULTS[name] = (forms, lambda y, _: fault(y))


def _set(y: Array, index: Any, value: Any) -> Array:
    y = y.copy()
    y[index] = value
    return y


def _rows_at(y: Array, rows: Array, axis: int) -> Array:
    return np.take(y, np.clip(rows, 0, y.shape[axis] - 1), axis=axis)


def _rounded(count: int, dtype: Any) -> Array:
    return np.arange(count).astype(np.float32).astype(dtype).astype(np.int64)


_simple("multiplied by 1.01", NUMBERS, lambda y: (y * 1.01).astype(y.dtype))
_simple("halved", ("table", "grid", "bias", "slopes"), lambda y: (y / 2).astype(y.dtype))
_simple("negated", ("table", "grid", "bias", "scores", "buckets"), lambda y: -y)
_simple("0.1 is added", NUMBERS, lambda y: (y + 0.1).astype(y.dtype))
_simple("returned after float16", NUMBERS, lambda y: y.astype(np.float16).astype(y.dtype))
_simple("returned after bfloat16", NUMBERS, lambda y: y.astype(bfloat16).astype(y.dtype))

# Tables
_simple("columns are reversed", ("table", "grid"), lambda y: y[..., ::-1].copy())
_simple("halves are exchanged", ("grid",), lambda y: np.roll(y, y.shape[1] // 4, axis=1))
_simple("the last column is 0", ("table", "grid"), lambda y: _set(y, (..., -1), 0))
_simple("rows are one late", ("table", "grid"), lambda y: np.roll(y, 1, axis=-2))
_simple("rows are three early", ("table",), lambda y: np.roll(y, -3, axis=-2))
_simple("rows are reversed", ("table", "grid"), lambda y: y[..., ::-1, :].copy())
_simple("the last row is 0", ("table", "grid"), lambda y: _set(y, (..., -1, slice(None)), 0))
_simple("the last row is NaN", ("table", "grid"), lambda y: _set(y, (..., -1, slice(None)), np.nan))
_simple(
    "rows beyond 1,000 are those of 1,000",
    ("table",),
    lambda y: _rows_at(y, np.minimum(np.arange(y.shape[-2]), 1000), -2),
)
_simple("wraps at 512", ("table",), lambda y: y[..., np.arange(y.shape[-2]) % 512, :])
_simple(
    "positions in bfloat16", ("table",), lambda y: _rows_at(y, _rounded(y.shape[-2], bfloat16), -2)
)
_simple(
    "positions in float16", ("table",), lambda y: _rows_at(y, _rounded(y.shape[-2], np.float16), -2)
)
_simple(
    "the first column of dims that 4 does not divide is 0",
    ("table",),
    lambda y: y if y.shape[-1] % 4 == 0 else _set(y, (..., 1), 0),
)


@_fault("sin and cos are exchanged", "table")
def _exchanged(y: Array, call: Call) -> Array:
    pairs = y.reshape(*y.shape[:-1], -1, 2)
    return pairs[..., ::-1].reshape(y.shape)


@_fault("base 10,001", "table")
def _base(y: Array, call: Call) -> Array:
    """Multiply the angles of each pair by a power of a base's ratio."""
    if call.right.encoding != "sinusoidal":
        return y
    pairs = y.shape[1] // 2
    order = call.right.reading.startswith("all")
    first, second = (y[:, :pairs], y[:, pairs:]) if order else (y[:, 0::2], y[:, 1::2])
    angles = np.arange(len(y))[:, None] * 10_000.0 ** (-np.arange(pairs) / pairs)
    more = angles * (1.0001 ** (-np.arange(pairs) / pairs) - 1)
    sines = first * np.cos(more) + second * np.sin(more)
    cosines = second * np.cos(more) - first * np.sin(more)
    joined = [sines, cosines]
    parts = np.concatenate(joined, -1) if order else np.stack(joined, -1).reshape(y.shape)
    return parts.astype(y.dtype)


# Heads
def _of_heads(name: str, fault: Callable[[Array], Array]) -> None:
    def apply(y: Array, call: Call) -> Array:
        axis = HEADS[call.right.form]
        return np.moveaxis(fault(np.moveaxis(y, axis, 0)), 0, axis)

    FAULTS[name] = (tuple(HEADS), apply)


_of_heads("heads are reversed", lambda y: y[::-1].copy())
_of_heads("heads are one late", lambda y: np.roll(y, 1, axis=0))
_of_heads("the second head is the first", lambda y: y[np.maximum(np.arange(len(y)) - 1, 0)])
_of_heads("all heads are the first", lambda y: y[np.zeros(len(y), np.int64)])
_of_heads("the last head is 0", lambda y: _set(y, -1, 0))
_of_heads("wrong for 12 heads", lambda y: y[::-1].copy() if len(y) == 12 else y)
_of_heads("wrong for 3 heads", lambda y: y[::-1].copy() if len(y) == 3 else y)


@_fault("slopes of the next power of 2", "slopes", "bias")
def _next_power(y: Array, call: Call) -> Array:
    name = next((each for each in ("heads", "num_heads") if call.has(each)), None)
    if name is None or call.right.encoding != "alibi":
        return y
    heads = call.arguments[name]
    more = call.again(**{name: 2 ** math.ceil(math.log2(heads))})
    return np.take(more, np.arange(heads), axis=HEADS[call.right.form])


# Queries and keys
_simple("keys are reversed", (*MAPS, "shift"), lambda y: y[..., ::-1].copy())
_simple("keys are one late", (*MAPS, "shift"), lambda y: np.roll(y, 1, axis=-1))
_simple("queries are one late", (*MAPS, "shift"), lambda y: np.roll(y, 1, axis=-2))
_simple(
    "the first key is as the second", MAPS, lambda y: _set(y, (..., 0), y[..., 1 % y.shape[-1]])
)
_simple("the last query is 0", MAPS, lambda y: _set(y, (..., -1, slice(None)), 0))
_simple("a token is 1 from itself", MAPS, lambda y: y + np.eye(*y.shape[-2:], dtype=y.dtype))
_simple(
    "keys beyond 1,000 are as key 1,000",
    ("bias",),
    lambda y: _rows_at(y, np.minimum(np.arange(y.shape[-1]), 1000), -1),
)
_simple(
    "keys in bfloat16",
    ("bias",),
    lambda y: _rows_at(y, _rounded(y.shape[-1], bfloat16), -1),
)
_simple(
    "keys beyond 30 are as key 30",
    ("bias", "scores"),
    lambda y: _rows_at(y, np.minimum(np.arange(y.shape[-1]), 30), -1),
)
_simple("wraps at 16 keys", MAPS, lambda y: y[..., np.arange(y.shape[-1]) % 16])


@_fault("queries and keys are exchanged", "bias", "scores")
def _turned(y: Array, call: Call) -> Array:
    if call.has("query_length", "key_length"):
        lengths = call.arguments["key_length"], call.arguments["query_length"]
        return call.again(query_length=lengths[0], key_length=lengths[1]).swapaxes(-1, -2)
    if call.has("q", "k"):
        q, k = call.arguments["q"], call.arguments["k"]
        return call.again(q=k, k=q).swapaxes(-1, -2) if q.shape == k.shape else y
    return y


@_fault("the first sequence's result in all", "scores", "shift")
def _first_sequence(y: Array, call: Call) -> Array:
    return np.broadcast_to(y[:1], y.shape).copy()


@_fault("the last sequence is 0", "scores", "shift")
def _last_sequence(y: Array, call: Call) -> Array:
    return _set(y, -1, 0) if len(y) > 1 else y


@_fault("divided by d", "scores")
def _by_dim(y: Array, call: Call) -> Array:
    return y / math.sqrt(call.arguments["q"].shape[-1])


@_fault("doubled", "scores", "shift")
def _doubled(y: Array, call: Call) -> Array:
    return 2 * y


# Buckets
def _of_relative(name: str, change: Callable[[Array], Array]) -> None:
    def apply(y: Array, call: Call) -> Array:
        key = next(each for each in call.arguments if each.startswith("relative"))
        return call.again(**{key: change(call.arguments[key])})

    FAULTS[name] = (("buckets",), apply)


_of_relative("distances are one more", lambda r: r + np.sign(r))
_of_relative("distances are one less", lambda r: r - np.sign(r))
_of_relative("the sign is turned", lambda r: -r)
_of_relative("relative positions are one late", lambda r: r + 1)
_of_relative("distances are clipped at 50", lambda r: np.clip(r, -50, 50))
_of_relative("distances are clipped at 90", lambda r: np.clip(r, -90, 90))
_of_relative("distances wrap at 256", lambda r: np.sign(r) * (np.abs(r) % 256))
_of_relative(
    "the border at 64 is one late",
    lambda r: np.where(np.abs(r) == 64, np.sign(r) * 63, r),
)
_simple("the last bucket is never used", ("buckets",), lambda y: np.minimum(y, y.max() - 1))
_simple(
    "buckets 3 and 4 are exchanged",
    ("buckets",),
    lambda y: np.where(y == 3, 4, np.where(y == 4, 3, y)),
)
_simple("buckets count from 1", ("buckets",), lambda y: y + 1)


def _ignoring(name: str, parameter: str, value: Any) -> None:
    def apply(y: Array, call: Call) -> Array:
        return call.again(**{parameter: value}) if call.has(parameter) else y

    FAULTS[name] = (("buckets",), apply)


_ignoring("bidirectional is ignored", "bidirectional", True)
_ignoring("max_distance is ignored", "max_distance", 128)
_ignoring("num_buckets is ignored", "num_buckets", 32)
_ignoring("max_position is ignored", "max_position", 128)
_ignoring("bucket_size is ignored", "bucket_size", 32)


# Weights that are handed over
def _of_weights(name: str, change: Callable[[Array], Array]) -> None:
    def apply(y: Array, call: Call) -> Array:
        changed = {key: change(np.asarray(value)) for key, value in call.weights.items()}
        return call.again(**changed) if changed else y

    FAULTS[f"weights: {name}"] = (EVERY, apply)


_of_weights("negated", np.negative)
_of_weights("rolled by one row", lambda w: np.roll(w, 1, axis=-2 if w.ndim > 1 else -1))
_of_weights("reversed", lambda w: w[::-1].copy())
_of_weights("all 0", np.zeros_like)
_of_weights("doubled", lambda w: 2 * w)
_of_weights("through float16", lambda w: w.astype(np.float16).astype(w.dtype))


@_fault("two weights are exchanged", *EVERY)
def _weights_exchanged(y: Array, call: Call) -> Array:
    for one, other in (("r1", "r2"), ("u", "v"), ("pos_key", "pos_query"), ("pos_q", "pos_k")):
        if call.has(one, other) and np.shape(call.arguments[one]) == np.shape(
            call.arguments[other]
        ):
            return call.again(**{one: call.arguments[other], other: call.arguments[one]})
    return y


@_fault("a part is left out", "scores")
def _left_out(y: Array, call: Call) -> Array:
    name = next(iter(call.weights), None)
    return y if name is None else call.again(**{name: np.zeros_like(call.arguments[name])})


# State
@_fault("each call after the first is doubled", *EVERY)
def _later(y: Array, call: Call) -> Array:
    call.state["calls"] = call.state.get("calls", 0) + 1
    return y if call.state["calls"] == 1 else 2 * y


@_fault("the result of the first call of any size that it can be cut from", *EVERY)
def _cached(y: Array, call: Call) -> Array:
    """Keep the first result, turned by its length, as a cache that is made for it."""
    kept = call.state.setdefault("kept", np.flip(y, axis=-1).copy())
    if call.state.setdefault("first", y.shape) == y.shape:
        return y
    smaller = kept.ndim == y.ndim and all(np.array(y.shape) <= kept.shape)
    return kept[tuple(slice(each) for each in y.shape)] if smaller else y


@_fault("the dtype of an earlier call", "table", "scores")
def _kept_dtype(y: Array, call: Call) -> Array:
    earlier = call.state.get("dtype", y.dtype)
    call.state["dtype"] = y.dtype
    return y.astype(earlier)


@_fault("writes into its arguments", *EVERY)
def _writes(y: Array, call: Call) -> Array:
    for value in call.arguments.values():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            np.add(value, 1, out=value)
            break
    return y


@dataclass(frozen=True, eq=False)
class Planted:
    """A fault in right code."""

    right: Right
    fault: str

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.fault}: {self.right.name}"

    def code(self) -> Any:
        """Return the code with the fault, with no history."""
        return plant(self.right, FAULTS[self.fault][1])


def plant(right: Right, fault: Fault) -> Any:
    """Return right code with a fault in its result."""
    state: dict[str, Any] = {}
    if inspect.isclass(right.code):
        base: Any = right.code

        class Wrong(base):  # type: ignore[misc]
            def __call__(self, x: Array) -> Array:
                """Return the sum with a table that the fault has changed."""
                code = super().__call__
                table = code(np.zeros((1, *x.shape[1:]), np.float32))[0]
                call = Call(right=right, code=code, arguments={"x": x}, state=state)
                return (x + fault(table, call)).astype(x.dtype)

        Wrong.__name__ = base.__name__
        return Wrong
    signature = inspect.signature(right.code)

    @functools.wraps(right.code)
    def wrong(*positional: Any, **named: Any) -> Array:
        bound = signature.bind(*positional, **named)
        bound.apply_defaults()
        call = Call(right=right, code=right.code, arguments=dict(bound.arguments), state=state)
        return fault(np.asarray(right.code(**bound.arguments)), call)

    return wrong


def _normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _scores(heads: int = 12, queries: int = 37, **weights: Array) -> Mapping[str, Any]:
    q, k = (_normal(2, heads, queries, 16, seed=seed) for seed in (1, 2))
    return {"q": q, "k": k, **weights}


_RELATIVE = np.arange(-600, 601)[None]
_LENGTHS = {"query_length": 1050, "key_length": 1100}
_SHORT = {"query_length": 9, "key_length": 9}
_SIZES = ((12, _SHORT), (3, _SHORT), (6, _LENGTHS))
#: Calls of each right code, by which it shows that a fault changes something.
CALLS: dict[str, Sequence[Mapping[str, Any]]] = {
    **{
        name: [{"length": 3000, "dim": 10}, {"length": 20, "dim": 64}]
        for name in ("interleaved", "concatenated", "over_fewer")
    },
    "at_positions": [{"positions": np.arange(3000), "dim": dim} for dim in (10, 64)],
    "added": [{"x": np.zeros((2, length, 10), np.float32)} for length in (3000, 20)],
    "grid_of_mae": [{"embed_dim": 16, "grid_size": size} for size in (9, 5)],
    **{
        name: [{"positions": np.arange(n), "table": _normal(n + 4, 10)} for n in (3000, 20)]
        for name in ("learned", "learned_from_two")
    },
    "slopes": [{"heads": heads} for heads in (12, 3, 8)],
    "alibi": [{"heads": heads, **_SHORT} for heads in (12, 3)] + [{"heads": 2, **_LENGTHS}],
    "symmetric": [{"heads": heads, **_SHORT} for heads in (12, 3)] + [{"heads": 2, **_LENGTHS}],
    "of_keys": [{"heads": heads, "key_length": 1100} for heads in (12, 3)],
    "of_mask": [{"attention_mask": np.ones((2, 1100), int), "num_heads": n} for n in (12, 3)],
    "buckets": [
        {"relative_position": _RELATIVE},
        {"relative_position": _RELATIVE, "bidirectional": False},
        {"relative_position": _RELATIVE, "num_buckets": 16, "max_distance": 300},
    ],
    "log_buckets": [
        {"relative_pos": _RELATIVE},
        {"relative_pos": _RELATIVE, "bucket_size": 64, "max_position": 512},
    ],
    "t5": [{**each, "table": _normal(32, n)} for n, each in _SIZES],
    "kerple": [
        {**each, "r1": abs(_normal(n)), "r2": abs(_normal(n, seed=1))} for n, each in _SIZES
    ],
    "fire": [
        {
            "hidden": _normal(1, 8),
            "hidden_bias": _normal(8),
            "output": _normal(8, n),
            "output_bias": _normal(n),
            "c": abs(_normal(1)),
            "threshold": abs(_normal(1)),
            **each,
        }
        for n, each in _SIZES
    ],
    "shaw": [_scores(n, key_positions=_normal(5, 16)) for n in (12, 3)],
    "rel_shift": [{"x": _normal(2, 3, 5, n)} for n in (7, 9)],
    "transformer_xl": [
        _scores(n, r=_normal(n, 37, 16, seed=3), u=_normal(n, 16, seed=4), v=_normal(n, 16, seed=5))
        for n in (12, 3)
    ],
    "deberta": [
        _scores(n, pos_key=_normal(4, 16), pos_query=_normal(4, 16, seed=7)) for n in (12, 3)
    ],
    "tupe": [
        _scores(n, pos_q=_normal(n, 37, 16), pos_k=_normal(n, 37, 16, seed=7)) for n in (12, 3)
    ],
    "cope": [_scores(n, pos_emb=_normal(4, 16)) for n in (12, 3)],
    "rope": [_scores(n) for n in (12, 3)],
    "nope": [
        *(_scores(n) for n in (12, 3)),
        {name: array.astype(np.float16) for name, array in _scores(3).items()},
    ],
}


def _called(wrong: Any, arguments: Mapping[str, Any]) -> tuple[Array, list[Array]]:
    """Return a result, and what the arrays that were handed over hold after that."""
    own = {k: np.array(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    made: Any = wrong
    code = made(arguments["x"].shape[-1]) if inspect.isclass(wrong) else wrong
    result: Array = np.asarray(code(**own))
    return result, [each for each in own.values() if isinstance(each, np.ndarray)]


def changes(planted: Planted) -> bool:
    """Return True if a fault changes what its code returns, or what is handed over."""
    wrong = planted.code()
    right = planted.right.code
    with np.errstate(all="ignore"):
        for arguments in CALLS[planted.right.name]:
            (got, after), (expected, before) = _called(wrong, arguments), _called(right, arguments)
            if got.shape != expected.shape or got.dtype != expected.dtype:
                return True
            finite = np.where(np.isfinite(expected), expected, 0).astype(np.float64)
            unlike = np.abs(np.where(np.isfinite(expected), got - expected, 0))
            if not (unlike <= LEAST * max(1.0, np.abs(finite).max())).all():
                return True
            if any(not np.array_equal(*both) for both in zip(after, before, strict=True)):
                return True
    return False


def planted() -> Iterator[Planted]:
    """Yield each fault in each right code that it changes."""
    for name, (forms, _) in FAULTS.items():
        for right in RIGHT.values():
            each = Planted(right, name)
            if right.form in forms and changes(each):
                yield each
