"""A rotation in one dtype, with the vectors and positions that its laws are judged on."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from mpmath import mp
from numpy.typing import NDArray

from ropecli.analyses.decay import Decay
from ropecli.arrays import DTYPES, Array, on_all_axes
from ropecli.checks.accuracy import ACCURACY, ANGLE
from ropecli.errors import ArgumentTypeError
from ropecli.kernels.rotation import BLOCK
from ropecli.reference import rotation as reference
from ropecli.reference.double_double import (
    DIGITS,
    ERROR,
    LARGEST_ANGLE,
    DoubleDouble,
    cos_sin,
    double_double,
)
from ropecli.rotary.rotary import Rotary
from ropecli.units import DOUBLE

#: Called with x (count, head_dim) and positions (count,), or (count, axes) of several axes.
Rotate = Callable[[NDArray[Any], NDArray[np.float64]], Any]
#: Called as `analyses.decay.decay`.
Decays = Callable[..., Decay]

#: Positions where implementations go wrong: the first few, the edges of a block and of what
#: float16, bfloat16 and 7-bit counters hold, negative and fractional ones.
EDGES = (0, 1, 2, 3, 63, 64, BLOCK - 1, BLOCK, BLOCK + 1, 255, 257, 2047, 2049, 4095, 4097)
FRACTIONS = (0.5, 127.5, 128.25, -0.25, -63.75)
COUNT = 48  #: Samples of a law.
SAMPLED = 6  #: Every sixth position is computed a second time, by mpmath.
EVERY = 4096  #: Every whole position below it is tried, all in one call.
RUN = 64  #: Positions whose angles are added to those of a start, in the reference.
CACHED = 2**13  #: Numbers that the reference computes at a time.


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """Vectors and positions that a law is judged on; one row each."""

    q: Array  #: (count, head_dim), values that the dtype holds exactly.
    k: Array  #: (count, head_dim), values that the dtype holds exactly.
    m: Array  #: Positions of q, (count,).
    n: Array  #: Positions of k, (count,).
    shift: Array  #: Positions by which both are shifted, (count,).

    def rows(self, index: NDArray[Any] | slice) -> Sample:
        """Return some of the rows."""
        return Sample(**{name: rows[index] for name, rows in vars(self).items()})


class ExactTables:
    """cos and sin of the reference for one encoding, computed once per set of positions."""

    def __init__(self, rope: Rotary) -> None:
        sign = 1 if rope.direction == "forward" else -1
        self.inv_freq = sign * rope.diagonal_inv_freq
        self._by_axis = sign * np.array(rope.frequencies)
        self._mixed = rope.axis is None
        # Radians per step of all axes, (pairs,). Where several rotate a pair, each product and each
        # sum is rounded: as often as there are axes, by 2^-53 of this at most.
        self.fastest = np.abs(self._by_axis).sum(axis=0) * (rope.axes if self._mixed else 1)
        if rope.layout == "custom":
            self.pairs = rope.pairs_in
        else:
            self.pairs = reference.pairs_of(rope.layout, rope.rotary_dim, rope.rotary_offset)
        self._tables: dict[bytes, tuple[DoubleDouble, DoubleDouble]] = {}
        self._runs: list[tuple[DoubleDouble, DoubleDouble]] = []

    def runs(self, count: int) -> list[tuple[DoubleDouble, DoubleDouble]]:
        """Return cos and sin of the positions 0 ... count - 1, some at a time, right to 28 digits.

        The angles of a start and of an offset are added: their errors and those of two products.
        """
        if not self._runs:
            pairs = len(self.inv_freq)
            offsets = self.table(np.arange(float(RUN)))
            starts = self.table(np.arange(0.0, count, RUN))
            several = max(1, CACHED // (RUN * pairs))
            for i in range(0, len(starts[0].high), several):
                a, b = (part[i : i + several, None] for part in starts)
                rows = slice(count - i * RUN)
                cosine = (a * offsets[0] - b * offsets[1]).reshape(-1, pairs)
                sine = (b * offsets[0] + a * offsets[1]).reshape(-1, pairs)
                self._runs.append((cosine[rows], sine[rows]))
        return self._runs

    def table(self, positions: Array) -> tuple[DoubleDouble, DoubleDouble]:
        """Return cos and sin, each (count, pairs), right to about 29 digits."""
        key = positions.tobytes()
        if key not in self._tables:
            points = np.repeat(positions[:, None], len(self._by_axis), axis=1)
            self._tables[key] = (
                self.table_of_points(points)
                if self._mixed  # each axis adds its own angle, which float64 rounds by itself
                else self._compute(positions, self.inv_freq)
            )
        return self._tables[key]

    def table_of_points(self, points: Array) -> tuple[DoubleDouble, DoubleDouble]:
        """Return cos and sin of positions (count, axes): the angles of all axes are added."""
        tables = [self._compute(*pair) for pair in zip(points.T, self._by_axis, strict=True)]
        cosine, sine = tables[0]
        for c, s in tables[1:]:
            cosine, sine = cosine * c - sine * s, sine * c + cosine * s
        return cosine, sine

    def _compute(self, positions: Array, inv_freq: Array) -> tuple[DoubleDouble, DoubleDouble]:
        angles = np.abs(np.outer(positions, inv_freq))
        if angles.max() > LARGEST_ANGLE:
            cosine, sine = reference.cos_sin(positions, inv_freq)
            return double_double(cosine), double_double(sine)
        table = cos_sin(positions, inv_freq)
        for row in range(0, len(positions), SAMPLED):
            pair = row % len(inv_freq)
            exact = reference.cos_sin(positions[[row]], inv_freq[[pair]])
            for value, right in zip(table, exact, strict=True):
                with mp.workdps(DIGITS):
                    remainder = right[0, 0] - value.high[row, pair] - value.low[row, pair]
                if not abs(remainder) < ERROR:
                    angle = f"{positions[row]:g} * {inv_freq[pair]:.17g}"
                    raise ArithmeticError(
                        f"the reference is off by {float(remainder):.3g} at the angle {angle}"
                    )
        return table


class RotationSubject:
    """A rotation under test in one dtype, and the encoding that it should be."""

    def __init__(
        self,
        rope: Rotary,
        dtype: str,
        sample: Sample,
        *,
        rotate: Rotate,
        decay: Decays,
        exact: ExactTables,
    ) -> None:
        self.rope = rope
        self.dtype = dtype
        self.sample = sample
        self.decay = decay
        self.exact = exact
        self.accuracy = ACCURACY[dtype]
        #: Positions from 0 that are all tried.
        self.every = min(EVERY, int(np.abs(sample.m).max()) + 1)
        self._rotate = rotate
        self.fastest = float(exact.fastest.max())
        self.rotated = np.unique(exact.pairs)
        self.passed_through = np.setdiff1d(np.arange(rope.head_dim), self.rotated)

    def rotate(self, x: Array, positions: Array) -> Array:
        """Return R_m x of the rotation under test, as float64; x is rounded to the dtype.

        Positions are (count,), the same on every axis, or (count, axes). Rotated pairs that the
        encoding writes elsewhere are put back where they were read.
        """
        if positions.ndim == 1:
            positions = on_all_axes(positions, self.rope.axes)
        result = self._rotate(x.astype(DTYPES[self.dtype]), positions)
        if not isinstance(result, np.ndarray) or result.shape != x.shape:
            got = getattr(result, "shape", type(result).__name__)
            raise ArgumentTypeError(
                f"the function under test must return a NumPy array of shape {x.shape}, got {got}"
            )
        rotated = result.astype(np.float64)
        restored = rotated.copy()
        restored[:, self.rope.pairs_in] = rotated[:, self.rope.pairs_out]
        return restored

    @functools.cached_property
    def factor(self) -> float:
        """Factor that laws other than `attention factor` are judged without.

        It is A, or if all lengths are multiplied by another number, that number.
        """
        right, measured = self.rope.attention_factor, self.measured_factor
        if not math.isfinite(measured) or abs(measured - right) <= self.factor_tolerance:
            return right
        spread = float(np.abs(self._stretches - measured).max())
        alike = self.factor_tolerance * max(1.0, measured / right)
        return measured if spread <= 2 * alike and measured > 0 else right

    @property
    def measured_factor(self) -> float:
        """Median of |R_m q| / |q| over the sample."""
        return float(np.median(self._stretches))

    @functools.cached_property
    def _stretches(self) -> Array:
        q = self.sample.q
        return self.stretch(q, self.rotate(q, self.sample.m))

    @property
    def factor_tolerance(self) -> float:
        """Rounding of the measured factor: a rotation's, and that of d squares."""
        sizes = lengths(self.sample.q[:, self.rotated])
        relative = self.accuracy.relative + len(self.rotated) * DOUBLE
        return self.rope.attention_factor * relative + self.floor() / float(np.median(sizes))

    @property
    def uncertainty(self) -> float:
        """Relative error of the factor: none where it is A."""
        return 0.0 if self.factor == self.rope.attention_factor else 2 * self.accuracy.relative

    def stretch(self, x: Array, rotated: Array) -> Array:
        """Return |R_m x| / |x| over the rotated coordinates, (count,)."""
        return lengths(rotated[:, self.rotated]) / lengths(x[:, self.rotated])

    def relative_error(self, *positions: Array) -> Array:
        """Return the tolerance of vectors rotated at the positions in turn, over A^k |x|."""
        total = np.ones(len(positions[0]))
        for m in positions:
            total = total * (1 + self.accuracy.relative + ANGLE * np.abs(m) * self.fastest)
        return total - 1

    def floor(self) -> float:
        """Return the absolute tolerance of a whole vector."""
        return self.accuracy.floor * float(np.sqrt(self.rope.head_dim))


def lengths(x: Array) -> Array:
    """Return the Euclidean lengths of the rows."""
    return np.asarray(np.sqrt((x * x).sum(axis=1)))


def sample(head_dim: int, dtype: str, *, max_position: int, seed: int) -> Sample:
    """Return COUNT normal vectors at positions up to max_position; the first one is all ones.

    Fractional positions are multiples of 1/4, so that sums of positions are exact.
    """
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((2, COUNT, head_dim))
    # Lengths over a wide range within a vector, so that no error hides behind a longer pair.
    vectors *= 2.0 ** random.integers(-3, 4, vectors.shape)
    vectors[:, 0] = 1.0
    q, k = vectors.astype(DTYPES[dtype]).astype(np.float64)
    m = _positions(random, max_position)
    n = random.permutation(m)
    return Sample(q=q, k=k, m=m, n=n, shift=random.permutation(m))


def _positions(random: np.random.Generator, most: int) -> Array:
    fixed = [p for p in (*EDGES, -1, -BLOCK, -BLOCK - 1, *FRACTIONS) if abs(p) <= most]
    fixed += [most, -most, most - 1] if most else []
    fixed = fixed[: COUNT - 8]
    size = COUNT - len(fixed)
    sizes = np.exp(random.uniform(0, np.log(most + 1), size)) - 1
    sampled = np.floor(sizes) * random.choice([1, -1], size)
    return np.concatenate([np.array(fixed, dtype=np.float64), sampled])


def simple(subject: RotationSubject, hard: Sample, *, keys: bool) -> Sample:
    """Return unit vectors and ones at small positions, then at the positions of one hard case."""
    unit = np.eye(subject.rope.head_dim)
    first, last = subject.exact.pairs[0], subject.exact.pairs[-1]
    vectors = [unit[first[0]], unit[first[1]], unit[last[0]], unit[last[1]], np.ones(len(unit))]
    places: list[tuple[float, float, float]] = [
        (0, 0, 0),
        (1, 0, 1),
        (2, 1, 1),
        (1, 2, 3),
        (BLOCK, 1, BLOCK),
        (-1, 1, 1),
    ]
    places += [(0.5, 0, 1), *zip(hard.m, hard.n, hard.shift, strict=True)]
    rows = [
        (q, k, *place)
        for place in places
        for q in vectors
        for k in ((q, unit[first[1]], unit[last[0]]) if keys else (q,))
    ]
    q, k, m, n, shift = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return Sample(q=q, k=k, m=m, n=n, shift=shift)


def on_each_pair(subject: RotationSubject, sample: Sample) -> Sample:
    """Return both unit vectors of each pair, at several positions of the sample.

    The dtype holds them exactly, and two rows are the columns of the pair's 2 x 2 block.
    """
    pairs = subject.exact.pairs
    row = np.arange(2 * max(len(sample.m), 4 * len(pairs)))
    block = row // 2
    # Steps that are prime to the number of rows: a pair is not at the same positions as others.
    place = (5 * block + 13 * (block // len(pairs))) % len(sample.m)
    unit = np.zeros((len(row), subject.rope.head_dim))
    unit[row, pairs[block % len(pairs), row % 2]] = 1.0
    return replace(sample.rows(place), q=unit, k=unit)


def with_every_position(subject: RotationSubject, sample: Sample) -> Sample:
    """Return the rows of the subject's sample, and then one at each position below EVERY.

    Simple cases, from which the counterexample is taken, are judged in a short call.
    """
    if sample is not subject.sample:
        return sample
    m = np.arange(float(subject.every))
    more = vars(replace(sample.rows(np.arange(len(m)) % len(sample.m)), m=m))
    return Sample(
        **{name: np.concatenate([rows, more[name]]) for name, rows in vars(sample).items()}
    )
