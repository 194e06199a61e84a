"""The curves of `decay`: scores of rotated vectors, and the bounds over them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within, for_each, run_python
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import ropes

from ropecli import ArgumentError, Rotary, decay, rotate
from ropecli.arrays import DTYPES
from ropecli.kernels.abel import BLOCK
from ropecli.reference import abel as reference
from ropecli.reference.double_double import cos_sin

U = 2.0**-53
ROPE = Rotary(head_dim=8)


def weight(rope: Rotary, q: NDArray[np.float64], k: NDArray[np.float64]) -> float:
    """A^2 sum |q_i||k_i| over the pairs, and |q||k| over the other coordinates."""
    pairs = rope.pairs_in
    rest = np.setdiff1d(np.arange(rope.head_dim), pairs)
    sizes = [np.hypot(*x[pairs].T) for x in (q, k)]
    inside = rope.attention_factor**2 * (sizes[0] * sizes[1]).sum()
    return float(inside + np.abs(q[rest] * k[rest]).sum())


def rounding_of_sum(rope: Rotary, distance: float) -> float:
    """Roundings of a sum over pairs of h_i e^{i r theta_i}, in parts of sum |h_i|.

    The angle of the block start and that of the offset round by u |r theta| in all, cos, sin and
    their product by 8 u, and each addition by u.
    """
    pairs = rope.rotary_dim // 2
    return (2 * distance * float(np.abs(rope.inv_freq).max()) + 8 + pairs) * U


@given(
    rope=ropes(largest=16),
    start=st.one_of(st.just(0.0), st.floats(0, 1e5)),
    step=st.sampled_from([1.0, 0.25, 0.02, 7.0]),
    count=st.sampled_from([1, 5, BLOCK - 1, BLOCK + 1, 2 * BLOCK + 3]),
    seed=st.integers(0, 2**32 - 1),
)
def test_curves_are_those_of_the_reference(
    rope: Rotary, start: float, step: float, count: int, seed: int
) -> None:
    """Within blocks of distances and across them."""
    q, k = np.random.default_rng(seed).standard_normal((2, rope.head_dim))
    curve = decay(rope, start=start, max_distance=start + (count - 1) * step, step=step, q=q, k=k)
    h = reference.products(rope.attention_factor**2 * q[None], k[None], rope.pairs_in)
    others = np.setdiff1d(np.arange(rope.head_dim), rope.pairs_in)
    rest = float(q[others] @ k[others])
    signed = rope.inv_freq if rope.direction == "forward" else -rope.inv_freq
    pairs = len(signed)
    for index in {0, len(curve.relative_distance) // 2, len(curve.relative_distance) - 1}:
        r = float(curve.relative_distance[index])
        turn = cos_sin(np.array([r]), signed)
        bounds = reference.bounds(cos_sin(np.array([r]), rope.inv_freq), h)
        abel_bound, max_bound = (float(bound.high[0]) for bound in bounds)
        # |S_j| is at most j, and a difference at most the sum of its two sizes, of which the
        # largest may meet every |S_j|: a pair's rounding counts up to 2 pairs^2 times.
        unit = rounding_of_sum(rope, r)
        slack = unit * weight(rope, q, k)
        for name, expected, tolerance in (
            ("relative_upper_bound", reference.relative_upper_bound(turn)[0], unit * pairs),
            ("score", reference.score(turn, h).high[0] + rest, slack),
            ("abel_bound", abel_bound + abs(rest), slack * 2 * pairs),
            ("max_bound", max_bound + abs(rest), slack * 2 * pairs**2),
        ):
            got = getattr(curve, name)[index]
            assert_within(f"{name} at {r}", got=got, expected=float(expected), tolerance=tolerance)


def test_a_value_does_not_depend_on_how_many_follow() -> None:
    short, long = (decay(ROPE, max_distance=last).relative_upper_bound for last in (299, 999))
    assert_same_bits("bound", got=long[:300], expected=short)


def test_values_do_not_depend_on_the_slices_in_which_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k = np.random.default_rng(3).standard_normal((2, ROPE.head_dim))
    whole = decay(ROPE, start=0.5, max_distance=2_000, step=0.75, q=q, k=k)
    monkeypatch.setattr("ropecli.analyses.decay.SLICE", 2 * BLOCK)
    sliced = decay(ROPE, start=0.5, max_distance=2_000, step=0.75, q=q, k=k)
    for name in ("relative_upper_bound", "score", "abel_bound", "max_bound"):
        assert_same_bits(name, got=getattr(sliced, name), expected=getattr(whole, name))


# The score: the dot product of the rotated vectors.

PERMUTED = [[1, 6], [0, 3], [5, 2]]
ENCODINGS = {
    "interleaved": Rotary(head_dim=8),
    "half": Rotary(head_dim=8, layout="half"),
    "one pair": Rotary(head_dim=2, base=3.0),
    "partial": Rotary(head_dim=12, rotary_dim=6, rotary_offset=4, layout="half"),
    "reversed": Rotary(head_dim=8, direction="reversed"),
    "reversed partial": Rotary(head_dim=10, rotary_dim=4, direction="reversed"),
    "attention factor": Rotary.from_inv_freq([1.0, 0.25, 0.0], head_dim=8, attention_factor=1.25),
    "fast": Rotary.from_inv_freq([3.0, -0.5], layout="half"),
    "listed pairs": Rotary(head_dim=8, rotary_dim=6, pairs_in=PERMUTED),
    "reordered": Rotary(head_dim=8, rotary_dim=6, pairs_in=PERMUTED, pairs_out=PERMUTED[::-1]),
}


def rotated_score(
    rope: Rotary, q: NDArray[np.float64], k: NDArray[np.float64], m: float, n: float
) -> float:
    """(R_m q).(R_n k) by rotating the vectors themselves."""
    turned = rotate(np.stack([q, k]), rope, np.array([m, n]))
    return float(turned[0] @ turned[1])


def tolerance_of_score(
    rope: Rotary, q: NDArray[np.float64], k: NDArray[np.float64], m: float, n: float
) -> float:
    """Errors of the score and of the rotated dot product together.

    Each vector is rotated within 7e-16 + 1.2e-16 |m theta| of its pairs' lengths; the dot product
    rounds head_dim products and additions.
    """
    fastest = float(np.abs(rope.inv_freq).max())
    rotations = 2 * 7e-16 + 1.2e-16 * (abs(m) + abs(n)) * fastest
    return (rounding_of_sum(rope, abs(m - n)) + rotations + 2 * rope.head_dim * U) * weight(
        rope, q, k
    )


@pytest.mark.parametrize("name", ENCODINGS)
@for_each("n", [0.0, 7.0, 1000.0])
@for_each("distance", [0.0, 1.0, 2.75, 300.0, 4096.0])
def test_score_is_that_of_the_rotated_vectors(name: str, n: float, distance: float) -> None:
    rope = ENCODINGS[name]
    q, k = np.random.default_rng(1).standard_normal((2, rope.head_dim))
    m = n + distance
    curve = decay(rope, start=distance, max_distance=distance, q=q, k=k)
    assert curve.score is not None
    assert_within(
        f"score of {name} at {distance}",
        got=curve.score[0],
        expected=rotated_score(rope, q, k, m, n),
        tolerance=tolerance_of_score(rope, q, k, m, n),
    )


# The bounds over it (Eq. 37).


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8", ">f8"])
def test_vectors_of_other_dtypes_are_taken_as_float64(dtype: str) -> None:
    q = [1, 0, 0, 1, 1, 0, 1, 1]
    wanted = decay(ROPE, max_distance=5, q=q, k=q).score
    other = np.array(q).astype(DTYPES.get(dtype, dtype))
    other.flags.writeable = False
    got = decay(ROPE, max_distance=5, q=other, k=other).score
    assert got is not None
    assert wanted is not None
    assert_same_bits(f"score of {dtype}", got=got, expected=wanted)


@pytest.mark.slow
def test_a_million_distances_need_no_table() -> None:
    """A table of 10^6 distances x 64 pairs would take 512 MB; the result takes 16 MB.

    Three arrays of 8 MB may live at once: distances, their sum and its mean. 64 MB leave room for
    the allocator and for the threads' stacks.
    """
    code = """
import resource
import ropecli
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
rope = ropecli.Rotary(head_dim=128)
ropecli.decay(rope, max_distance=1000)
before = peak()
curve = ropecli.decay(rope, max_distance=1_000_000)
assert len(curve.relative_upper_bound) == 1_000_001
print(peak() - before)
"""
    done = run_python(code, NUMBA_DISABLE_JIT="0")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 24 + 64


def test_summary_is_of_the_curve_and_not_of_the_sample() -> None:
    rope = Rotary(head_dim=128, base=500_000.0)
    fine, coarse = decay(rope), decay(rope, step=16)
    assert coarse.relative_distance.tolist() == list(range(0, 513, 16))
    assert coarse.halved_at == fine.halved_at == 34
    assert coarse.lowest == fine.lowest
    assert coarse.first_rise == fine.first_rise
    assert coarse.quarters == fine.quarters
    assert decay(rope, max_distance=2e6, step=1e5).finer is None
    assert "of these 21 distances, and not of those between" in str(
        decay(rope, max_distance=2e6, step=1e5)
    )


@given(ropes(), st.integers(0, 2**32))
def test_contributions_add_up_to_the_score(rope: Rotary, seed: int) -> None:
    q, k = np.random.default_rng(seed).standard_normal((2, rope.head_dim))
    found = decay(rope, max_distance=20, start=0.5, q=q, k=k, contributions=True)
    assert found.contributions is not None
    assert found.score is not None
    rest = np.setdiff1d(np.arange(rope.head_dim), rope.pairs_in)
    total = found.contributions.sum(axis=0) + q[rest] @ k[rest]
    tolerance = 2 * rounding_of_sum(rope, 20.5) * weight(rope, q, k)
    assert_within("score", got=found.score, expected=total, tolerance=tolerance)
    alone = decay(rope, max_distance=20, contributions=True).contributions
    assert alone is not None
    assert (alone[:, 0] == rope.attention_factor**2).all()


def test_contributions_that_are_too_many() -> None:
    with pytest.raises(ArgumentError, match="at most 10,000,000 contributions, got 1,000,001"):
        decay(Rotary(head_dim=128), max_distance=1e6, contributions=True)
