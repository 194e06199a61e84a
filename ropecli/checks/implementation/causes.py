"""The rotation that wrong rows follow instead of their own, by trying what they may be."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import DTYPES, Array
from ropecli.checks.identify.differences import describe_pair
from ropecli.checks.identify.mistakes import ALIKE, find_mistake
from ropecli.checks.implementation.oracle import Oracle
from ropecli.checks.truth import Truth
from ropecli.reference import float64
from ropecli.rotary.rotary import Rotary
from ropecli.units import SIGNIFICAND_BITS, TINY

LIMITS = tuple(2**n for n in range(4, 21))  #: Lengths that caches are cut at.
#: Share of numbers that must fit where code may compute what is rounded in float32, as we do not.
NEARLY = 0.9
BETTER = 0.5  #: Largest error that is left of the one that is explained.
NEAR = 3  #: Largest position at which no pair of a frequency up to 1 rotates by half a turn.
UNSURE = 0.1  #: Radians up to which measured frequencies predict a phase.
DIGITS = 4  #: Significant digits of a factor that was meant.
#: Relative difference of the lengths of pairs that rounding leaves; other vectors differ by 1.
ROUNDING = 2.0**-5
MOST_NAMED = 3  #: Causes that are named where several fit.
MOST_SEQUENCES = 16  #: Sequences of a call whose positions are tried.


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Rows of one call, and what the call was given."""

    oracle: Oracle  #: The rotation expected, of a sequence of this length.
    dtype: str  #: Dtype of the data.
    x: Array  #: (count, head_dim).
    m: Array  #: Positions, (count,) or (count, axes).
    got: Array  #: (count, head_dim).
    sequence: NDArray[np.int64]  #: Index of each row's sequence,
    head: NDArray[np.int64]  #: of its head,
    row: NDArray[np.int64]  #: and of the row in its sequence.
    positions: (
        Array  #: Of the whole call, (sequences or 1, length), with one axis more for several.
    )
    vectors: Array  #: Vectors of the whole call, (vectors, head_dim), a whole number of sequences,
    own: NDArray[np.int64]  #: and which of them is each row's.
    scales: Array  #: Factor of these in each head, (sequences, heads); x and got are without it.
    limits: tuple[int, ...] = ()  #: Lengths that tables may have.

    def wrong(self) -> Sample | None:
        """Return the sample of the wrong rows; None if all are right."""
        wrong = np.asarray(self.right.wrong(self.got).any(axis=1))
        return self.only(wrong) if wrong.any() else None

    def only(self, chosen: NDArray[np.bool_]) -> Sample:
        """Return the sample of some of the rows."""
        names = ("x", "m", "got", "sequence", "head", "row", "own")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    @functools.cached_property
    def right(self) -> Truth:
        """The rows expected."""
        return self.oracle.truth(self.x, self.m, self.dtype)

    @functools.cached_property
    def rope(self) -> Rotary:
        """The encoding of the rows expected."""
        return self.oracle.rotary_at(1)

    @functools.cached_property
    def angles(self) -> Array:
        """Radians by which each pair should be rotated, (count, pairs)."""
        return self.oracle.angles(self.rope, self.m)

    @property
    def multipliers(self) -> NDArray[np.complex128]:
        """The complex number that each pair should be multiplied by, (count, pairs)."""
        return np.asarray(self.rope.attention_factor * np.exp(1j * self.angles))

    def at(self, positions: Array) -> Truth:
        """Return the same vectors at other positions."""
        return self.oracle.truth(self.x, positions, self.dtype)

    def near(self, rows: Array) -> Truth:
        """Return any rows with twice the tolerance of the least precise pair of those expected."""
        return Truth(rows=rows, tolerance=2 * self.right.tolerance.max(axis=1, keepdims=True))

    def stretch(self, times: float) -> Truth:
        """Return the rows expected, times a factor."""
        return Truth(rows=times * self.right.rows, tolerance=abs(times) * self.right.tolerance)

    def along(self, index: Any) -> Array:
        """Return an index of each row as a position, the same on each axis."""
        flat = np.broadcast_to(np.asarray(index, dtype=np.float64), len(self.m))
        return flat if self.m.ndim == 1 else np.repeat(flat[:, None], self.m.shape[1], axis=1)

    def plus(self, index: Any) -> Array:
        """Return positions to which an index of each row is added."""
        return np.asarray(self.m + self.along(index))

    @property
    def length(self) -> int:
        """Rows of each sequence of the call."""
        return int(self.positions.shape[1])

    def place(self, row: Any, sequence: Any = None) -> Array:
        """Return the position of another row of the call."""
        of, row = np.broadcast_arrays(
            self.sequence if sequence is None else sequence, row, self.own
        )[:2]
        return np.asarray(self.positions[of % len(self.positions), row % self.length])

    def mix(self, matrix: Matrix, pairs: NDArray[np.int64] | None = None) -> Truth:
        """Return rows whose pairs (a, b) are multiplied by a matrix."""
        read, written = (
            float64.columns(array if pairs is None else pairs)
            for array in (self.rope.pairs_in, self.rope.pairs_out)
        )
        a, b = self.x[:, read[0]], self.x[:, read[1]]
        rows = self.x.copy()
        rows[:, written[0]] = matrix[0] * a + matrix[1] * b
        rows[:, written[1]] = matrix[2] * a + matrix[3] * b
        return self.near(rows)

    def by_table(self, table: Array, unsure: Array | float = 0.0) -> Truth:
        """Return rows by other frequencies, which may be off by so much."""
        rope = self.rope.with_inv_freq(table)
        oracle = replace(self.oracle, rotary_at=lambda _: rope, uncertainty=unsure)
        return oracle.truth(self.x, self.m, self.dtype)

    def nearest(self, tried: Sequence[Truth]) -> Truth:
        """Return that of several rows that each row is nearest to."""
        rows, tolerance = (
            np.stack([np.broadcast_to(part, self.x.shape) for part in parts])
            for parts in zip(*((truth.rows, truth.tolerance) for truth in tried), strict=True)
        )
        best = np.abs(self.got - rows).max(axis=2).argmin(axis=0), np.arange(len(self.x))
        return Truth(rows=rows[best], tolerance=tolerance[best])


#: Of a pair (a, b): the factors of a and b in the first coordinate, and in the second one.
Matrix = tuple[Any, Any, Any, Any]


def _matrix(z: Any) -> Matrix:
    """Return the matrix that multiplies a pair by a complex number."""
    return z.real, -z.imag, z.imag, z.real


@dataclass(frozen=True, eq=False)
class Cause:
    """Rows that wrong ones may be instead."""

    words: str  #: A clause about "{rows}".
    expected: Callable[..., Truth | None]  #: The rows of a sample; None if it says nothing of them.
    _: KW_ONLY
    nearly: bool = False  #: Whether a few numbers may be otherwise.
    table_rows: int | None = None  #: Rows of a table in which positions are indices, if it is that.

    def explains(self, sample: Sample, columns: NDArray[np.bool_] | slice = slice(None)) -> bool:
        """Return True if rows are as expected, in these columns."""
        with np.errstate(all="ignore"):
            truth = self.expected(sample)
        if truth is None:
            return False
        off = np.abs(sample.got - truth.rows)[:, columns]
        if not off.sum() <= BETTER * np.abs(sample.got - sample.right.rows)[:, columns].sum():
            return False
        fits = ~truth.wrong(sample.got)[:, columns]
        return bool(fits.mean() >= NEARLY if self.nearly else fits.all())

    def explains_all(
        self, samples: Sequence[Sample], columns: NDArray[np.bool_] | slice = slice(None)
    ) -> bool:
        """Return True if the rows of all samples are as expected, in these columns."""
        return all(self.explains(sample, columns) for sample in samples)


def name_cause(samples: Sequence[Sample], rows: str = "they") -> str | None:
    """Return a clause that says what wrong rows are instead; None if no cause explains all."""
    lost = [np.asarray(~np.isfinite(sample.got).all(axis=1)) for sample in samples]
    if any(mask.any() for mask in lost):
        if all(mask.all() for mask in lost):
            return f"{rows} are not finite"
        finite = [
            sample.only(~mask) for sample, mask in zip(samples, lost, strict=True) if not mask.all()
        ]
        words = name_cause(finite, rows)
        return None if words is None else f"{words}, and some are not finite"
    off = np.any(
        [seen_sample.right.wrong(seen_sample.got).any(axis=0) for seen_sample in samples], axis=0
    )
    numbers = np.flatnonzero(off)
    for columns in (slice(None), off)[: 1 if off.all() or not off.any() else 2]:
        cause = _first_that_fits(_causes(samples), samples, columns)
        if cause is not None:
            where = f"only in coordinates {numbers[0]} to {numbers[-1]}, "
            return ("" if columns is not off else where) + cause.words.format(rows=rows)
    return None


def find_position_mistake(samples: Sequence[Sample]) -> Cause | None:
    """Return the mistake in positions that explains all rows of some calls, or None."""
    return _first_that_fits(_position_causes(samples), samples) if samples else None


def _first_that_fits(
    causes: Iterable[Cause],
    samples: Sequence[Sample],
    columns: NDArray[np.bool_] | slice = slice(None),
) -> Cause | None:
    """Return the first cause that explains all rows; what positions are taken for, with others."""
    fitting = (cause for cause in causes if cause.explains_all(samples, columns))
    first = next(fitting, None)
    if first is None or first.words not in POSITIONS.keys() - FACTS:
        return first
    others = [cause.words for cause in fitting if cause.words in POSITIONS.keys() - FACTS]
    named = ", or ".join(dict.fromkeys([first.words, *others][:MOST_NAMED]))
    return replace(first, words=f"either {named}" if others else named)


def _causes(samples: Sequence[Sample]) -> Iterator[Cause]:
    """Yield what rows may be, the simplest first."""
    yield Cause("{rows} come back as 0", lambda s: s.near(0 * s.x))
    yield Cause("{rows} are not rotated", lambda s: s.near(s.x))
    yield from _position_causes(samples)
    yield from _pair_causes(samples[0])
    for words, by in MIXED.items():
        yield Cause(words, lambda s, of=by: s.mix(of(s.multipliers.real, s.multipliers.imag)))
    for dtype, words in itertools.product(("bfloat16", "float16"), ROUNDED):
        rounded = functools.partial(_if_rounded, words, dtype)
        yield Cause(words.replace("{dtype}", dtype), rounded, nearly=True)
    for times in _common_factors(samples):
        words = f"{{rows}} are {times:.6g} times as long as they should be"
        yield Cause(words, lambda s, by=times: s.stretch(by))
    measured = _measure_frequencies(samples)
    if measured is not None:
        (theta, unsure), expected = measured, samples[0].rope
        apart = np.abs(theta - expected.diagonal_inv_freq) / unsure
        words = find_mistake(expected, np.abs(theta), unsure, ALIKE) or describe_pair(
            int(apart.argmax()), theta, expected.diagonal_inv_freq
        )
        yield Cause(
            f"{{rows}} have other frequencies: {words}",
            lambda s: s.by_table(np.abs(theta), unsure),
        )
    yield Cause(_describe_sources(samples), _from_sources)


#: What rows may be rotated by in place of their positions.
POSITIONS: dict[str, Callable[..., Array]] = {
    "{rows} are not rotated": lambda s: s.along(0),
    "{rows} are rotated by the positions of the first sequence": lambda s: s.place(s.row, 0),
    "only the first position counts: {rows} are rotated from there by index": lambda s: (
        s.place(0) + s.along(s.row)
    ),
    "the positions are ignored: {rows} are rotated by their index": lambda s: s.along(s.row),
    "positions are counted from the first row's": lambda s: s.m - s.place(0),
    "{rows} are rotated by the first position of the call": lambda s: s.place(0),
    "only the first of the positions is used, as in positions[:1]": lambda s: (
        s.place(0) if len(s.positions) == 1 else s.place(s.row, 0)
    ),
    "{rows} are rotated by the last position of the call": lambda s: s.place(-1),
    "{rows} are rotated by their position + 1": lambda s: s.m + 1,
    "{rows} are rotated by their position - 1": lambda s: s.m - 1,
    "{rows} are rotated by the position of the next row": lambda s: s.place(s.row + 1),
    "{rows} are rotated by the position of the row before": lambda s: s.place(s.row - 1),
    "the sign of the position is ignored": lambda s: np.abs(s.m),
    "{rows} are rotated backwards": lambda s: -s.m,
    "negative positions are taken as 0": lambda s: np.maximum(s.m, 0),
    "the rows are sorted by position": lambda s: np.sort(s.positions, axis=1)[
        s.sequence % len(s.positions), s.row
    ],
    "a cache has as many rows as x: positions beyond its end are taken as the last": lambda s: (
        np.minimum(s.m, s.length - 1)
    ),
    "the axes are the wrong way round": lambda s: s.m[:, ::-1] if s.m.ndim == 2 else s.m,
    "{rows} are rotated twice, or by twice the position": lambda s: s.m * 2.0,
    "the index of the head is added to the position": lambda s: s.plus(s.head),
    "the index of the sequence is added to the position": lambda s: s.plus(s.sequence),
    "positions count on from one sequence to the next": lambda s: s.plus(s.sequence * s.length),
    "positions count on from one head to the next": lambda s: s.plus(s.head * s.length),
    "{rows} are rotated by the index of their head": lambda s: s.along(s.head),
    "{rows} are rotated by the index of their sequence": lambda s: s.along(s.sequence),
    "the length of the call is added to the position": lambda s: s.plus(s.length),
    **{
        f"positions are rounded to {name}": lambda s, to=DTYPES[name]: s.m.astype(to).astype(float)
        for name in ("bfloat16", "float16", "float32")
    },
}
#: Those that are true whatever the reason, and are named alone.
FACTS = {
    "{rows} are rotated by the positions of the first sequence",
    "{rows} are not rotated",
    "{rows} are rotated by their position + 1",
    "{rows} are rotated by their position - 1",
    "{rows} are rotated backwards",
    "{rows} are rotated twice, or by twice the position",
}


def _position_causes(samples: Sequence[Sample]) -> Iterator[Cause]:
    """Yield what positions may be taken for."""
    for words, to in POSITIONS.items():
        yield Cause(words, functools.partial(_move, to))
    yield Cause("{rows} are rotated by the positions of another sequence", _at_others)
    least = min(float(sample.m.min(initial=0)) for sample in samples)
    largest = max(float(np.abs(sample.m).max(initial=0)) for sample in samples)
    for limit in sorted({*samples[0].limits, *LIMITS}):
        if limit <= largest or least < 0:
            words = f"positions from {limit} on are taken as {limit - 1}"
            yield Cause(words, lambda s, end=limit: s.at(np.minimum(s.m, end - 1)))
            words = f"calls that go beyond position {limit - 1} are moved back to end there"
            yield Cause(words, functools.partial(_move, functools.partial(_moved_back, limit)))
            words = f"positions are taken modulo {limit}"
            yield Cause(words, lambda s, end=limit: s.at(np.mod(s.m, end)), table_rows=limit)


def _moved_back(end: int, sample: Sample) -> Array:
    """Return the positions of a slice of a table whose first row is early enough for all."""
    return sample.plus(np.minimum(0, end - 1 - sample.place(-1).reshape(len(sample.m), -1)[:, 0]))


def _move(to: Callable[..., Array], sample: Sample) -> Truth | None:
    positions = to(sample)
    return sample.at(positions) if np.isfinite(positions).all() else None


def _at_others(sample: Sample) -> Truth | None:
    """Return each row by the positions of that sequence of the call by which it fits best."""
    count = len(sample.positions)
    if not 1 < count <= MOST_SEQUENCES:
        return None
    return sample.nearest([sample.at(sample.place(sample.row, other)) for other in range(count)])


def _pair_causes(sample: Sample) -> Iterator[Cause]:
    """Yield other pairs of the coordinates that are rotated."""
    rope = sample.rope
    begin, width = int(rope.pairs_in.min()), rope.rotary_dim
    names = {1: "interleaved", width // 2: "half"}
    for apart in (n for n in range(1, width // 2 + 1) if width % (2 * n) == 0):
        first = begin + np.flatnonzero(np.arange(width) // apart % 2 == 0)
        pairs = np.stack([first, first + apart], axis=1)
        if pairs.max() < sample.x.shape[1] and not np.array_equal(pairs, rope.pairs_in):
            layout = f", {names[apart]}" if apart in names else ""
            words = f"{{rows}} are rotated in pairs ({begin}, {begin + apart}), ...{layout}, "
            words += f"expected {rope.input_pairs[0]}, ..."
            yield Cause(words, lambda s, of=pairs: s.mix(_matrix(s.multipliers), of))


#: What may become of a pair, by cos and sin, the attention factor in both.
MIXED: dict[str, Callable[[Any, Any], Matrix]] = {
    "the first coordinate of each pair is overwritten before the second one is computed": (
        lambda c, s: (c, -s, c * s, c - s * s)
    ),
    "the second coordinate of each pair is overwritten before the first one is computed": (
        lambda c, s: (c - s * s, -c * s, s, c)
    ),
    "only the first coordinate of each pair is rotated": lambda c, s: (c, -s, 0, 1),
    "only the second coordinate of each pair is rotated": lambda c, s: (1, 0, s, c),
    "cos and sin are exchanged": lambda c, s: (s, -c, c, s),
    "a sign is lost: the first of a pair becomes a cos + b sin": lambda c, s: (c, s, s, c),
    "a sign is lost: the second of a pair becomes b cos - a sin": lambda c, s: (c, -s, -s, c),
    "{rows} are multiplied only by the cosines": lambda c, s: (c, 0, 0, c),
    "the attention factor is left out": lambda c, s: _matrix((c + 1j * s) / np.hypot(c, s)),
    "the attention factor is applied twice": lambda c, s: _matrix((c + 1j * s) * np.hypot(c, s)),
}

#: What may be rounded to half precision.
ROUNDED: dict[str, Callable[[Sample, Callable[[Any], Any]], Truth]] = {
    "results are rounded to {dtype}": lambda s, to: s.near(to(s.right.rows)),
    "{rows} are rounded to {dtype} before they are rotated": lambda s, to: s.oracle.truth(
        to(s.x), s.m, s.dtype
    ),
    "cos and sin are rounded to {dtype}": lambda s, to: s.mix(
        _matrix(to(s.multipliers.real) + 1j * to(s.multipliers.imag))
    ),
    "angles are rounded to {dtype}": lambda s, to: s.mix(
        _matrix(s.rope.attention_factor * np.exp(1j * to(s.angles)))
    ),
    "frequencies are rounded to {dtype}": lambda s, to: s.by_table(to(s.rope.inv_freq)),
}
#: Those that vectors of that dtype show all the same, since they grow with the position.
NOT_HIDDEN = ("angles", "frequencies")


def _if_rounded(words: str, dtype: str, sample: Sample) -> Truth | None:
    """Return rows with something rounded to a dtype; None if data of as few digits hide it."""
    spare = SIGNIFICAND_BITS[sample.dtype] - SIGNIFICAND_BITS[dtype]
    if spare < 0 or (spare == 0 and not words.startswith(NOT_HIDDEN)):
        return None
    return ROUNDED[words](sample, lambda y: np.asarray(y).astype(DTYPES[dtype]).astype(np.float64))


def _common_factors(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Return what rows are multiplied by on average, rounded as it may be meant, and as it is."""
    products = squares = 0.0
    for sample in samples:
        weight = sample.oracle.tolerances.of_pair(sample.dtype) ** -2
        products += weight * float((sample.got * sample.right.rows).sum())
        squares += weight * float((sample.right.rows**2).sum())
    times = products / squares if squares else 0.0
    return float(f"{times:.{DIGITS}g}"), times


def _measure_frequencies(samples: Sequence[Sample]) -> tuple[Array, Array] | None:
    """Return the frequencies that rows show, radians per position, and how far they may be off.

    A row near position 0 shows each without whole turns; further ones then add digits.
    """
    rows: list[tuple[float, Array, float]] = []
    pairs = samples[0].rope.rotary_dim // 2
    for sample in samples:
        rope = sample.rope
        if sample.m.ndim > 1 or rope.rotary_dim != 2 * pairs:
            return None
        (a, b), (c, d) = rope.pairs_in.T, rope.pairs_out.T
        product = (sample.got[:, c] + 1j * sample.got[:, d]) * (
            sample.x[:, a] - 1j * sample.x[:, b]
        )
        moved = sample.oracle.scaled_positions(rope, sample.m)[:, 0]
        signed = moved if rope.direction == "forward" else -moved
        unit = sample.oracle.tolerances.of_pair(sample.dtype)
        rows += zip(signed.tolist(), product, [unit] * len(product), strict=True)
    rows = sorted((row for row in rows if row[0] != 0), key=lambda row: (row[2], abs(row[0])))
    if not rows or abs(rows[0][0]) > NEAR:
        return None
    theta, weight = np.zeros(pairs), np.zeros(pairs)
    for m, product, unit in rows:
        size = np.abs(product)
        near = (weight == 0) if abs(m) <= NEAR else np.zeros(pairs, dtype=bool)
        known = near | (abs(m) < UNSURE * np.sqrt(weight))
        more = np.where(known & (size > 0), (m / unit) ** 2 * size / size.mean(), 0.0)
        weight += more
        off = np.angle(product * np.exp(-1j * theta * m)) / m
        theta += np.where(more > 0, off * more / np.maximum(weight, TINY), 0.0)
    return theta, 1 / np.sqrt(weight)


def _from_sources(sample: Sample) -> Truth | None:
    """Return what other vectors of the call make of rows, at their positions or at those of these.

    Lengths of pairs, which a rotation keeps, show which vectors those are.
    """
    sources = _find_sources(sample)
    if sources is None:
        return None
    index, times = sources
    source = replace(sample, x=sample.vectors[index] * times[:, None])
    sequences = range(min(len(sample.positions), MOST_SEQUENCES))
    tried = [source.right, *(source.at(sample.place(index, sequence)) for sequence in sequences)]
    tried += [Truth(rows=-truth.rows, tolerance=truth.tolerance) for truth in tried]
    return sample.nearest(tried)


def _find_sources(sample: Sample) -> tuple[NDArray[np.int64], Array] | None:
    """Return which vectors rows are made of, and how many times; None if of none, or their own."""
    (a, b), (c, d) = sample.rope.pairs_in.T, sample.rope.pairs_out.T
    known = np.hypot(sample.vectors[:, a], sample.vectors[:, b])
    shown = np.hypot(sample.got[:, c], sample.got[:, d]) / sample.rope.attention_factor
    length, of_known = (np.maximum(np.linalg.norm(y, axis=1), TINY) for y in (shown, known))
    same = (shown / length[:, None]) @ (known / of_known[:, None]).T
    rows = np.arange(len(shown))
    index = same.argmax(axis=1)
    index = np.where(same[rows, sample.own] >= same[rows, index] - ROUNDING**2, sample.own, index)
    if (same[rows, index] < 1 - ROUNDING**2 / 2).any():
        return None
    times = 2.0 ** np.round(np.log2(length / of_known[index]))
    return index, times


def _describe_sources(samples: Sequence[Sample]) -> str:
    """Say whose vectors rows are made of."""
    shifts: set[int] = set()
    of_heads = of_sequences = True
    for sample in samples:
        sources = _find_sources(sample)
        if sources is None:
            return ""
        index, times = sources
        length = sample.length
        # A roll takes the vector of the last row for the first.
        half = length // 2
        shifts |= set(((index - sample.row + half) % length - half).tolist())
        size, of = np.abs(sample.scales), (sample.sequence, sample.head)
        read = (size[of] * times)[:, None]
        together = len(sample.vectors) > length  # heads and sequences look alike
        of_heads &= not together and bool((size[of[0]] == read).any(axis=1).all())
        of_sequences &= not together and bool((size.T[of[1]] == read).any(axis=1).all())
    names = {1: "the next row", -1: "the row before"}
    source = names.get(next(iter(shifts)), "other rows") if len(shifts) == 1 else "other rows"
    if shifts == {0}:
        source = "another head or sequence"
        if of_heads or of_sequences:
            source = "another head" if of_heads else "another sequence"
    return f"{{rows}} are made of the vectors of {source}"
