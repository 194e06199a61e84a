"""Laws of every rotary embedding, whatever its layout, base or direction.

These laws compare the implementation with itself at other positions, as Eq. 11 and 16 do, after
dividing by its own stretch; so they hold for another layout or base too. Which rotation it is,
the laws of `convention` say.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ropecli.checks.rotation_laws.measure import Rows, law
from ropecli.checks.rotation_laws.subject import few_where_large, lengths, on_one_pair
from ropecli.units import DOUBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ropecli.checks.rotation_laws.subject import RotationSubject, Sample

    Array = NDArray[np.float64]


def _scores(q: Array, k: Array) -> Array:
    """Return inner products of the rows; the sum is exact, each product rounded once."""
    return np.array([math.fsum(row) for row in q * k])


def _score_slack(q: Array, k: Array) -> Array:
    """Return the error of an inner product whose products are rounded."""
    return np.asarray(DOUBLE * np.abs(q * k).sum(axis=1))


def _stretch(subject: RotationSubject, sample: Sample) -> float:
    """Return the factor on lengths, which these laws are judged without."""
    factor = float(np.median(subject.stretch(sample.q, subject.rotate(sample.q, sample.m))))
    return factor if math.isfinite(factor) and factor > 0 else 1.0


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
    return Rows(
        got=got,
        expected=expected,
        error=np.abs(got - expected),
        tolerance=allowed * size + slack + floor,
    )


def orthogonality(subject: RotationSubject, sample: Sample) -> Rows:
    """(R_m q).(R_m k) = q.k: the columns of R_m are orthonormal."""
    factor = _stretch(subject, sample)
    turned = subject.rotated
    q = subject.rotate(sample.q, sample.m)[:, turned] / factor
    k = subject.rotate(sample.k, sample.m)[:, turned] / factor
    plain_q, plain_k = sample.q[:, turned], sample.k[:, turned]
    got, expected = _scores(q, k), _scores(plain_q, plain_k)
    size = lengths(plain_q) * lengths(plain_k)
    still = np.zeros_like(sample.m)
    slack = _score_slack(q, k) + _score_slack(plain_q, plain_k) + 4 * DOUBLE * size
    floor = 2 * subject.floor() * (lengths(q) + lengths(k))
    # Twice the two rotations' error: the stretch that was divided out carries as much.
    allowed = 2 * subject.relative_error(still, still) * size
    return Rows(
        got=got,
        expected=expected,
        error=np.abs(got - expected),
        tolerance=allowed + slack + floor,
    )


def norm(subject: RotationSubject, sample: Sample) -> Rows:
    """|R_m x| = |x|, at every position alike."""
    factor = _stretch(subject, sample)
    got = subject.stretch(sample.q, subject.rotate(sample.q, sample.m)) / factor
    still = np.zeros_like(sample.m)
    floor = subject.floor() / lengths(sample.q[:, subject.rotated])
    return Rows(
        got=got,
        expected=np.ones_like(got),
        error=np.abs(got - 1),
        # The rotation's own error, and that of the factor; the sums of squares round as well.
        tolerance=2 * (subject.relative_error(still) + floor) + len(subject.rotated) * DOUBLE,
    )


def attention_factor(subject: RotationSubject, sample: Sample) -> Rows:
    """|R_m x| = A |x|, with A the factor of the encoding."""
    expected = subject.rope.attention_factor
    got = subject.stretch(sample.q, subject.rotate(sample.q, sample.m))
    still = np.zeros_like(sample.m)
    floor = subject.floor() / lengths(sample.q[:, subject.rotated])
    return Rows(
        got=got,
        expected=np.full_like(got, expected),
        error=np.abs(got - expected),
        tolerance=expected * (subject.relative_error(still) + len(subject.rotated) * DOUBLE)
        + floor,
    )


def composition(subject: RotationSubject, sample: Sample) -> Rows:
    """R_n R_m x = R_{m+n} x."""
    factor = _stretch(subject, sample)
    once = subject.rotate(sample.q, sample.m)
    once[:, subject.rotated] /= factor  # or a large one could overflow the second time
    twice = subject.rotate(once, sample.n)[:, subject.rotated]
    direct = subject.rotate(sample.q, sample.m + sample.n)[:, subject.rotated]
    both = subject.relative_error(sample.m, sample.n)
    sum_of_both = subject.relative_error(sample.m + sample.n)
    still = subject.relative_error(np.zeros_like(sample.m))
    return Rows(
        got=twice,
        expected=direct,
        error=lengths(twice - direct),
        # The factor that was divided out carries a rotation's error, and dividing rounds.
        tolerance=(both + sum_of_both + 2 * still) * factor * lengths(sample.q)
        + (2 + factor + 1 / factor) * subject.floor(),
    )


def inverse(subject: RotationSubject, sample: Sample) -> Rows:
    """(R_m q).k = q.(R_{-m} k): the transpose is the inverse."""
    q, k = subject.rotate(sample.q, sample.m), subject.rotate(sample.k, -sample.m)
    got, expected = _scores(q, sample.k), _scores(sample.q, k)
    size = np.maximum(lengths(q) * lengths(sample.k), lengths(sample.q) * lengths(k))
    slack = _score_slack(q, sample.k) + _score_slack(sample.q, k)
    floor = subject.floor() * (lengths(sample.q) + lengths(sample.k))
    return Rows(
        got=got,
        expected=expected,
        error=np.abs(got - expected),
        tolerance=2 * subject.relative_error(sample.m) * size + slack + floor,
    )


def identity(subject: RotationSubject, sample: Sample) -> Rows:
    """R_0 x = x, to the bit where the attention factor is 1."""
    factor = subject.rope.attention_factor
    still = np.zeros_like(sample.m)
    expected = sample.q.copy()
    expected[:, subject.rotated] *= factor
    got = subject.rotate(sample.q, still)
    if factor == 1:
        allowed = still
    else:
        allowed = subject.relative_error(still) * lengths(expected) + subject.floor()
    return Rows(got=got, expected=expected, error=lengths(got - expected), tolerance=allowed)


def determinant(subject: RotationSubject, sample: Sample) -> Rows:
    """det R_m = 1, with R_m built from its columns."""
    dim = subject.rope.head_dim
    basis = np.eye(dim)
    factor = _stretch(subject, sample)
    got = np.empty(len(sample.m))
    for row, m in enumerate(sample.m):
        columns = subject.rotate(basis, np.full(dim, m)).T
        columns[subject.rotated] /= factor
        sign, logarithm = np.linalg.slogdet(columns)
        got[row] = sign * math.exp(min(float(logarithm), 700.0))
    still = np.zeros_like(sample.m)
    # A column's error enters once a column, and the factor's as often; LU adds d^3 u at most.
    allowed = (1 + 2 * subject.relative_error(still)) ** dim - 1 + dim**3 * DOUBLE
    return Rows(got=got, expected=np.ones_like(got), error=np.abs(got - 1), tolerance=allowed)


def pass_through(subject: RotationSubject, sample: Sample) -> Rows:
    """Coordinates in no pair are copied to the bit."""
    got = subject.rotate(sample.q, sample.m)[:, subject.passed_through]
    expected = sample.q[:, subject.passed_through]
    return Rows(
        got=got,
        expected=expected,
        error=lengths(got - expected),
        tolerance=np.zeros_like(sample.m),
    )


def _excuse_whole_head(subject: RotationSubject) -> str | None:
    return None if len(subject.passed_through) else "every coordinate is rotated"


def score_bound(subject: RotationSubject, sample: Sample) -> Rows:
    """|(R_m q).(R_n k)| <= |q||k|, for vectors on one pair."""
    factor = _stretch(subject, sample)
    q, k = sample.q, sample.k
    score = _scores(subject.rotate(q, sample.m), subject.rotate(k, sample.n)) / factor**2
    most = lengths(q) * lengths(k)
    still = np.zeros_like(sample.m)
    floor = 2 * subject.floor() * (lengths(q) + lengths(k))
    return Rows(
        got=np.abs(score),
        expected=most,
        error=np.maximum(np.abs(score) - most, 0),
        tolerance=(2 * subject.relative_error(still, still) + 8 * DOUBLE) * most + floor,
    )


LAWS = (
    law(
        relative_position,
        name="relative position",
        equation="11, 16",
        uses=("q", "k", "m", "n", "shift"),
        because="four rotations' errors times |q||k|, and one rounding of each product",
    ),
    law(
        orthogonality,
        name="orthogonality",
        equation="15",
        uses=("q", "k", "m"),
        because="two rotations' errors and the measured stretch's, times |q||k|; "
        "an angle's error turns both vectors alike",
    ),
    law(
        norm,
        name="norm",
        equation="16",
        uses=("q", "m"),
        because="one rotation's error and the measured stretch's; an angle's error keeps lengths",
    ),
    law(
        attention_factor,
        name="attention factor",
        equation="16",
        uses=("q", "m"),
        because="one rotation's error, and the rounding of a sum of d squares",
    ),
    law(
        composition,
        name="composition",
        equation="16",
        uses=("q", "m", "n"),
        because="three rotations' errors with their angles' and the measured stretch's, times |x|",
    ),
    law(
        inverse,
        name="inverse",
        equation="16",
        uses=("q", "k", "m"),
        because="two rotations' errors times |q||k|, and one rounding of each product",
    ),
    law(
        identity,
        name="identity at 0",
        equation="15",
        uses=("q",),
        because="cos 0 = 1 and sin 0 = 0 exactly: none, or one rounding by the attention factor",
    ),
    law(
        determinant,
        name="determinant 1",
        equation="15",
        prepare=few_where_large,
        uses=("m",),
        because="a column's error for each of d columns, and d^3 u for the elimination",
    ),
    law(
        pass_through,
        name="pass-through",
        equation="15",
        uses=("q", "m"),
        because="coordinates in no pair are copied: none",
        excuse=_excuse_whole_head,
    ),
    law(
        score_bound,
        name="score bound",
        equation="37",
        prepare=on_one_pair,
        uses=("q", "k", "m", "n"),
        because="two rotations' errors and the measured stretch's, times |q||k| of the pair",
    ),
)
