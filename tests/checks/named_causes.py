"""Faults of rows, each in some rows of right code, and the words by which a verdict names them.

`Seen` is what a kernel sees: vectors x (batch, heads, length, head_dim) and a position for each
row. A fault gives all rows as they come out of it; a place says where they are taken. Nothing of
ropecli's is in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from implementations.plain import Array, inv_freq, wide
from judging import check_here
from ml_dtypes import bfloat16

DIM = 32
THETA = inv_freq(DIM)
#: Of check: one way to call, so that nothing but the rows decides.
OPTIONS: dict[str, Any] = {"head_dim": DIM, "context_length": 512, "axes_of_x": "b h s d"}


def apart(n: int) -> Array:
    """The first coordinates of all pairs, then the second ones, of pairs n apart."""
    first = np.flatnonzero(np.arange(DIM) // n % 2 == 0)
    return np.concatenate([first, first + n])


@dataclass(frozen=True, kw_only=True, eq=False)
class Seen:
    """Input of a kernel."""

    x: Array  #: (batch, heads, length, head_dim).
    m: Array  #: (batch or 1, 1, length), float64.

    @property
    def sequence(self) -> Array:
        return np.arange(self.x.shape[0])[:, None, None]

    @property
    def head(self) -> Array:
        return np.arange(self.x.shape[1])[:, None]

    @property
    def row(self) -> Array:
        return np.arange(self.x.shape[2])

    @property
    def own(self) -> bool:
        return bool((self.m != self.m[:1]).any())

    def turn(
        self,
        m: Any = None,
        *,
        theta: Array = THETA,
        x: Any = None,
        apart_by: int = DIM // 2,
        table: Any = np.float64,
        angle: Any = np.float64,
    ) -> Array:
        """Rows turned by positions m that are broadcast to (batch, heads, length)."""
        x = self.x if x is None else x
        angles = np.asarray(self.m if m is None else m)[..., None] * theta
        angles = np.broadcast_to(angles, (*x.shape[:-1], len(theta)))
        with np.errstate(over="ignore", invalid="ignore"):
            angles = angles.astype(angle).astype(np.float64)
            cos, sin = (f(angles).astype(table).astype(np.float64) for f in (np.cos, np.sin))
        y, order = wide(x), apart(apart_by)
        a, b = np.split(y[..., order], 2, axis=-1)
        y[..., order] = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)
        return y.astype(x.dtype)

    def matrix(self, of: Callable[..., tuple[Array, Array]]) -> Array:
        """Rows of which both halves are made by a function of (a, b, cos, sin)."""
        n = self.x.shape[-1] // 2
        a, b = (part.astype(np.float64) for part in (self.x[..., :n], self.x[..., n:]))
        angles = self.m[..., None] * THETA
        return np.concatenate(of(a, b, np.cos(angles), np.sin(angles)), axis=-1).astype(
            self.x.dtype
        )


Rows = Callable[[Seen], Array]
Where = Callable[[Seen], Any]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A wrong implementation."""

    name: str
    target: Any
    says: str  #: Pattern of the sentence about the cause.


def function(rows: Rows, where: Where) -> Any:
    """Right code, but for the rows of a fault where it shows."""

    def rotate(x: Array, positions: Array) -> Array:
        batch = x[None] if x.ndim == 3 else x[None, None] if x.ndim == 2 else x
        m = np.asarray(positions, np.float64)
        seen = Seen(x=batch, m=m.reshape(-1, 1, m.shape[-1]))
        wrong = np.broadcast_to(where(seen), batch.shape[:3])[..., None]
        return np.where(wrong, rows(seen), seen.turn()).astype(x.dtype).reshape(x.shape)

    return rotate


def both(rows: Rows) -> Any:
    """Right queries, and keys with the fault."""
    right, wrong = function(rows, lambda s: False), function(rows, lambda s: True)

    def rotate(q: Array, k: Array, positions: Array) -> tuple[Array, Array]:
        return right(q, positions), wrong(k, positions)

    return rotate


def overwritten(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    first = a * c - b * s
    return first, b * c + first * s


def overwritten_last(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    last = b * c + a * s
    return a * c - last * s, last


def sign_lost(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    return a * c + b * s, b * c + a * s


def exchange(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    return a * s - b * c, b * s + a * c


def half_of_it(a: Array, b: Array, c: Array, s: Array) -> tuple[Array, Array]:
    return a * c - b * s, b


def move(m: Callable[[Seen], Any]) -> Rows:
    return lambda s: s.turn(m(s))


#: Where a fault shows.
PLACES: dict[str, Where] = {
    "later heads": lambda s: s.head >= 1,
    "odd heads": lambda s: s.head % 2 == 1,
    "last head": lambda s: (s.head == s.x.shape[1] - 1) & (s.x.shape[1] > 1),
    "later sequences": lambda s: s.sequence >= 1,
    "odd rows": lambda s: s.row % 2 == 1,
    "last row": lambda s: (s.row == s.x.shape[2] - 1) & (s.x.shape[2] > 1),
    "every row": lambda s: True,
    "an offset": lambda s: s.m.min() > 0,
    "a token alone": lambda s: s.x.shape[2] == 1,
    "long sequences": lambda s: s.x.shape[2] > 64,
    "own positions": lambda s: s.own,
}
#: What becomes of rows.
FAULTS: dict[str, Rows] = {
    "copied": lambda s: s.x,
    "zeros": lambda s: np.zeros_like(s.x),
    "backwards": move(lambda s: -s.m),
    "one late": move(lambda s: s.m + 1),
    "one early": move(lambda s: s.m - 1),
    "by index": move(lambda s: s.row + 0 * s.m),
    "at 0": move(lambda s: 0 * s.m),
    "from the first on": move(lambda s: s.m[..., :1] + s.row),
    "at half the position": move(lambda s: s.m / 2),
    "plus the head": move(lambda s: s.m + s.head),
    "plus the sequence": move(lambda s: s.m + s.sequence),
    "running on": move(lambda s: s.m + s.sequence * s.x.shape[2]),
    "by the first sequence": move(lambda s: s.m[:1]),
    "by the next sequence": move(lambda s: np.roll(s.m, -1, axis=0)),
    "by bfloat16 positions": move(lambda s: s.m.astype(bfloat16).astype(float)),
    "twice": lambda s: s.turn(x=s.turn()),
    "too long": lambda s: 2 * s.turn(),
    "interleaved": lambda s: s.turn(apart_by=1),
    "by a stride": lambda s: s.turn(apart_by=DIM // 4),
    "base 500000": lambda s: s.turn(theta=inv_freq(DIM, 500_000.0)),
    "base 100": lambda s: s.turn(theta=inv_freq(DIM, 100.0)),
    "float16 tables": lambda s: s.turn(table=np.float16),
    "bfloat16 angles": lambda s: s.turn(angle=bfloat16),
    "float16 vectors": lambda s: s.turn(x=s.x.astype(np.float16).astype(s.x.dtype)),
    "bfloat16 results": lambda s: s.turn().astype(bfloat16).astype(s.x.dtype),
    "overwritten": lambda s: s.matrix(overwritten),
    "overwritten from the end": lambda s: s.matrix(overwritten_last),
    "sign lost": lambda s: s.matrix(sign_lost),
    "exchanged": lambda s: s.matrix(exchange),
    "half of a pair": lambda s: s.matrix(half_of_it),
    "other heads": lambda s: s.turn()[:, ::-1],
    "other sequences": lambda s: s.turn()[::-1],
    "neighbour's vector": lambda s: s.turn(x=np.roll(s.x, 1, axis=2)),
    "neighbour's result": lambda s: np.roll(s.turn(), 1, axis=2),
}
_FUNCTIONS: list[tuple[str, str, str]] = [
    # Fault, place, and the words that name the fault.
    ("copied", "later heads", "they are not rotated"),
    ("zeros", "last head", "come back as 0"),
    ("backwards", "odd heads", "rotated backwards"),
    ("base 500000", "later heads", "frequencies: base 500000, expected 10000"),
    ("base 100", "later heads", "frequencies: base 100, expected 10000"),
    ("interleaved", "later heads", r"pairs \(0, 1\), ..., interleaved, expected \(0, 16\)"),
    ("other heads", "later heads", "the vectors of another head"),
    ("plus the head", "later heads", "the index of the head is added"),
    ("twice", "later heads", "rotated twice"),
    ("too long", "later heads", "2 times as long"),
    ("float16 tables", "later heads", "cos and sin are rounded to float16"),
    ("float16 vectors", "later heads", "rounded to float16 before"),
    ("bfloat16 results", "later heads", "results are rounded to bfloat16"),
    ("exchanged", "last head", "cos and sin are exchanged"),
    ("half of a pair", "later heads", "only the first coordinate of each pair"),
    ("sign lost", "last head", "a sign is lost: .* becomes a cos \\+ b sin"),
    ("copied", "later sequences", "they are not rotated"),
    ("one late", "later sequences", r"by their position \+ 1"),
    ("other sequences", "later sequences", "the vectors of another (sequence|head or sequence)"),
    ("running on", "later sequences", "count on from one sequence to the next"),
    ("plus the sequence", "later sequences", "the index of the sequence is added"),
    ("by the first sequence", "own positions", "the positions of the first sequence"),
    ("by the next sequence", "own positions", "the positions of another sequence"),
    ("float16 vectors", "odd rows", "rounded to float16 before"),
    ("bfloat16 angles", "odd rows", "angles are rounded to bfloat16"),
    ("copied", "odd rows", "they are not rotated"),
    ("overwritten", "odd rows", "the first coordinate of each pair is overwritten"),
    ("overwritten from the end", "odd rows", "the second coordinate of each pair is overwritten"),
    ("overwritten", "long sequences", "the first coordinate of each pair is overwritten"),
    ("neighbour's vector", "long sequences", "the vectors of the row before"),
    ("neighbour's result", "long sequences", "the vectors of the row before"),
    ("copied", "last row", "they are not rotated"),
    ("one early", "last row", "by their position - 1"),
    ("by index", "an offset", "the positions are ignored"),
    ("from the first on", "every row", "only the first position counts"),
    ("at 0", "a token alone", "they are not rotated"),
    ("one late", "a token alone", r"by their position \+ 1"),
    ("backwards", "a token alone", "rotated backwards"),
    ("by bfloat16 positions", "a token alone", "positions are rounded to bfloat16"),
    ("by a stride", "long sequences", r"pairs \(0, (8|16)\), ..., .*expected \(0, (8|16)\)"),
    ("at half the position", "long sequences", "positions are multiplied by (0.5|2)|twice"),
]
_KEYS: list[tuple[str, str]] = [
    ("copied", "they are not rotated"),
    ("backwards", "rotated backwards"),
    ("twice", "rotated twice"),
    ("one late", r"by their position \+ 1"),
    ("by index", "the positions are ignored"),
    ("interleaved", r"pairs \(0, 1\), ..., interleaved"),
    ("base 500000", "frequencies: base 500000, expected 10000"),
    ("float16 tables", "cos and sin are rounded to float16"),
    ("overwritten", "the first coordinate of each pair is overwritten"),
    ("other heads", "the vectors of another head"),
]
NAMED = [
    *(
        Named(name=f"{fault}, {place}", target=function(FAULTS[fault], PLACES[place]), says=says)
        for fault, place, says in _FUNCTIONS
    ),
    *(Named(name=f"{fault}, keys", target=both(FAULTS[fault]), says=says) for fault, says in _KEYS),
]


def assert_cause_named(case: Named) -> None:
    verdict = check_here(case.target, select="every shape", dtypes="float32", **OPTIONS)
    assert verdict.passed is False
    assert re.search(case.says, verdict.diagnosis or ""), verdict.diagnosis
