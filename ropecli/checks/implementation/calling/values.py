"""The value of each name by which an implementation is called: `x`, `positions`, `cos`, ..."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES
from ropecli.checks.implementation.call import Call, Setup, Unsupported, WrongResult
from ropecli.checks.implementation.calling.vocabulary import Configuration
from ropecli.checks.implementation.convention import CACHES, PACKED, TABLES, Convention, letters
from ropecli.checks.implementation.oracle import by_length, sequence_length
from ropecli.reference import float64
from ropecli.rotary.rotary import Rotary

MOST_ROWS = 8192  #: Of a cache, if no position is beyond.
MOST_KEPT = 2**28  #: Bytes of tables that are kept for later calls: cos and sin cost most.
MOST_POINTS = 2**18  #: Of a grid: tables of 2^18 rows of 128 numbers in float32 are 128 MiB.

_kept: dict[tuple[Any, ...], NDArray[Any]] = {}


@dataclass(frozen=True, kw_only=True)
class Values:
    """The values of names in a call: NumPy arrays and numbers."""

    call: Call
    setup: Setup

    def of(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the value of each name."""
        made = {name: self._value(name) for name in names}
        told = {"positions", "places", "offset", "offsets", *TABLES} & made.keys()
        if not told and consecutive(self.call):
            raise Unsupported("it counts positions from 0 itself")
        return made

    def _value(self, name: str) -> Any:
        call, convention, rope = self.call, self.setup.convention, self.setup.rope
        if name in CACHES:
            return self._cache(name)
        if name in TABLES:
            angles, given = _angles(call, rope)
            table = self._table(name, angles, given.attention_factor)
            table = _arrange_table(table, convention.axes_of_tables, call.batch)
            return _first(table) if name == "freqs" and convention.freqs == "stacked" else table
        x, keys = call.q, call.k
        batch, heads, length, head_dim = x.shape
        sizes: dict[str, Any] = {
            "head_dim": head_dim,
            "rotary_dim": rope.rotary_dim,
            "heads": heads,
            "key_heads": keys.shape[1],
            "base": rope.base,
            "context": self.setup.context,
            "dtype": x.dtype,
        }
        made: dict[str, Callable[[], Any]] = {
            "x": lambda: arrange(x, convention.axes_of_x),
            "q": lambda: arrange(x, convention.axes_of_x),
            "k": lambda: arrange(keys, convention.axes_of_x),
            "qkv": lambda: pack(x, keys, convention.axes_of_x),
            "positions": lambda: _positions(call, convention),
            "offset": lambda: consecutive(call),
            "offsets": lambda: _offsets(call),
            "length": lambda: length,
            "end": lambda: int(call.positions.max(initial=-1)) + 1,
            "axes_dims": lambda: _axes_dims(call, head_dim),
            "grid": lambda: _grid(call),
            "places": lambda: _places(call),
            "inv_freq": lambda: rope.compact_inv_freq.astype(self._tables_dtype(name)),
            "cu_seqlens": lambda: np.arange(batch + 1, dtype=np.int32) * np.int32(length),
            # What is not written shows as NaN.
            "out": lambda: np.full_like(arrange(x, convention.axes_of_x), np.nan),
            "config": lambda: Configuration(sizes),
        }
        return sizes[name] if name in sizes else made[name]()

    def _table(self, name: str, angles: NDArray[np.float64], factor: float) -> NDArray[Any]:
        """Return a table of angles (..., pairs) in the form of its name, (..., columns)."""
        convention = self.setup.convention
        kind = convention.freqs if name == "freqs" else name
        dtype = self._tables_dtype(kind)

        def columns(values: NDArray[np.float64]) -> NDArray[Any]:
            return _columns(values.astype(dtype), convention.columns)

        def cos() -> NDArray[Any]:
            return columns(factor * np.cos(angles))

        def sin() -> NDArray[Any]:
            return columns(factor * np.sin(angles))

        def matrix() -> NDArray[np.float64]:
            c, s = factor * np.cos(angles), factor * np.sin(angles)
            return np.stack([c, -s, s, c], axis=-1).reshape(*angles.shape, 2, 2)

        if kind == "complex":
            rotations: NDArray[np.complex128] = factor * np.exp(1j * angles)
            return rotations.astype(np.complex128 if dtype == np.float64 else np.complex64)
        forms: dict[str, Callable[[], NDArray[Any]]] = {
            "cos": cos,
            "sin": sin,
            "angles": lambda: columns(angles),
            "cos sin": lambda: np.stack([cos(), sin()], axis=-1),
            "cos then sin": lambda: np.concatenate([cos(), sin()], axis=-1),
            "sin then cos": lambda: np.concatenate([sin(), cos()], axis=-1),
            "stacked": lambda: np.stack([cos(), sin()], axis=-1),
            "matrix": lambda: matrix().astype(dtype),
        }
        return forms[kind]()

    def _tables_dtype(self, kind: str) -> np.dtype[Any]:
        """Return the dtype of a table."""
        dtype: np.dtype[Any] = self.call.vectors.dtype
        if self.setup.convention.tables_dtype:
            dtype = DTYPES[self.setup.convention.tables_dtype]
        elif kind in {"angles", "inv_freq"} and dtype != np.float64:
            dtype = DTYPES["float32"]  # half precision keeps no angle beyond a turn
        return dtype

    def _cache(self, name: str) -> NDArray[Any]:
        """Return a table with a row for every position, such as the cos and sin of vLLM."""
        call, convention = self.call, self.setup.convention
        furthest = int(call.positions.max(initial=0))
        if int(call.positions.min(initial=0)) < 0:
            raise Unsupported("its table has no rows of negative positions")
        count = max(min(self.setup.context, MOST_ROWS), furthest + 1)
        kind = name.removesuffix("_cache")
        table = self._first_rows(name, kind, count)
        axes = [letter for letter in letters("axes", convention.axes_of_tables) if letter != ("b",)]
        table = _in_order(table[None, None], "bhsd", axes)
        return _first(table) if kind == "freqs" and convention.freqs == "stacked" else table

    def _first_rows(self, name: str, kind: str, count: int) -> NDArray[Any]:
        """Return rows (count, columns) from position 0 on, which later calls have in common."""
        convention, rope = self.setup.convention, self.setup.rope
        of = rope.diagonal_inv_freq.tobytes(), rope.direction, rope.attention_factor
        key = name, convention.freqs, convention.columns, self._tables_dtype(kind), *of
        kept = _kept.get(key)
        if kept is None or len(kept) < count:
            angles = float64.angles(
                np.arange(count, dtype=np.float64), rope.diagonal_inv_freq, direction=rope.direction
            )
            if name == "cos_sin_cache":
                side_by_side = replace(convention, freqs="cos then sin", columns="single")
                setup = replace(self.setup, convention=side_by_side)
                kept = replace(self, setup=setup)._table("freqs", angles, rope.attention_factor)
            else:
                kept = self._table(kind, angles, rope.attention_factor)
            kept.setflags(write=False)  # a call gets a copy, into which it may write
            if kept.nbytes + sum(table.nbytes for table in [*_kept.values()]) > MOST_KEPT:
                _kept.clear()
            if kept.nbytes <= MOST_KEPT:
                _kept[key] = kept
        return kept[:count]


def arrange(array: NDArray[Any], text: str) -> NDArray[Any]:
    """Return an array (batch, heads, sequence, head_dim) in other axes, such as "b*s h d"."""
    axes = letters("axes", text)
    order = {letter for axis in axes for letter in axis}
    for letter, length in zip("bhsd", array.shape, strict=True):
        if letter not in order and length > 1:
            axis = {"b": "batch", "h": "heads"}.get(letter, letter)
            raise Unsupported(f"it takes no axis of {axis}")
    return _in_order(array, "bhsd", axes)


def _in_order(array: NDArray[Any], names: str, axes: Sequence[tuple[str, ...]]) -> NDArray[Any]:
    """Return an array with its leading axes, named by letters, in the order of others."""
    lengths = dict(zip(names, array.shape, strict=False))
    order = [letter for axis in axes for letter in axis]
    rest = array.shape[len(names) :]
    kept = [letter for letter in names if letter in order]
    apart = array.reshape([*(lengths[letter] for letter in kept), *rest])
    trailing = range(len(kept), apart.ndim)
    turned = apart.transpose([*(kept.index(letter) for letter in order), *trailing])
    shape = [math.prod(lengths[letter] for letter in axis) for axis in axes]
    return turned.reshape([*shape, *rest])


def restore(name: str, array: NDArray[Any], text: str, like: NDArray[Any]) -> NDArray[Any]:
    """Return a result in other axes as (batch, heads, sequence, head_dim): `arrange` undone."""
    lengths = dict(zip("bhsd", like.shape, strict=True))
    axes = letters("axes", text)
    order = [letter for axis in axes for letter in axis]
    expected = tuple(math.prod(lengths[c] for c in axis) for axis in axes)
    if array.shape != expected:
        raise WrongResult(f"it returned shape {array.shape} for {name} of shape {expected}")
    apart = array.reshape([lengths[c] for c in order])
    back = apart.transpose([order.index(c) for c in "bhsd" if c in order])
    return back.reshape(like.shape)


def pack(q: NDArray[Any], k: NDArray[Any], text: str) -> NDArray[Any]:
    """Return q, k and k again, as values, stacked on the axis 3 of a text such as "b s 3 h d"."""
    if k.shape != q.shape:
        raise Unsupported("it takes queries and keys of as many heads")
    keys = arrange(k, text)
    return np.stack([arrange(q, text), keys, keys], axis=_packed_axis(text))


def unpack(array: NDArray[Any], text: str) -> list[NDArray[Any]]:
    """Return q and k of a stack, and v if it has it: `pack` undone."""
    axis = _packed_axis(text)
    if array.ndim <= axis or array.shape[axis] < 2:
        raise WrongResult(f"it returned shape {array.shape} for q, k and v stacked as {text}")
    return [array.take(i, axis=axis) for i in range(min(3, array.shape[axis]))]


def _packed_axis(text: str) -> int:
    words = text.split()
    return words.index(PACKED) if PACKED in words else 0


def consecutive(call: Call) -> int:
    """Return the first position of a call whose positions are consecutive, alike for all."""
    places = call.positions
    if call.per_sequence:
        if (places != places[:1]).any():
            raise Unsupported("it takes one first position for all sequences of a batch")
        places = places[0]
    first = int(places.flat[0]) if places.size else 0
    counted = first + np.arange(len(places))
    if first < 0 or (places.reshape(len(places), -1) != counted[:, None]).any():
        raise Unsupported("it takes consecutive positions only")
    return first


def _coordinates(call: Call) -> NDArray[np.int64]:
    """Return positions with an axis of coordinates, (..., sequence, coordinates)."""
    places = call.positions
    return places if places.ndim > 1 + call.per_sequence else places[..., None]


def _axes_dims(call: Call, head_dim: int) -> tuple[int, ...]:
    count = _coordinates(call).shape[-1]
    shares = [2 * (head_dim // 2 // count)] * count
    return (head_dim - sum(shares[1:]), *shares[1:])


def _grid(call: Call) -> tuple[int, ...]:
    """Return the sizes of a grid with all positions of a call."""
    coordinates = _coordinates(call)
    sizes = tuple(int(n) + 1 for n in coordinates.reshape(-1, coordinates.shape[-1]).max(axis=0))
    if coordinates.min(initial=0) < 0 or math.prod(sizes) > MOST_POINTS:
        raise Unsupported(f"its grid has no negative positions and at most {MOST_POINTS:,} points")
    return sizes


def _places(call: Call) -> NDArray[np.int64]:
    """Return the number of each position in the grid."""
    if call.per_sequence:
        raise Unsupported("takes no separate positions for each sequence")
    coordinates = np.moveaxis(_coordinates(call), -1, 0)
    return np.asarray(np.ravel_multi_index(tuple(coordinates), _grid(call)), dtype=np.int64)


def _offsets(call: Call) -> NDArray[np.int64]:
    """Return the first position of each sequence."""
    places = call.positions
    if not call.per_sequence:
        return np.full(call.batch, consecutive(call))
    for row in places:
        consecutive(replace(call, positions=row, per_sequence=False))
    return np.ascontiguousarray(places[:, 0])


def _positions(call: Call, convention: Convention) -> NDArray[Any]:
    axes, places = letters("axes", convention.axes_of_positions), call.positions
    before = axes.index(("c",)) if ("c",) in axes else None  # of the coordinates
    axes = tuple(axis for axis in axes if axis != ("c",))
    in_batch = any("b" in axis for axis in axes)
    if not call.per_sequence:
        places = np.broadcast_to(places, (call.batch if in_batch else 1, *places.shape))
    elif not in_batch:
        axes = (("b",), *axes)
    made = _in_order(places.astype(np.dtype(convention.positions_dtype)), "bs", axes)
    if before is not None and made.ndim > len(axes):
        made = np.moveaxis(made, -1, before)
    return np.ascontiguousarray(made)


def _angles(call: Call, rope: Rotary) -> tuple[NDArray[np.float64], Rotary]:
    """Return m theta, (batch or 1, sequence, pairs), radians, and the encoding at this length."""
    places = call.by_sequence.astype(np.float64)
    if places.ndim > 2 and rope.axes == 1:
        raise Unsupported("tables of positions with several coordinates are of no known encoding")
    given = by_length(rope)(sequence_length(places))
    return float64.angles(places, given.inv_freq, direction=given.direction), given


def _columns(values: NDArray[Any], kind: str) -> NDArray[Any]:
    """Return numbers (..., pairs) once, in both halves, or twice side by side."""
    if kind == "single":
        return values
    if kind == "half":
        return np.concatenate([values, values], axis=-1)
    return np.repeat(values, 2, axis=-1)


def _arrange_table(table: NDArray[Any], text: str, batch: int) -> NDArray[Any]:
    """Return a table (batch or 1, sequence, columns, ...) with its axes as the text says."""
    axes = letters("axes", text)
    if len(table) > 1 and not any("b" in axis for axis in axes):
        axes = (("b",), *axes)
    elif ("b", "s") in axes:
        table = np.broadcast_to(table, (batch, *table.shape[1:]))
    return np.ascontiguousarray(_in_order(table[:, None], "bhsd", axes))


def _first(table: NDArray[Any]) -> NDArray[Any]:
    """Return (..., 2) as (2, ...)."""
    return np.ascontiguousarray(np.moveaxis(table, -1, 0))
