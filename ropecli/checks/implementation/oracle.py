"""The rows that an implementation must return, in float64, and their tolerance.

A pair of length |pair|, rotated by the angle m theta and stretched by A, may be off by

    (rounding + phase) * A |pair|  +  floor

* rounding: cos and sin rounded to the dtype, two products and a sum, and a product by A: six
  roundings of a coordinate at most, 8 u with the two coordinates' share. Under float64 data the
  unit is float32's: tables in float32 are right, as Transformers makes them.
* phase: what tables in float32 may be off by, as `ropecli.checks.accuracy` derives it.
* floor: a few of the smallest subnormals.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.accuracy import ACCURACY, angle_roundings, phase_tolerance, table_roundings
from ropecli.checks.truth import Truth, rotated
from ropecli.reference import float64
from ropecli.rotary.rotary import Rotary
from ropecli.units import SINGLE, UNIT

if TYPE_CHECKING:
    from ropecli.checks.identify import Identification  # which a worker has no use for

ROUNDINGS = 8
OTHER = 2e-5  #: Relative change of a frequency, ten times what float32 rounds of a table.
#: Largest RMS phase error for which unwrapping is unambiguous, radians. A drift that ends at an
#: error of e is e / sqrt(3) off on average: at half a radian it ends at 0.9, far from half a turn,
#: beyond which it would wrap.
WRAPPED = 0.5
#: Share of the error that a line through it may leave. Errors that no line explains leave all of
#: it, a drift on half of the rows alone half; a drift leaves what rounding does.
LEFT = 1 / 8
CLEARLY = 8  #: Standard deviations that another base must be away.
FEWEST_OF_BASE = 2  #: Pairs that show a base, that of frequency 1 apart.
TABLE = 2**18  #: Numbers of a table of cosines, from position 0 on, which many calls ask for again.
AT_ONCE = 64  #: Rows by which it grows at least: steps of decoding ask for one after another.
MOST_LENGTHS = 8  #: Lengths of the sequence of which such tables are kept.


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """Tolerances of the data of each dtype: those derived, or larger ones that a caller set."""

    relative: Mapping[str, float] = field(default_factory=dict)  #: Of A|pair|, by dtype.
    absolute: Mapping[str, float] = field(default_factory=dict)  #: Of a coordinate, by dtype.
    result_dtype: str | None = None  #: Dtype of results; that of the data if None.
    tables_dtype: str | None = None  #: Dtype of tables given; that of results if None.

    def of_pair(self, dtype: str) -> float:
        """Return the tolerance of a coordinate over A|pair|, its angle's error apart."""
        # cos and sin rounded to a coarser dtype are off by what is counted for data of that dtype.
        rounded = {self.result_dtype or dtype, self.tables_dtype or self.result_dtype or dtype}
        derived = max(rounding_tolerance(dtype_name) for dtype_name in rounded)
        return max(derived, self.relative.get(dtype, 0.0))

    def of_number(self, dtype: str) -> float:
        """Return the least tolerance of a coordinate, whatever its pair is."""
        return max(ACCURACY[self.result_dtype or dtype].floor, self.absolute.get(dtype, 0.0))

    def of_normal(self, dtype: str) -> float:
        """Return the tolerance of a coordinate of normal vectors, whose pairs are about 1 long."""
        return max(self.of_pair(dtype), self.absolute.get(dtype, 0.0))

    def dtypes_as_coarse(self, dtype: str) -> list[str]:
        """Return the dtype of results, and half precisions that round no more than is allowed."""
        coarse = [
            name
            for name in ("float16", "bfloat16")
            if rounding_tolerance(name) <= self.of_normal(dtype)
        ]
        return list(dict.fromkeys([self.result_dtype or dtype, *coarse]))


DERIVED = Tolerances()


@dataclass(frozen=True, kw_only=True, eq=False)
class Oracle:
    """The rotation that rows of an implementation are compared with."""

    rotary_at: Callable[[int], Rotary]  #: The encoding for a length of the sequence.
    scale: float = 1.0  #: Factor of every position,
    offset: float = 0.0  #: and what is then added to it.
    uncertainty: Array | float = 0.0  #: Error of a measured inv_freq, radians per position.
    outside: float = 0.0  #: Rotation of unpaired coordinates too slow to see, radians per position.
    tolerances: Tolerances = DERIVED
    _fixed: dict[int, Oracle] = field(init=False, default_factory=dict)  #: By id of the encoding.
    _tables: dict[int, _Table] = field(init=False, default_factory=dict)

    def truth(self, x: Array, positions: Array, dtype: str, *, transposed: bool = False) -> Truth:
        """Return R_m x, row by row, with the tolerance of each coordinate."""
        rope = self.rotary_at(sequence_length(positions))
        cosine, sine, lost = self._cos_sin(rope, positions)
        pairs_in, pairs_out = rope.pairs_in, rope.pairs_out
        if transposed:
            sine, pairs_in, pairs_out = -sine, pairs_out, pairs_in
        expected = rotated(
            x,
            cosine,
            sine,
            pairs_in=pairs_in,
            pairs_out=pairs_out,
            factor=rope.attention_factor,
            relative=self.tolerances.of_pair(dtype),
            phase=lost,
            least=self.tolerances.of_number(dtype),
        )
        if self.outside:
            furthest = np.abs(positions if positions.ndim == 1 else positions.max(axis=1))
            unrotated = np.setdiff1d(np.arange(rope.head_dim), pairs_out)
            expected.tolerance[:, unrotated] += (self.outside * furthest * np.abs(x).max(axis=1))[
                :, None
            ]
        return expected

    def at_length(self, length: int) -> Oracle:
        """Return the oracle with the rotation of a sequence of this length, for every length."""
        rope = self.rotary_at(length)
        if id(rope) not in self._fixed:
            if len(self._fixed) >= MOST_LENGTHS:
                self._fixed.clear()
            self._fixed[id(rope)] = replace(self, rotary_at=lambda _length: rope)
        return self._fixed[id(rope)]

    def _cos_sin(self, rope: Rotary, positions: Array) -> tuple[Array, Array, Array]:
        """Return cos and sin of each angle, and what it may be off by, (count, pairs) each."""
        if positions.ndim > 1:
            return self._compute_cos_sin(rope, positions)
        table = self._tables.get(id(rope))
        if table is None:
            self._tables.clear()
            table = self._tables[id(rope)] = _Table(
                rope, functools.partial(self._compute_cos_sin, rope)
            )
        return table.rows(positions)

    def _compute_cos_sin(self, rope: Rotary, positions: Array) -> tuple[Array, Array, Array]:
        angles = self.angles(rope, positions)
        moved, inv_freq = self._move_positions(rope, positions)
        m = moved[:, None] if moved.ndim == 1 else moved
        lost = phase_tolerance(m, inv_freq, table_roundings(rope))
        return np.cos(angles), np.sin(angles), lost + self.uncertain_phase(rope, positions)

    def angles(self, rope: Rotary, positions: Array) -> Array:
        """Return the angle of each pair, (count, pairs), radians."""
        moved, inv_freq = self._move_positions(rope, positions)
        return float64.angles(moved, inv_freq, direction=rope.direction)

    def _move_positions(self, rope: Rotary, positions: Array) -> tuple[Array, Array]:
        """Return positions on the axes that rotate, and the frequencies for these."""
        moved = positions * self.scale + self.offset
        if moved.ndim == 1:
            return moved, rope.diagonal_inv_freq
        return moved[:, 0] if rope.axes == 1 else moved[:, : rope.axes], rope.inv_freq

    def scaled_positions(self, rope: Rotary, positions: Array) -> Array:
        """Return the position that each pair follows, (count, pairs), or (count, 1) of one axis.

        Where several axes rotate a pair, it is the sum of their distances from 0, (count, 1).
        """
        moved = positions * self.scale + self.offset
        if moved.ndim == 1:
            return moved[:, None]
        return np.abs(moved).sum(axis=1)[:, None] if rope.axis is None else moved[:, rope.axis]

    def uncertain_phase(self, rope: Rotary, positions: Array) -> Array:
        """Return how far the phases of measured frequencies may be off, radians."""
        return np.asarray(self.uncertainty * np.abs(self.scaled_positions(rope, positions)))


class _Table:
    """Numbers of each position and pair, kept for the first positions once they were asked for."""

    def __init__(
        self, rope: Rotary, compute: Callable[[Array], tuple[Array, Array, Array]]
    ) -> None:
        self.rope = rope  # keeps it alive: tables are found by its id
        self._compute = compute
        self._filled = 0
        pairs = rope.rotary_dim // 2
        self._most = TABLE // max(1, pairs)
        self._kept: list[Array] = [np.empty((self._most, pairs)) for _ in range(3)]

    def rows(self, positions: Array) -> tuple[Array, Array, Array]:
        """Return the numbers of positions (count,), (count, pairs) each."""
        index = positions.astype(np.int64)
        end = 1 + int(index.max(initial=-1))
        known = end <= self._most and int(index.min(initial=0)) >= 0
        # A table that is asked for a few far positions is not worth its rows.
        if not known or end > self._filled + 2 * len(index) or (index != positions).any():
            return self._compute(positions)
        if end > self._filled:
            end = min(self._most, max(end, self._filled + AT_ONCE))
            more = self._compute(np.arange(self._filled, end, dtype=np.float64))
            for kept, values in zip(self._kept, more, strict=True):
                kept[self._filled : end] = values
            self._filled = end
        cosine, sine, lost = (kept[index] for kept in self._kept)
        return cosine, sine, lost


def sequence_length(positions: Array) -> int:
    """Return the length of a sequence that ends at the largest of the positions."""
    return max(1, int(positions.max(initial=0)) + 1)


def truth_of(
    oracles: Sequence[Oracle],
    x: Array,
    positions: Array,
    dtype: str,
    *,
    transposed: bool = False,
) -> Truth:
    """Return the expected rows of sequences of one length, one after another."""
    count = len(oracles)
    if count == 1:
        return oracles[0].truth(x, positions, dtype, transposed=transposed)
    parts = zip(oracles, np.split(x, count), np.split(positions, count), strict=True)
    alone = [
        oracle.truth(rows, places, dtype, transposed=transposed) for oracle, rows, places in parts
    ]
    return Truth(
        rows=np.concatenate([truth.rows for truth in alone]),
        tolerance=np.concatenate([truth.tolerance for truth in alone]),
    )


def by_length(rope: Rotary) -> Callable[[int], Rotary]:
    """Return a function of the sequence length that gives the encoding for it.

    An encoding that was made for one length stays the same.
    """
    if rope.sequence_length is not None or not rope.depends_on_length:
        return lambda _length: rope
    return functools.lru_cache(maxsize=4096)(rope.at_length)


def rounding_tolerance(dtype: str) -> float:
    """Return the tolerance of a coordinate over A|pair|, its angle's error apart."""
    return ROUNDINGS * max(SINGLE, UNIT[dtype])


def refine_frequencies(
    oracle: Oracle,
    x: Array,
    y: Array,
    positions: Array,
    dtype: str = "float32",
    *,
    other: float = OTHER,
) -> Oracle:
    """Return the oracle with frequencies corrected whose error grows with the position.

    A formula is recognised where it is right within 2u over all rows, u the unit of the dtype. In
    half precision that is a drift by 2u / rows for each position, which would be a radian 1 / 2u
    lengths further on; the slope through the same rows is known some sqrt(rows) times as well. A
    single frequency, besides that of 1 that every formula has, fits some formula by chance, often
    within 1e-6: it is what the rows show.
    """
    rope = oracle.rotary_at(sequence_length(positions))
    if rope.axis is None:  # its frequencies were measured over all rows
        return oracle
    exact = oracle.truth(x, positions, "float64").rows
    first, second = rope.pairs_out.T
    rotated = y[:, first] + 1j * y[:, second]
    right = exact[:, first] + 1j * exact[:, second]
    weight = np.abs(right) ** 2
    off = np.angle(rotated * np.conj(right))
    sign = 1 if rope.direction == "forward" else -1
    m = sign * oracle.scaled_positions(rope, positions)
    change = (weight * m * off).sum(axis=0) / np.maximum((weight * m * m).sum(axis=0), 1e-300)
    theta = rope.diagonal_inv_freq
    typical = np.sqrt((weight * off**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    left = off - m * change
    residual = np.sqrt((weight * left**2).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-300))
    spread = residual / np.sqrt(np.maximum((m * m).sum(axis=0), 1e-300))
    if other and (rebased := _other_base(theta, change, spread)) is not None:
        table, uncertainty = rebased
        better = rope.with_inv_freq(table)
        uncertainty = np.maximum(oracle.uncertainty, uncertainty)
        return replace(oracle, rotary_at=lambda _length: better, uncertainty=uncertainty)
    not_one = theta != 1
    alone = not_one & (not_one.sum() == 1)
    least = np.where(alone, 0.0, np.maximum(other * theta, 4 * spread))
    # Only a drift is corrected: whatever else is wrong is for the checks to find.
    drifts = (np.abs(change) > least) & (typical < WRAPPED)
    rounded = np.where(alone | ("16" in dtype), rounding_tolerance(dtype), 0.0)
    drifts &= residual < np.maximum(LEFT * typical, rounded)
    if not drifts.any():
        return oracle
    table = np.where(drifts, np.maximum(theta + change, 0.0), theta)
    better = rope.with_inv_freq(table)
    uncertainty = np.maximum(oracle.uncertainty, np.where(drifts, 4 * spread, 0.0))
    return replace(oracle, rotary_at=lambda _length: better, uncertainty=uncertainty)


def _other_base(theta: Array, change: Array, spread: Array) -> tuple[Array, Array] | None:
    """Return the table of a base next to the one found, and its uncertainty, radians per position.

    A base is recognised by few digits where float32 rounds as much as these leave out: then all
    frequencies are off by the same share of their logarithm.
    """
    turning = (theta > 0) & (theta != 1)
    rounded = phase_tolerance(np.ones(1), theta, angle_roundings(theta))
    if turning.sum() < FEWEST_OF_BASE:
        return None
    logarithm = np.log(np.where(turning, theta, 1.0))
    if (change <= -theta)[turning].any():
        return None
    # ln(theta + change) - ln(theta) = share * ln(theta), by weighted least squares
    of_logarithms = np.log1p(np.divide(change, theta, out=np.zeros_like(theta), where=turning))
    weight = theta / np.maximum(spread, 1e-300)
    direction = weight * logarithm
    share = float((direction * weight * of_logarithms).sum() / (direction * direction).sum())
    expected = np.where(turning, theta ** (1 + share) - theta, 0.0)
    allowed = LEFT * np.abs(expected) + 4 * spread
    if not (np.abs(change - expected) <= allowed)[turning].all():
        return None
    deviation = 1 / float(np.sqrt((direction * direction).sum()))
    if abs(share) < CLEARLY * deviation or (np.abs(expected) <= rounded).all():
        return None
    return np.where(turning, theta ** (1 + share), theta), 4 * deviation * np.abs(theta * logarithm)


def oracle_of(found: Identification, tolerances: Tolerances = DERIVED) -> Oracle:
    """Return the rotation that was identified, and the uncertainty of its frequencies."""
    rope = found.rotary
    assert rope is not None
    return Oracle(
        rotary_at=lambda _length: rope,
        scale=found.position_step or 1.0,
        offset=found.position_offset or 0.0,
        uncertainty=frequency_uncertainty(found),
        outside=_half_bound(found),
        tolerances=tolerances,
    )


def frequency_uncertainty(found: Identification) -> Array | float:
    """Return the error of the frequencies, radians per position; 0 where a formula gives all."""
    if "16" in found.dtype:
        uncertainty = 0.0 if found.uncertainty is None else found.uncertainty
        return np.maximum(uncertainty, _half_bound(found))
    known = found.rotary is not None and found.rotary.formula is not None
    return 0.0 if known or found.uncertainty is None else found.uncertainty


def _half_bound(found: Identification) -> float:
    """Return the radians per position that half precision hides: one rounding over all rows."""
    return 2 * UNIT[found.dtype] / found.rows if "16" in found.dtype else 0.0


def computed_in_half(found: Identification) -> bool:
    """Return True if positions, frequencies, angles or tables were rounded to half precision.

    Under data in half precision that is not a fault, nor does it show: a frequency that was
    measured to 1e-7 often lies within float16's rounding of some simple formula.
    """
    rounded = any(name in (found.precision or "") for name in ("float16", "float8"))
    return rounded and "16" not in found.dtype
