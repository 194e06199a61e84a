"""Laws of one rotation: the function under test against the paper's own forms of R_m.

Another layout, base or direction satisfies every law of `identities`; only a comparison with an
independent reference tells them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.accuracy import ANGLE
from ropecli.checks.law import shares
from ropecli.checks.rotation_laws.measure import Rows, law
from ropecli.checks.rotation_laws.subject import lengths, on_one_pair
from ropecli.reference import frequencies
from ropecli.reference import rotation as reference
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.rotation_laws.subject import RotationSubject, Sample

    Array = NDArray[np.float64]

#: How far a pair may be off, over its length, and still be said to be the same rotation: far above
#: any dtype's rounding (bfloat16's is 2^-7.5) and far below another layout, direction or base.
COARSE = 2.0**-5
FAR = 4096.0  #: Convention is judged up to here: float32 angles are within 2^-12 radian of right.


def kernel_against_reference(subject: RotationSubject, sample: Sample) -> Rows:
    """R_m x element by element (Eq. 34) in 29-digit arithmetic, inv_freq as given."""
    factor, pairs = subject.rope.attention_factor, subject.oracle.pairs
    turned = reference.turn(sample.q, *subject.oracle.table(sample.m), pairs, factor)
    got = subject.rotate(sample.q, sample.m)
    exact, error = sample.q.copy(), np.abs(got - sample.q)
    for coordinates, values in zip(pairs.T, turned, strict=True):
        exact[:, coordinates] = values.high
        part = got[:, coordinates]
        apart = np.where(np.isfinite(part), (values - part).high, values.high - part)
        error[:, coordinates] = np.abs(apart)
    pair_length = factor * np.hypot(sample.q[:, pairs[:, 0]], sample.q[:, pairs[:, 1]])
    angle = ANGLE * np.abs(np.outer(sample.m, subject.oracle.inv_freq)) * pair_length
    allowed = np.zeros_like(error)
    per_pair = subject.accuracy.per_coordinate(pair_length) + angle
    allowed[:, pairs[:, 0]] = allowed[:, pairs[:, 1]] = per_pair
    return _worst(got, exact, error, allowed)


def axes(subject: RotationSubject, sample: Sample) -> Rows:
    """Each pair follows its own axis of the position, where the axes differ."""
    places = (sample.m, sample.n, sample.shift)
    axis = np.array(subject.rope.axis)
    points = np.stack([places[a % len(places)] for a in range(subject.rope.axes)], axis=1)
    tables = [subject.oracle.table(points[:, a]) for a in range(subject.rope.axes)]
    rows, pairs = np.arange(len(points))[:, None], np.arange(len(axis))[None]
    cosine, sine = (
        np.stack([table[k].high for table in tables])[axis[None], rows, pairs] for k in range(2)
    )
    factor, coordinates = subject.rope.attention_factor, subject.oracle.pairs
    expected = reference.as_complex(sample.q, cosine, sine, coordinates, factor)
    got = subject.rotate(sample.q, points)
    size = factor * lengths(sample.q)
    furthest = np.abs(points).max(axis=1)
    allowed = (subject.relative_error(furthest) + 5 * DOUBLE) * size + subject.floor()
    return Rows(got=got, expected=expected, error=lengths(got - expected), tolerance=allowed)


def _worst(got: Array, expected: Array, error: Array, allowed: Array) -> Rows:
    """Judge each row by the column that comes closest to its tolerance, or exceeds it most."""
    column = shares(error, allowed).argmax(axis=1)[:, None]
    return Rows(
        got=got,
        expected=expected,
        error=np.take_along_axis(error, column, axis=1)[:, 0],
        tolerance=np.take_along_axis(allowed, column, axis=1)[:, 0],
    )


def _against(subject: RotationSubject, sample: Sample, expected: Array, *, roundings: int) -> Rows:
    """Compare with a float64 form of R_m x that rounds that many times."""
    got = subject.rotate(sample.q, sample.m)
    size = subject.rope.attention_factor * lengths(sample.q)
    allowed = (subject.relative_error(sample.m) + roundings * DOUBLE) * size + subject.floor()
    return Rows(got=got, expected=expected, error=lengths(got - expected), tolerance=allowed)


def matrix_form(subject: RotationSubject, sample: Sample) -> Rows:
    """Eq. 34 = Eq. 15: R_m x is the block-diagonal matrix times x."""
    cosine, sine = subject.oracle.table(sample.m)
    rope, pairs = subject.rope, subject.oracle.pairs
    expected = np.array(
        [
            reference.matrix(c, s, pairs, rope.head_dim, rope.attention_factor) @ x
            for c, s, x in zip(cosine.high, sine.high, sample.q, strict=True)
        ]
    )
    # An entry rounds once, and again by A; two products and a sum of a row make five in a norm.
    return _against(subject, sample, expected, roundings=5)


def complex_form(subject: RotationSubject, sample: Sample) -> Rows:
    """Eq. 34 = Eq. 12: each pair as a complex number times e^{i m theta}."""
    cosine, sine = subject.oracle.table(sample.m)
    pairs, factor = subject.oracle.pairs, subject.rope.attention_factor
    expected = reference.as_complex(sample.q, cosine.high, sine.high, pairs, factor)
    return _against(subject, sample, expected, roundings=5)


def planar_case(subject: RotationSubject, sample: Sample) -> Rows:
    """Eq. 13: a vector on one pair stays on it and turns by the 2 x 2 matrix."""
    cosine, sine = subject.oracle.table(sample.m)
    pairs, factor = subject.oracle.pairs, subject.rope.attention_factor
    expected = np.zeros_like(sample.q)
    for row, x in enumerate(sample.q):
        i = row % len(pairs)
        c, s = float(cosine.high[row, i]), float(sine.high[row, i])
        expected[row, pairs[i]] = reference.planar(x[pairs[i]], c, s, factor)
    return _against(subject, sample, expected, roundings=5)


def convention(subject: RotationSubject, sample: Sample) -> Rows:
    """Layout, direction and frequencies are those of the encoding, rounding apart."""
    near = np.fmod(sample.m, FAR)
    cosine, sine = subject.oracle.table(near)
    pairs = subject.oracle.pairs
    expected = reference.as_complex(sample.q, cosine.high, sine.high, pairs)
    got = subject.rotate(sample.q, near)
    stretch = subject.stretch(sample.q, got)
    usable = np.isfinite(stretch) & (stretch > 0)
    got[:, subject.rotated] /= np.where(usable, stretch, 1.0)[:, None]
    error = np.hypot(*np.moveaxis((got - expected)[:, pairs], -1, 0))
    size = np.hypot(*np.moveaxis(expected[:, pairs], -1, 0))
    angle = ANGLE * np.abs(np.outer(near, subject.oracle.inv_freq))
    return _worst(got, expected, error, (COARSE + angle) * size)


def frequency_table(subject: RotationSubject, _sample: Sample) -> Rows:
    """inv_freq is what the formula of the rope type gives; base^(-2i/rotary_dim), Eq. 15."""
    rope = subject.rope
    given = dict(rope.parameters)
    reference_formula = getattr(frequencies, rope.rope_type)
    exact = reference_formula(**given)
    got = rope.inv_freq
    error = np.array([abs(float(a - b)) for a, b in zip(got, exact, strict=True)])
    expected = np.array([float(f) for f in exact])
    # The exponent's rounding is magnified by its size times ln(base), at most ln(base); pow
    # itself is right to two ulps. A scaled type has eight more operations, and a ramp over pairs
    # may cancel all but one of dim.
    logarithm = max(abs(np.log(b)) for b in (given["base"], rope.base or given["base"]))
    ramp = 2 * given["dim"] if reference_formula in frequencies.RAMPS_OVER_PAIRS else 0
    more = 0 if reference_formula is frequencies.default else 8 + ramp
    allowed = (logarithm + 2 + more) * 2 * DOUBLE * expected
    return Rows(got=got, expected=expected, error=error, tolerance=allowed)


def _excuse_tables(subject: RotationSubject) -> str | None:
    return None if subject.rope.parameters else "the table was given, not made from a formula"


def _excuse_one_axis(subject: RotationSubject) -> str | None:
    return "positions have one axis" if subject.rope.axes == 1 else None


def diagnose_convention(subject: RotationSubject) -> str | None:
    """Name the layout, direction or frequencies that unit vectors at position 1 show."""
    rope = subject.rope
    for layout in ("interleaved", "half"):
        pairs = reference.pairs_of(layout, rope.rotary_dim, rope.rotary_offset)
        angles = _angles(subject, pairs)
        if angles is None:
            continue
        for direction, sign in (("forward", 1), ("reversed", -1)):
            expected = rope.inv_freq * sign
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
    found = []
    if layout != rope.layout:
        found.append(f"layout {layout}, expected {rope.layout}")
    if direction != rope.direction:
        found.append(f"direction {direction}, expected {rope.direction}")
    return "; ".join(found) or None


def _frequencies(subject: RotationSubject, angles: Array) -> str:
    sign = 1 if subject.rope.direction == "forward" else -1
    off = _apart(angles, sign * subject.rope.inv_freq)
    pair = int(off.argmax())
    return (
        # One position shows an angle up to whole turns.
        f"frequencies: pair {pair} turns by {angles[pair]:.6g} radians per position, "
        f"expected {sign * subject.rope.inv_freq[pair]:.6g}, modulo a turn"
    )


FORMS = "the rotation's error with its angle's, and five roundings of the float64 form"

LAWS = (
    law(
        convention,
        name="convention",
        equation="34",
        uses=("q", "m"),
        explain=diagnose_convention,
        because="2^-5 of a pair's length: above every dtype's rounding, below any other convention",
    ),
    law(
        frequency_table,
        name="frequencies",
        equation="15",
        uses=(),
        because="ln(base) for the exponent's rounding, two ulps for the power; eight more for "
        "scaling, and 2 dim for a ramp over pairs",
        dtypes=("float64",),
        excuse=_excuse_tables,
    ),
    law(
        matrix_form,
        name="Eq. 34 = Eq. 15",
        equation="15, 34",
        uses=("q", "m"),
        because=FORMS,
    ),
    law(
        complex_form,
        name="complex form",
        equation="12",
        uses=("q", "m"),
        because=FORMS,
    ),
    law(
        planar_case,
        name="2-D case",
        equation="13",
        prepare=on_one_pair,
        uses=("q", "m"),
        because=FORMS,
    ),
    law(
        axes,
        name="axes",
        equation="34",
        uses=("q", "m", "n", "shift"),
        because=FORMS + ", the axes at m, n and shift",
        excuse=_excuse_one_axis,
    ),
    law(
        kernel_against_reference,
        name="kernel = reference",
        equation="34",
        uses=("q", "m"),
        because="the accuracy promised for the dtype, a coordinate at a time, in ulps of A|pair|, "
        "and 1.2e-16 of the angle",
    ),
)
