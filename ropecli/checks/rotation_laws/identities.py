"""Laws of every rotary embedding, whatever its layout, base or direction.

These laws compare the implementation with itself or with x, as Eq. 11 and 16 do, after dividing by
the factor on lengths that it has; so they hold for another layout, base or attention factor too.
Which rotation it is, the laws of `forms` say.

Others follow and are not judged by themselves. With R_0 = 1, relative positions give the inverse,
(R_m x).k = x.(R_{-m} k), and with it the composition R_n R_m = R_{m+n}. Orthogonality has
|(R_m q).(R_n k)| <= |q||k|. A determinant of -1 or 0 shows in the block of its pair (`2-D case`).
"""

from __future__ import annotations

import math

import numpy as np

from ropecli.arrays import Array
from ropecli.checks.rotation_laws.measure import Rows, compare, rotation_law, worst_column
from ropecli.checks.rotation_laws.subject import RotationSubject, Sample, lengths
from ropecli.units import DOUBLE


def _scores(q: Array, k: Array) -> Array:
    """Return inner products of the rows; the sum is exact, each product rounded once."""
    return np.array([math.fsum(row) for row in q * k])


def _score_slack(q: Array, k: Array) -> Array:
    """Return the error of an inner product whose products are rounded."""
    return np.asarray(DOUBLE * np.abs(q * k).sum(axis=1))


@rotation_law(
    "relative position",
    equation="11, 16",
    uses=("q", "k", "m", "n", "shift"),
    because="four rotations' errors times |q||k|, and one rounding of each product",
)
def relative_position(subject: RotationSubject, sample: Sample) -> Rows:
    """(R_m q).(R_n k) = (R_{m+s} q).(R_{n+s} k)."""
    m, n, later_m, later_n = sample.m, sample.n, sample.m + sample.shift, sample.n + sample.shift
    q, k = subject.rotate(sample.q, m), subject.rotate(sample.k, n)
    later_q, later_k = subject.rotate(sample.q, later_m), subject.rotate(sample.k, later_n)
    got, expected = _scores(later_q, later_k), _scores(q, k)
    size = lengths(q) * lengths(k)
    allowed = subject.relative_error(m, n) + subject.relative_error(later_m, later_n)
    slack = _score_slack(q, k) + _score_slack(later_q, later_k)
    floor = 2 * subject.floor() * (lengths(q) + lengths(k))
    return compare(got, expected, allowed * size + slack + floor)


@rotation_law(
    "orthogonality",
    equation="15, 16",
    uses=("q", "k", "m"),
    because="two rotations' errors and the measured factor's, times |q||k|; "
    "an angle's error turns both vectors alike and keeps lengths",
)
def orthogonality(subject: RotationSubject, sample: Sample) -> Rows:
    """(R_m q).(R_m k) = q.k and |R_m q| = |q|, the measured factor taken out."""
    turned = subject.rotated
    q = subject.rotate(sample.q, sample.m)[:, turned] / subject.factor
    k = subject.rotate(sample.k, sample.m)[:, turned] / subject.factor
    plain_q, plain_k = sample.q[:, turned], sample.k[:, turned]
    still = np.zeros_like(sample.m)
    # Twice the two rotations' error: the factor that was divided out may carry as much.
    relative = 2 * subject.relative_error(still, still) + 4 * DOUBLE
    columns = []
    for other, plain in ((k, plain_k), (q, plain_q)):
        got, expected = _scores(q, other), _scores(plain_q, plain)
        slack = _score_slack(q, other) + _score_slack(plain_q, plain)
        floor = 2 * subject.floor() * (lengths(q) + lengths(other))
        allowed = relative * lengths(plain_q) * lengths(plain) + slack + floor
        columns.append((got, expected, np.abs(got - expected), allowed))
    return worst_column(
        *(np.stack(columns_of, axis=1) for columns_of in zip(*columns, strict=True))
    )


@rotation_law(
    "identity at 0",
    equation="15",
    uses=("q",),
    because="cos 0 = 1 and sin 0 = 0 exactly: none, or one rounding by the attention factor",
)
def identity(subject: RotationSubject, sample: Sample) -> Rows:
    """R_0 x = x, to the bit where the attention factor is 1."""
    still = np.zeros_like(sample.m)
    expected = sample.q.copy()
    expected[:, subject.rotated] *= subject.factor
    got = subject.rotate(sample.q, still)
    if subject.factor == 1:
        allowed = still
    else:
        relative = subject.relative_error(still) + subject.uncertainty
        allowed = relative * lengths(expected) + subject.floor()
    return compare(got, expected, allowed)
