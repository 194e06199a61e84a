"""The Abel summation behind Figure 2, and the bounds on the score that it gives (Eq. 35-37)."""

from __future__ import annotations

import numpy as np

from ropecli.analyses.decay import Decay
from ropecli.arrays import Array
from ropecli.checks.rotation_laws.measure import Rows, compare, rotation_law
from ropecli.checks.rotation_laws.subject import RotationSubject, Sample
from ropecli.reference import abel as reference
from ropecli.units import DOUBLE

SUMS = "u|r theta| for the angle, 8 u for cos, sin and their product, u for each pair added"


def _decays(subject: RotationSubject, sample: Sample) -> tuple[list[Decay], Array]:
    """Return the analysis at one distance for each row, and the distances."""
    distances = np.abs(sample.m - sample.n)
    results = [
        subject.decay(subject.rope, start=r, max_distance=r, q=q, k=k)
        for r, q, k in zip(distances, sample.q, sample.k, strict=True)
    ]
    return results, distances


def _slack(subject: RotationSubject, distances: Array, weight: Array) -> Array:
    """Return the error of a sum over pairs of e^{i r theta}, each pair with a weight.

    An angle rounds by u |r theta|, cos and sin of it and the table's product add 8 u, and each of
    as many additions as there are pairs rounds the running sum.
    """
    pairs = len(subject.exact.inv_freq)
    return (2 * distances * subject.fastest + 8 + pairs) * DOUBLE * weight


def _weights(subject: RotationSubject, sample: Sample) -> Array:
    """Return sum |h_i| = sum |q_i||k_i| over the pairs, and |q||k| for the rest."""
    pairs, passed = subject.exact.pairs, subject.passed_through
    sizes = [np.hypot(x[:, pairs[:, 0]], x[:, pairs[:, 1]]) for x in (sample.q, sample.k)]
    constant = np.abs(sample.q[:, passed] * sample.k[:, passed]).sum(axis=1)
    return np.asarray((sizes[0] * sizes[1]).sum(axis=1) + constant)


def _constant(subject: RotationSubject, sample: Sample) -> Array:
    passed = subject.passed_through
    return np.asarray((sample.q[:, passed] * sample.k[:, passed]).sum(axis=1))


@rotation_law(
    "Abel identity",
    equation="36",
    uses=("q", "k", "m", "n"),
    because=SUMS,
    dtypes=("float64",),
)
def abel_identity(subject: RotationSubject, sample: Sample) -> Rows:
    """Eq. 36: the score is -Re sum S_{i+1} (h_{i+1} - h_i), with h_{d/2} = 0."""
    results, distances = _decays(subject, sample)
    square = subject.rope.attention_factor**2
    h = reference.products(sample.q, sample.k, subject.exact.pairs)
    parts = reference.score_by_parts(subject.exact.table(distances), h)
    expected = square * parts.high + _constant(subject, sample)
    got = np.array([float(result.score[0]) for result in results if result.score is not None])
    return compare(got, expected, _slack(subject, distances, square * _weights(subject, sample)))


@rotation_law(
    "bounds = reference",
    equation="37",
    uses=("q", "k", "m", "n"),
    because=SUMS,
    dtypes=("float64",),
)
def bounds_against_reference(subject: RotationSubject, sample: Sample) -> Rows:
    """Figure 2 and both bounds of Eq. 37 in 29-digit arithmetic.

    With Eq. 36 they give |score| <= sum |S||dh| <= max|dh| sum |S|.
    """
    results, distances = _decays(subject, sample)
    square = subject.rope.attention_factor**2
    constant = np.abs(_constant(subject, sample))
    turn = subject.exact.table(distances)
    h = reference.products(sample.q, sample.k, subject.exact.pairs)
    bounds = [square * bound.high + constant for bound in reference.bounds(turn, h)]
    expected = np.stack([reference.relative_upper_bound(turn), *bounds], axis=1)
    curves = [(r.relative_upper_bound, r.abel_bound, r.max_bound) for r in results]
    got = np.array([[curve[0] for curve in row if curve is not None] for row in curves])
    pairs = len(subject.exact.inv_freq)
    # |S_j| is at most j, so a weight on it counts j times; each difference of h rounds as well.
    weight = np.maximum(2 * pairs * square * _weights(subject, sample), pairs)
    return Rows(
        got=got,
        expected=expected,
        error=np.abs(got - expected).max(axis=1),
        tolerance=_slack(subject, distances, weight),
    )
