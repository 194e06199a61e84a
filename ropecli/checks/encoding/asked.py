"""The arguments of a call of code of a positional encoding, and what a result must hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.checks.implementation.call import ImplementationError, WrongResult

#: What code returns, and its axes by their first letters: length, dim, heads, queries, keys, rows
#: and columns of a grid, batch.
FORMS = {
    "table": "l d",
    "grid": "r*c d",
    "bias": "h q k",
    "slopes": "h",
    "buckets": "q k",
    "scores": "b h q k",
    "shift": "b h q k",
}
#: Sizes of a call by the letters of axes.
SIZES = {
    "l": "length",
    "d": "dim",
    "h": "heads",
    "q": "queries",
    "k": "keys",
    "r": "height",
    "c": "width",
    "b": "batch",
}
#: What a call may name, besides the implementation itself.
ROLES = {
    "length": "number of positions",
    "positions": "integers, (length,)",
    "ids": "token ids, of which only the shape counts, (batch, length)",
    "dim": "coordinates of a code, a query or a key",
    "heads": "heads",
    "queries": "number of queries",
    "keys": "number of keys",
    "relative": "key position minus query position, (queries, keys)",
    "distance": "query position minus key position, (queries, keys)",
    "m": "positions of the queries, (queries,)",
    "n": "positions of the keys, (keys,)",
    "grid": "rows of a square grid, which are its columns as well",
    "height": "rows of a grid",
    "width": "columns of a grid",
    "shape": "rows and columns of a grid, a tuple",
    "x": "vectors that the code may be added to, (batch, length, dim)",
    "q": "queries, (batch, heads, queries, dim)",
    "k": "keys, (batch, heads, keys, dim)",
    "by_distance": "scores by distance, keys - 1 first, (batch, heads, queries, keys)",
    "by_distance_first": "the same, (queries, keys, batch, heads)",
    "mask": "ones, (batch, keys)",
    "batch": "sequences",
    "inv_freq": "frequencies 10000^(-2t/d) of a sinusoidal table, (dim / 2,)",
    "out": "array for the table, full of NaN, (length, dim)",
    "dtype": "dtype of the result, as the framework names it",
}

#: Weights that a logarithm needs above 0: with any others FIRE's bias is NaN, which is not judged.
POSITIVE = {"c", "threshold"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Asked:
    """Sizes and values of one call. No two sizes are alike, so that axes tell themselves."""

    form: str
    length: int = 11
    dim: int = 64
    heads: int = 6
    queries: int = 5
    keys: int = 7
    height: int = 4
    width: int = 5
    batch: int = 3
    dtype: str = "float32"
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  #: Such as num_buckets, by name.
    #: Weights by name: those that the call hands over, or the code's own.
    weights: Mapping[str, Array] = field(default_factory=dict)
    at: tuple[int, ...] | None = None  #: Positions, if they are not 0, 1, 2, ...
    last: int | None = None  #: Position of the last query, if queries do not begin at 0.

    @property
    def positions(self) -> NDArray[np.int64]:
        """The positions of a table's rows, (length,)."""
        return np.arange(self.length) if self.at is None else np.array(self.at, dtype=np.int64)

    @property
    def m(self) -> Array:
        """The positions of the queries, as a column."""
        first = 0 if self.last is None else self.last - self.queries + 1
        return np.arange(first, first + self.queries, dtype=np.float64)[:, None]

    @property
    def n(self) -> Array:
        """The positions of the keys."""
        return np.arange(self.keys, dtype=np.float64)

    @property
    def relative(self) -> Array:
        """Key position minus query position, (queries, keys)."""
        return self.n - self.m

    def setting(self, name: str, default: Any) -> Any:
        """Return a setting, or the definition's."""
        value = self.settings.get(name)
        return default if value is None else value

    def weight(self, name: str, shape: Sequence[int]) -> Array:
        """Return a weight: the one that is known, or a new one of a shape."""
        if name in self.weights:
            return np.asarray(self.weights[name], dtype=np.float64)
        return self._normal(name, shape)

    def _normal(self, name: str, shape: Sequence[int]) -> Array:
        random = np.random.default_rng([self.seed, *name.encode()])
        values = random.standard_normal(tuple(shape)).astype(DTYPES[self.dtype]).astype(np.float64)
        return np.abs(values) if name in POSITIVE else values

    @property
    def q(self) -> Array:
        """Queries, (batch, heads, queries, dim)."""
        return self._normal("q", (self.batch, self.heads, self.queries, self.dim))

    @property
    def k(self) -> Array:
        """Keys, (batch, heads, keys, dim)."""
        return self._normal("k", (self.batch, self.heads, self.keys, self.dim))

    @property
    def x(self) -> Array:
        """Vectors, (batch, length, dim): alike in each sequence, and small next to a code."""
        one = np.sign(self._normal("x", (self.length, self.dim))) / 4
        return np.broadcast_to(one, (self.batch, self.length, self.dim))

    @property
    def by_distance(self) -> Array:
        """Scores of queries by distance, the furthest one first, (batch, heads, queries, keys)."""
        return self._normal("by_distance", (self.batch, self.heads, self.queries, self.keys))

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return what names of a call stand for."""
        held = DTYPES[self.dtype]
        every: dict[str, Any] = {
            **{name: getattr(self, name) for name in SIZES.values()},
            "grid": self.height,
            "shape": (self.height, self.width),
            "positions": self.positions,
            "relative": self.relative.astype(np.int64),
            "distance": -self.relative.astype(np.int64),
            "m": self.m[:, 0].astype(np.int64),
            "n": self.n.astype(np.int64),
            "dtype": np.dtype(held),
            "inv_freq": (10_000.0 ** (-np.arange(0, self.dim, 2) / self.dim)).astype(np.float32),
            "out": np.full((self.length, self.dim), np.nan, np.float32),
            "mask": np.ones((self.batch, self.keys), np.int64),
            "ids": np.full((self.batch, self.length), 7),
            **self.settings,
        }
        made = {name: every[name] for name in names if name in every}
        for name in set(names) - made.keys():
            if name in {"q", "k", "x", "by_distance"}:
                made[name] = getattr(self, name).astype(held)
            elif name == "by_distance_first":
                made[name] = self.by_distance.astype(held).transpose(2, 3, 0, 1)
            elif name in self.weights:
                made[name] = np.asarray(self.weights[name]).astype(held)
        return made

    def sizes(self) -> dict[str, int]:
        """Return the sizes by the letters of axes."""
        return {letter: getattr(self, name) for letter, name in SIZES.items()}


class Shorter(ImplementationError):
    """A table that has fewer rows than it was asked for."""


Layout = tuple[str, ...]  #: What each axis of a result is: letters, their product, or "1".


def layout_of(shape: tuple[int, ...], asked: Asked, *, batched: bool = True) -> Layout:
    """Return what the axes of a result are, told by their sizes, in whatever order they come.

    Queries or keys that are left out are 1 long: the result is the same for all of them.

    Raises:
        WrongResult: They are not those of the form.
    """
    sizes = {**asked.sizes(), "1": 1}
    wanted = FORMS[asked.form].split()
    optional = ["q", "k", "h"] if asked.form in {"bias", "scores"} else []
    of_batch = set() if "b" in wanted else {"b"}
    joined = [f"b*{wanted[0]}"] if of_batch else [f"{wanted[0]}*{wanted[1]}"]
    for missing in range(len(optional) + 1):
        for left_out in itertools.combinations(optional, missing):
            kept = [word for word in wanted if word not in left_out]
            ways = [kept, ["b", *kept]]
            if asked.form == "grid":
                apart = ["r", "c", *kept[1:]]
                ways += [apart, ["b", *apart]]
            if kept[:1] == wanted[:1]:
                ways.append([joined[0], *kept[len(joined[0].split("*")) - len(of_batch) :]])
            for words in ways if batched else [way for way in ways if "b" not in way[:1]]:
                if words and (placed := _place(shape, words, sizes)):
                    return placed
    lengths = " x ".join(str(_size(word, sizes)) for word in wanted)
    raise WrongResult(f"it returned {shape}, expected axes {' '.join(wanted)}: {lengths}")


def _size(word: str, sizes: Mapping[str, int]) -> int:
    return int(np.prod([sizes[letter] for letter in word.split("*")]))


def _place(shape: tuple[int, ...], words: Sequence[str], sizes: Mapping[str, int]) -> Layout:
    """Return the words in the order of a shape's axes; empty if they do not fit."""
    long = [size for size in shape if size != 1]
    for order in itertools.permutations(words):
        if [_size(word, sizes) for word in order] == long:
            rest = iter(order)
            return tuple("1" if size == 1 else next(rest) for size in shape)
    return ()


def canonical(result: NDArray[Any], layout: Layout, asked: Asked) -> NDArray[Any]:
    """Return a result with the axes of its form; a batch must hold the same for each sequence."""
    sizes = {**asked.sizes(), "1": 1}
    shape = tuple(_size(word, sizes) for word in layout)
    if result.shape != shape:
        as_wide = result.ndim == len(shape) and result.shape[-1:] == shape[-1:]
        if asked.form == "table" and as_wide and result.size < math.prod(shape):
            raise Shorter(f"it has only {result.shape[layout.index('l')]:,} rows")
        raise WrongResult(f"it returned {result.shape}, expected {shape}")
    letters = [letter for word in layout for letter in _letters(word)]
    array = result.reshape([sizes[letter] for letter in letters])
    wanted = [letter for word in FORMS[asked.form].split() for letter in _letters(word)]
    if "b" in letters and "b" not in wanted:
        array = np.moveaxis(array, letters.index("b"), 0)
        letters.remove("b")
        if not np.array_equal(array, np.broadcast_to(array[:1], array.shape), equal_nan=True):
            raise WrongResult("sequences of a batch get different results")
        array = array[0]
    kept = [letter for letter in letters if letter != "1"]
    array = array.reshape([sizes[letter] for letter in kept])
    array = array.transpose([kept.index(letter) for letter in wanted if letter in kept])
    array = array.reshape([sizes[letter] if letter in kept else 1 for letter in wanted])
    if asked.form == "grid":
        return array.reshape(-1, array.shape[-1])
    return array


def _letters(word: str) -> list[str]:
    return word.split("*")
