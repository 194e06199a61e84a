"""Which rotation it is: the implementation against the paper's own forms of R_m.

Another layout, base or direction satisfies every law of `rotation_laws`; only a comparison with an
independent reference tells them apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.accuracy import ANGLE
from ropecli.checks.law import Judgement, Law, Sample
from ropecli.checks.sampling import on_one_pair
from ropecli.checks.subject import lengths
from ropecli.reference import frequencies
from ropecli.reference import rotation as reference
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.subject import Subject

    Array = NDArray[np.float64]

#: How far a pair may be off, over its length, and still be said to be the same rotation: far above
#: any dtype's rounding (bfloat16's is 2^-7.5) and far below another layout, direction or base.
COARSE = 2.0**-5
FAR = 4096.0  #: Convention is judged up to here: float32 angles are within 2^-12 radian of right.


def kernel_against_reference(subject: Subject, sample: Sample) -> Judgement:
    """R_m x element by element (Eq. 34), against DIGITS-digit arithmetic, inv_freq as given."""
    cosine, sine = subject.oracle.table(sample.m)
    factor, pairs = subject.rope.attention_factor, subject.oracle.pairs
    exact = reference.elementwise(sample.q, cosine, sine, pairs, factor)
    got = subject.turn(sample.q, sample.m)
    error = np.abs((got - exact).astype(np.float64))
    pair_length = factor * np.hypot(sample.q[:, pairs[:, 0]], sample.q[:, pairs[:, 1]])
    angle = ANGLE * np.abs(np.outer(sample.m, subject.oracle.inv_freq)) * pair_length
    allowed = np.zeros_like(error)
    per_pair = subject.accuracy.per_coordinate(pair_length) + angle
    allowed[:, pairs[:, 0]] = allowed[:, pairs[:, 1]] = per_pair
    return _worst(got, exact.astype(np.float64), error, allowed)


def axes(subject: Subject, sample: Sample) -> Judgement:
    """Each pair turns by its own axis of the position, the axes standing at different places."""
    places = (sample.m, sample.n, sample.shift)
    axis = np.array(subject.rope.axis)
    points = np.stack([places[a % len(places)] for a in range(subject.rope.axes)], axis=1)
    tables = [subject.oracle.table(points[:, a]) for a in range(subject.rope.axes)]
    rows, pairs = np.arange(len(points))[:, None], np.arange(len(axis))[None]
    cosine, sine = (np.stack([t[k] for t in tables])[axis[None], rows, pairs] for k in range(2))
    factor, coordinates = subject.rope.attention_factor, subject.oracle.pairs
    expected = reference.as_complex(sample.q, cosine, sine, coordinates, factor)
    got = subject.turn(sample.q, points)
    size = factor * lengths(sample.q)
    furthest = np.abs(points).max(axis=1)
    allowed = (subject.relative_error(furthest) + 5 * DOUBLE) * size + subject.floor()
    return Judgement(got=got, expected=expected, error=lengths(got - expected), tolerance=allowed)


def _worst(got: Array, expected: Array, error: Array, allowed: Array) -> Judgement:
    """Each row judged by the column that comes closest to its tolerance, or exceeds it most."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(error == 0, 0.0, error / allowed)
    column = np.where(np.isnan(share), np.inf, share).argmax(axis=1)[:, None]
    return Judgement(
        got=got,
        expected=expected,
        error=np.take_along_axis(error, column, axis=1)[:, 0],
        tolerance=np.take_along_axis(allowed, column, axis=1)[:, 0],
    )


def _against(subject: Subject, sample: Sample, expected: Array, *, roundings: int) -> Judgement:
    """The implementation against a float64 form of R_m x that rounds so many times."""
    got = subject.turn(sample.q, sample.m)
    size = subject.rope.attention_factor * lengths(sample.q)
    allowed = (subject.relative_error(sample.m) + roundings * DOUBLE) * size + subject.floor()
    return Judgement(got=got, expected=expected, error=lengths(got - expected), tolerance=allowed)


def matrix_form(subject: Subject, sample: Sample) -> Judgement:
    """Eq. 34 = Eq. 15: the implementation against the block-diagonal matrix."""
    cosine, sine = subject.oracle.table(sample.m)
    rope, pairs = subject.rope, subject.oracle.pairs
    expected = np.array(
        [
            reference.matrix(c, s, pairs, rope.head_dim, rope.attention_factor) @ x
            for c, s, x in zip(cosine, sine, sample.q, strict=True)
        ]
    )
    # An entry rounds once, and again by A; two products and a sum of a row make five in a norm.
    return _against(subject, sample, expected, roundings=5)


def complex_form(subject: Subject, sample: Sample) -> Judgement:
    """Eq. 34 = Eq. 12: each pair as a complex number times e^{i m theta}."""
    cosine, sine = subject.oracle.table(sample.m)
    pairs, factor = subject.oracle.pairs, subject.rope.attention_factor
    expected = reference.as_complex(sample.q, cosine, sine, pairs, factor)
    return _against(subject, sample, expected, roundings=5)


def planar_case(subject: Subject, sample: Sample) -> Judgement:
    """Eq. 13: a vector on one pair stays on it and turns by the 2 x 2 matrix."""
    cosine, sine = subject.oracle.table(sample.m)
    pairs, factor = subject.oracle.pairs, subject.rope.attention_factor
    expected = np.zeros_like(sample.q)
    for row, x in enumerate(sample.q):
        i = row % len(pairs)
        c, s = float(cosine[row, i]), float(sine[row, i])
        expected[row, pairs[i]] = reference.planar(x[pairs[i]], c, s, factor)
    return _against(subject, sample, expected, roundings=5)


def convention(subject: Subject, sample: Sample) -> Judgement:
    """Layout, direction and frequencies are those of the encoding, rounding apart."""
    near = np.fmod(sample.m, FAR)
    cosine, sine = subject.oracle.table(near)
    pairs = subject.oracle.pairs
    expected = reference.as_complex(sample.q, cosine, sine, pairs)
    got = subject.turn(sample.q, near)
    stretch = subject.stretch(sample.q, got)
    usable = np.isfinite(stretch) & (stretch > 0)
    got[:, subject.rotated] /= np.where(usable, stretch, 1.0)[:, None]
    error = np.hypot(*np.moveaxis((got - expected)[:, pairs], -1, 0))
    size = np.hypot(*np.moveaxis(expected[:, pairs], -1, 0))
    angle = ANGLE * np.abs(np.outer(near, subject.oracle.inv_freq))
    return _worst(got, expected, error, (COARSE + angle) * size)


def frequency_table(subject: Subject, _sample: Sample) -> Judgement:
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
    return Judgement(got=got, expected=expected, error=error, tolerance=allowed)


FORMS = "the rotation's error with its angle's, and five roundings of the float64 form"

LAWS = (
    Law(
        name="convention",
        equation="34",
        judge=convention,
        uses=("q", "m"),
        because="2^-5 of a pair's length: above every dtype's rounding, below any other convention",
    ),
    Law(
        name="frequencies",
        equation="15",
        judge=frequency_table,
        uses=(),
        because="ln(base) for the exponent's rounding, two ulps for the power; eight more for "
        "scaling, and 2 dim for a ramp over pairs",
        dtypes=("float64",),
    ),
    Law(
        name="Eq. 34 = Eq. 15",
        equation="15, 34",
        judge=matrix_form,
        uses=("q", "m"),
        because=FORMS,
    ),
    Law(
        name="complex form",
        equation="12",
        judge=complex_form,
        uses=("q", "m"),
        because=FORMS,
    ),
    Law(
        name="2-D case",
        equation="13",
        judge=planar_case,
        prepare=on_one_pair,
        uses=("q", "m"),
        because=FORMS,
    ),
    Law(
        name="axes",
        equation="34",
        judge=axes,
        uses=("q", "m", "n", "shift"),
        because=FORMS + ", the axes at m, n and shift",
    ),
    Law(
        name="kernel = reference",
        equation="34",
        judge=kernel_against_reference,
        uses=("q", "m"),
        because="the accuracy promised for the dtype, a coordinate at a time, in ulps of A|pair|, "
        "and 1.2e-16 of the angle",
    ),
)
