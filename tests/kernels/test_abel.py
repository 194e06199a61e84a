"""The sums over pairs, against the reference."""

from __future__ import annotations

import numpy as np
import strategies as domain
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli import Rotary
from ropecli.kernels import abel
from ropecli.reference import abel as reference

UNIT = 2.0**-53
Array = NDArray[np.float64]


def tables(inv_freq: Array, step: float, count: int) -> tuple[Array, Array]:
    shape = (len(inv_freq), min(count, abel.BLOCK))
    cos, sin = np.empty(shape), np.empty(shape)
    abel.fill_steps(inv_freq, step, cos, sin)
    return cos, sin


def slack(inv_freq: Array, distances: Array, weight: float) -> Array:
    """Angles of start and offset round by u |r theta| each, cos, sin and product by 8 u, and
    each of as many additions as there are pairs once more."""
    pairs = len(inv_freq)
    bound: Array = (2 * distances * inv_freq.max() + 8 + pairs) * UNIT * weight + 1e-300
    return bound


cases = st.tuples(
    domain.ropes(largest=16),
    st.one_of(st.just(0.0), st.floats(0, 1e5)),
    st.sampled_from([1.0, 0.25, 0.02, 7.0]),
    st.sampled_from([1, 5, abel.BLOCK - 1, abel.BLOCK + 1, 2 * abel.BLOCK + 3]),
    st.integers(0, 2**32 - 1),
)


@given(cases)
def test_weighted_partial_sums(case: tuple[Rotary, float, float, int, int]) -> None:
    rope, start, step, count, seed = case
    inv_freq = rope.inv_freq
    weights = np.random.default_rng(seed).uniform(0, 2, len(inv_freq))
    out = np.full(count, np.nan)
    table = tables(inv_freq, step, count)
    abel.weighted_partial_sums(inv_freq, weights, start, step, *table, out)
    at = np.unique([0, count // 2, count - 1])
    distances = start + at * step
    expected = [
        float(sum(w * abs(s) for w, s in zip(weights, sums, strict=True)))
        for sums in (reference.partial_sums(r, inv_freq) for r in distances)
    ]
    # |S_j| is at most the number of pairs.
    allowed = slack(inv_freq, distances, float(weights.sum()) * len(inv_freq))
    assert np.isfinite(out).all()
    assert_within("sums", got=out[at], expected=expected, tolerance=allowed)


@given(cases)
def test_scores(case: tuple[Rotary, float, float, int, int]) -> None:
    rope, start, step, count, seed = case
    inv_freq = rope.inv_freq
    real, imaginary = np.random.default_rng(seed).standard_normal((2, len(inv_freq)))
    out = np.full(count, np.nan)
    abel.scores(inv_freq, real, imaginary, start, step, *tables(inv_freq, step, count), out)
    at = np.unique([0, count // 2, count - 1])
    distances = start + at * step
    h = [complex(a, b) for a, b in zip(real, imaginary, strict=True)]
    expected = [float(reference.score(r, inv_freq, h)) for r in distances]
    allowed = slack(inv_freq, distances, float(np.hypot(real, imaginary).sum()))
    assert np.isfinite(out).all()
    assert_within("scores", got=out[at], expected=expected, tolerance=allowed)


def test_a_value_does_not_depend_on_how_many_follow() -> None:
    inv_freq = 10_000.0 ** (-np.arange(8) / 8)
    outs = []
    for count in (300, 1000):
        out = np.empty(count)
        table = tables(inv_freq, 1.0, count)
        abel.weighted_partial_sums(inv_freq, np.ones(8), 0.0, 1.0, *table, out)
        outs.append(out[:300])
    assert outs[0].tobytes() == outs[1].tobytes()
