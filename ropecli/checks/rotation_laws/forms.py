"""Laws of one rotation: the function under test against the paper's own forms of R_m.

Another layout, base or direction satisfies every law of `identities`; only a comparison with an
independent reference tells them apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ropecli.arrays import Array
from ropecli.checks.accuracy import ANGLE, angle_roundings, magnification
from ropecli.checks.rotation_laws.measure import Rows, compare, rotation_law, worst_column
from ropecli.checks.rotation_laws.subject import (
    RotationSubject,
    Sample,
    lengths,
    on_each_pair,
    with_every_position,
)
from ropecli.reference import frequencies
from ropecli.reference import rotation as reference
from ropecli.reference.double_double import DoubleDouble
from ropecli.units import DOUBLE

#: How far a pair may be off, over its length, and still be said to be the same rotation: far above
#: any dtype's rounding (bfloat16's is 2^-7.5) and far below another layout, direction or base.
COARSE = 2.0**-5
FORMS = "the rotation's error with its angle's, and five roundings of the float64 form"


def diagnose_convention(subject: RotationSubject) -> str | None:
    """Name the layout, direction or frequencies that unit vectors at position 1 show."""
    rope = subject.rope
    for layout in ("interleaved", "half"):
        pairs = reference.pairs_of(layout, rope.rotary_dim, rope.rotary_offset)
        angles = _angles(subject, pairs)
        if angles is None:
            continue
        for direction, sign in (("forward", 1), ("reversed", -1)):
            expected = rope.diagonal_inv_freq * sign
            if _apart(angles, expected).max() < COARSE:
                return _describe(layout, direction, subject)
        if layout == rope.layout:
            return _frequencies(subject, angles)
    return None


def _angles(subject: RotationSubject, pairs: NDArray[np.int64]) -> Array | None:
    """Return each pair's angle at position 1, or None if pairs do not stay on themselves."""
    dim = subject.rope.head_dim
    turned = subject.rotate(np.eye(dim), np.ones(dim))
    first, second = pairs.T
    inside = np.hypot(turned[first, first], turned[first, second])
    whole = np.sqrt((turned[first] ** 2).sum(axis=1))
    if not (inside > (1 - COARSE) * whole).all():
        return None
    return np.asarray(np.arctan2(turned[first, second], turned[first, first]))


def _apart(angles: Array, expected: Array) -> Array:
    """Return the distances between angles, modulo a turn."""
    return np.asarray(np.abs(np.angle(np.exp(1j * (angles - expected)))))


def _describe(layout: str, direction: str, subject: RotationSubject) -> str | None:
    rope = subject.rope
    lines = []
    if layout != rope.layout:
        lines.append(f"layout {layout}, expected {rope.layout}")
    if direction != rope.direction:
        lines.append(f"direction {direction}, expected {rope.direction}")
    return "; ".join(lines) or None


def _frequencies(subject: RotationSubject, angles: Array) -> str:
    expected = subject.exact.inv_freq
    pair = int(_apart(angles, expected).argmax())
    return (
        # One position shows an angle up to whole turns.
        f"frequencies: pair {pair} turns by {angles[pair]:.6g} radians per position, "
        f"expected {expected[pair]:.6g}, modulo a turn"
    )


@rotation_law(
    "kernel = reference",
    equation="15, 34",
    prepare=with_every_position,
    uses=("q", "m"),
    explain=diagnose_convention,
    because="the accuracy promised for the dtype, a coordinate at a time, in ulps of A|pair|, "
    "and 1.2e-16 of the angle",
)
def kernel_against_reference(subject: RotationSubject, sample: Sample) -> Rows:
    """R_m x element by element (Eq. 34) in 29-digit arithmetic, inv_freq as given.

    Coordinates in no pair are copied to the bit. A second call has a row at each position below
    4,096, or below the largest that is sampled.
    """
    factor, pairs = subject.factor, subject.exact.pairs
    calls = _calls(subject, sample.m)
    got = np.concatenate([subject.rotate(sample.q[rows], sample.m[rows]) for rows in calls])
    exact, error, allowed = sample.q.copy(), np.abs(got - sample.q), np.zeros_like(got)
    first = 0
    for table in _tables(subject, sample.m):
        rows = slice(first, first + len(table[0].high))
        first = rows.stop
        x, m = sample.q[rows], sample.m[rows]
        turned = reference.turn(x, *table, pairs, factor)
        for coordinates, values in zip(pairs.T, turned, strict=True):
            exact[rows, coordinates] = values.high
            part = got[rows, coordinates]
            apart = np.where(np.isfinite(part), (values - part).high, values.high - part)
            error[rows, coordinates] = np.abs(apart)
        pair_length = factor * np.hypot(x[:, pairs[:, 0]], x[:, pairs[:, 1]])
        angle = ANGLE * np.abs(np.outer(m, subject.exact.fastest)) + subject.uncertainty
        per_pair = subject.accuracy.per_coordinate(pair_length) + angle * pair_length
        allowed[rows, pairs[:, 0]] = allowed[rows, pairs[:, 1]] = per_pair
    return worst_column(got, exact, error, allowed)


def _tables(subject: RotationSubject, positions: Array) -> list[tuple[DoubleDouble, DoubleDouble]]:
    """Return cos and sin of the reference, some rows each; of those that count from 0 by runs."""
    first, *long = _calls(subject, positions)
    more = subject.exact.runs(subject.every) if long else []
    return [subject.exact.table(positions[first]), *more]


def _calls(subject: RotationSubject, positions: Array) -> list[slice]:
    """Return the rows of each call: the sample's, and those at every position if they are there."""
    few = len(positions) - subject.every
    if few < 1 or (positions[few:] != np.arange(subject.every)).any():
        return [slice(None)]
    return [slice(few), slice(few, None)]


@rotation_law(
    "attention factor",
    equation="16",
    describe=lambda rows, _: (
        f"|R_m x| / |x|: got {rows.got[0]:.9g}, expected {rows.expected[0]:.9g}"
    ),
    because="one rotation's error, and the rounding of a sum of d squares",
)
def attention_factor(subject: RotationSubject, sample: Sample) -> Rows:
    """|R_m x| = A |x| of rotated coordinates, A the encoding's factor; the median of all rows."""
    expected = np.array([subject.rope.attention_factor])
    got = np.array([subject.measured_factor])
    return compare(got, expected, np.array([subject.factor_tolerance]))


@rotation_law(
    "axes",
    uses=("q", "m", "n", "shift"),
    because=FORMS + ", the axes at m, n and shift",
    excuse=lambda subject: "positions have one axis" if subject.rope.axes == 1 else None,
)
def axes(subject: RotationSubject, sample: Sample) -> Rows:
    """Each pair follows its own axis of the position, or several, where the axes differ."""
    places = (sample.m, sample.n, sample.shift)
    points = np.stack([places[a % len(places)] for a in range(subject.rope.axes)], axis=1)
    cosine, sine = (table.high for table in subject.exact.table_of_points(points))
    factor, coordinates = subject.factor, subject.exact.pairs
    expected = reference.as_complex(sample.q, cosine, sine, coordinates, factor)
    got = subject.rotate(sample.q, points)
    size = factor * lengths(sample.q)
    furthest = np.abs(points).max(axis=1)
    relative = subject.relative_error(furthest) + subject.uncertainty + 5 * DOUBLE
    allowed = relative * size + subject.floor()
    return compare(got, expected, allowed)


@rotation_law(
    "2-D case",
    equation="12, 13",
    prepare=on_each_pair,
    uses=("q", "m"),
    because=FORMS,
)
def planar_case(subject: RotationSubject, sample: Sample) -> Rows:
    """Eq. 12, 13: each pair turns by its 2 x 2 matrix, of determinant 1; zeros stay zeros."""
    pairs, factor = subject.exact.pairs, subject.factor
    positions, place = np.unique(sample.m, return_inverse=True)
    row, filled = np.arange(len(sample.m)), np.abs(sample.q).argmax(axis=1)
    pair = (pairs == filled[:, None, None]).any(axis=2).argmax(axis=1)
    cosine, sine = (part.high[place, pair] for part in subject.exact.table(positions))
    expected = np.zeros_like(sample.q)
    x = sample.q[row, pairs[pair].T]
    expected[row, pairs[pair].T] = reference.planar(x, cosine, sine, factor)
    got = subject.rotate(sample.q, sample.m)
    size = factor * lengths(sample.q)
    relative = subject.relative_error(sample.m) + subject.uncertainty + 5 * DOUBLE
    return compare(got, expected, relative * size + subject.floor())


@rotation_law(
    "frequencies",
    equation="15",
    describe=lambda rows, pair: (
        f"pair {pair}: got {rows.got[pair]:.6g} radians per position, "
        f"expected {rows.expected[pair]:.6g}"
    ),
    because="the roundings of each frequency however a table is computed, in float64",
    dtypes=("float64",),
    excuse=lambda subject: (
        None if subject.rope.parameters else "the table was given, not made from a formula"
    ),
)
def frequency_table(subject: RotationSubject, _sample: Sample) -> Rows:
    """inv_freq is what the formula of the rope type gives; base^(-2i/rotary_dim), Eq. 15."""
    rope = subject.rope
    given = dict(rope.parameters)
    reference_formula = getattr(frequencies, rope.rope_type)
    exact = reference_formula(**given)
    got = rope.diagonal_inv_freq
    error = np.array([abs(float(a - b)) for a, b in zip(got, exact, strict=True)])
    expected = np.array([float(f) for f in exact])

    def table_at(base: float) -> Array:
        return np.array([float(f) for f in reference_formula(**{**given, "base": base})])

    magnified = magnification(given["base"], table_at)
    allowed = angle_roundings(expected, magnified) * DOUBLE * expected
    return Rows(got=got, expected=expected, error=error, tolerance=allowed)
