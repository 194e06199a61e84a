"""Linear attention: three forms that agree, and the numbers that are known."""

from __future__ import annotations

import os
import tracemalloc
from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within, run_python
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli.analyses.linear import linear
from ropecli.errors import ArgumentError, ArgumentTypeError
from ropecli.kernels.linear import BLOCK
from ropecli.reference import linear as reference
from ropecli.rotary import Rotary

pytestmark = pytest.mark.slow

#: Without the compiler, where only lines are counted, what is long or large is made short.
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "0"
LONG = 65_536 if COMPILED else 128
PUBLISHED = [(512, 64, 0.010), (2048, 64, 0.087), (2048, 128, 0.031)][: 3 if COMPILED else 1]

Arrays = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def random_heads(seed: int, tokens: int, dim: int, values: int | None = None) -> Arrays:
    random = np.random.default_rng(seed)
    q, k, v = (random.standard_normal((tokens, n)) for n in (dim, dim, values or dim))
    return q, k, v


@given(tokens=st.integers(1, 12), half=st.integers(1, 4), seed=st.integers(0, 2**32))
def test_both_forms_match_the_reference(tokens: int, half: int, seed: int) -> None:
    q, k, v = random_heads(seed, tokens, 2 * half, 3)
    rope = Rotary(head_dim=2 * half)
    got = linear(q, k, v, rope)
    phi = reference.elu_plus_one(q), reference.elu_plus_one(k)
    for causal, form in ((False, got.bidirectional), (True, got.causal)):
        expected = reference.attention(*phi, v, rope.inv_freq, causal=causal)
        # phi > 0: weights are at most 1 in size and their roundings a few times 2^-53 of it, for
        # each of the features, the tokens, and an angle of at most 12 radians.
        allowed = 4 * (2 * half + tokens + 12) * 2.0**-53 * tokens * np.abs(v).max()
        assert_within("output", got=form.output, expected=expected, tolerance=allowed)


@pytest.mark.parametrize(
    ("feature_map", "tokens"),
    [
        ("elu", BLOCK),
        ("softmax", BLOCK - 1),
        ("relu", 2 * BLOCK + 1),  # all maps with all sizes: the soak tier
    ],
)
def test_the_forms_agree_across_blocks(feature_map: str, tokens: int) -> None:
    q, k, v = random_heads(0, tokens, 16)
    got = linear(q, k, v, Rotary(head_dim=16), feature_map=feature_map, rows=10_000)
    assert len(got.sampled_rows) == tokens
    # Weights of size 1 at most, (features + tokens) roundings in both forms: 3e-13.
    assert 0 < got.bidirectional.error < 1e-12
    assert 0 < got.causal.error < 1e-12
    assert_within(
        "last row",
        got=got.causal.output[-1],
        expected=got.bidirectional.output[-1],
        tolerance=1e-12,
    )


@pytest.mark.parametrize(("tokens", "dim", "published"), PUBLISHED)
def test_share_of_negative_terms(tokens: int, dim: int, published: float) -> None:
    shares = [
        linear(
            *random_heads(seed, tokens, dim), Rotary(head_dim=dim), rows=128
        ).bidirectional.negative_fraction
        for seed in range(2)
    ]
    # Means of two drawings of normal vectors; single ones differ by a tenth or two of their value.
    assert abs(np.mean(shares) - published) < 0.2 * published


def test_rows_do_not_sum_to_1_and_the_first_causal_one_does() -> None:
    got = linear(*random_heads(1, 512, 64), Rotary(head_dim=64))
    assert got.causal.row_sum.min < 0.4
    assert got.bidirectional.row_sum.max < 0.8
    one = linear(*random_heads(1, 1, 64), Rotary(head_dim=64))
    # One weight over itself: 64 products and a rotation, in two orders.
    assert abs(one.causal.row_sum.mean - 1) < 128 * 2.0**-53


def test_without_rotation_it_is_an_average() -> None:
    still = Rotary.from_inv_freq(np.zeros(8))
    got = linear(*random_heads(2, 300, 16), still)
    for form in (got.bidirectional, got.causal):
        assert form.negative_fraction == 0
        # The same sum over the same sum: 300 tokens and 16 features in the same order.
        assert abs(form.row_sum.min - 1) < 316 * 2.0**-53
        assert abs(form.row_sum.max - 1) < 316 * 2.0**-53
        assert abs(form.denominator_min / form.rotated_denominator_min - 1) < 316 * 2.0**-53


def test_a_rotated_denominator_can_be_negative() -> None:
    # Features that point one way, turned by half a circle: every term becomes its opposite.
    rope = Rotary.from_inv_freq(np.array([np.pi]))
    q = k = np.ones((2, 2))
    got = linear(q, k, np.ones((2, 1)), rope, [0, 1], feature_map="relu")
    assert got.causal.denominator_min == 2
    assert got.bidirectional.denominator_min == 4
    assert (
        abs(got.bidirectional.rotated_denominator_min) < 1e-15
    )  # 2 - 2, and sin(pi) = 1.2e-16 of each
    turned = linear(q, k, np.ones((2, 1)), rope, [0, 1], feature_map=lambda x: x * [[1], [2]])
    assert abs(turned.bidirectional.rotated_denominator_min + 2) < 1e-14  # 2 (1 - 2)
    assert turned.bidirectional.negative_fraction == 0.5


def test_a_shift_changes_nothing() -> None:
    q, k, v = random_heads(3, 200, 16)
    rope = Rotary(head_dim=16)
    here, there = (linear(q, k, v, rope, np.arange(200) + shift) for shift in (0, 1000))
    # Angles up to 1200 radians are off by 2^-53 of themselves, in two rotations and two runs.
    allowed = 4 * 1200 * 2.0**-53 * 16 * np.abs(v).max()
    assert_within("output", got=there.causal.output, expected=here.causal.output, tolerance=allowed)


def test_rows_without_a_denominator_are_counted_and_left_out() -> None:
    q = np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, 2.0]])
    got = linear(q, abs(q), np.ones((3, 1)), Rotary(head_dim=2), feature_map="relu")
    assert got.bidirectional.undefined_rows == got.causal.undefined_rows == 1
    assert got.bidirectional.denominator_min == 0
    assert np.isnan(got.bidirectional.output).ravel().tolist() == [True, False, False]
    assert np.isfinite([got.bidirectional.error, got.bidirectional.row_sum.min]).all()
    nothing = linear(-abs(q), q, q, Rotary(head_dim=2), feature_map="relu")
    assert nothing.bidirectional.undefined_rows == 3
    assert np.isnan(nothing.bidirectional.row_sum.mean)


def test_small_features_divide_as_large_ones_do() -> None:
    """Denominators far below 1: a power of 2 in the features cancels to the bit."""
    q, k, v = random_heads(6, 12, 8)
    rope = Rotary(head_dim=8)
    large = linear(q, k, v, rope, feature_map=reference.elu_plus_one)
    small = linear(q, k, v, rope, feature_map=lambda x: reference.elu_plus_one(x) * 2.0**-16)
    for form in ("bidirectional", "causal"):
        got, expected = getattr(small, form), getattr(large, form)
        assert_same_bits(form, got=got.output, expected=expected.output)
        assert got.denominator_min == expected.denominator_min * 2.0**-32


def test_shen_s_softmax_is_not_exp() -> None:
    q, k, v = random_heads(4, 16, 8)
    rope = Rotary.from_inv_freq(np.zeros(4))
    ours = linear(q, k, v, rope, feature_map="softmax").bidirectional
    other = linear(q, k, v, rope, feature_map="exp").bidirectional
    assert np.abs(ours.output - other.output).max() > 0.01
    # Queries' features sum to 1, and so do a key feature's positions: the denominator is 1.
    assert abs(ours.denominator_min - 1) < 32 * 2.0**-53


def test_long_sequences_take_memory_in_proportion() -> None:
    q, k, v = (x.astype(np.float32) for x in random_heads(5, LONG, 64))
    tracemalloc.start()
    got = linear(q, k, v, Rotary(head_dim=64), rows=16)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(got.sampled_rows) == 16
    assert got.bidirectional.error < 1e-12
    assert got.causal.error < 1e-12
    # Some twenty arrays of N x 64 float64, and no N x N, which would be 34 GB.
    assert peak < 24 * max(LONG, 8192) * 64 * 8


def test_threads_change_no_bit() -> None:
    code = """
import sys, numpy as np
from ropecli.analyses.linear import linear
from ropecli.rotary import Rotary
q, k, v = np.random.default_rng(6).standard_normal((3, 2000, 8))
got = linear(q, k, v, Rotary(head_dim=8))
sys.stdout.write(got.bidirectional.output.tobytes().hex() + got.causal.output.tobytes().hex())
"""
    one, two = (run_python(code, NUMBA_NUM_THREADS=str(n), NUMBA_DISABLE_JIT="0") for n in (1, 2))
    assert one.returncode == two.returncode == 0, one.stderr + two.stderr
    bits = [np.frombuffer(bytes.fromhex(done.stdout), np.float64) for done in (one, two)]
    assert len(bits[0]) == 2 * 2000 * 8
    assert_same_bits("output", got=bits[0], expected=bits[1])


@pytest.mark.parametrize(
    ("change", "kind", "problem"),
    [
        ({"rope": None}, ArgumentTypeError, "rope must be a Rotary, got NoneType"),
        ({"q": np.ones((3, 6))}, ArgumentError, r"q must have shape \(tokens, 4\), got \(3, 6\)"),
        ({"k": np.ones((2, 4))}, ArgumentError, r"k must have q's shape, \(3, 4\), got \(2, 4\)"),
        ({"v": np.ones((2, 4))}, ArgumentError, r"v must have shape \(3, values\), got \(2, 4\)"),
        (
            {"v": np.ones(3)},
            ArgumentError,
            r"v must have two axes, neither empty, got shape \(3,\)",
        ),
        ({"k": np.full((3, 4), np.inf)}, ArgumentError, "k must be finite"),
        ({"q": np.ones((3, 4), int)}, ArgumentTypeError, "q must be floats, got int64"),
        ({"rows": 0}, ArgumentError, "rows must be from 1"),
        ({"positions": [0, 1]}, ArgumentError, "positions must have shape"),
        (
            {"feature_map": "cos"},
            ArgumentError,
            "feature map must be one of elu, exp, softmax, relu, got 'cos'",
        ),
        (
            {"feature_map": 3},
            ArgumentTypeError,
            "feature map must be a name or a function, got int",
        ),
        (
            {"feature_map": lambda x: x[:, :2]},
            ArgumentError,
            r"feature map must keep the shape \(3, 4\), got \(3, 2\) for the queries",
        ),
        ({"feature_map": lambda x: x * np.nan}, ArgumentError, "must return finite numbers"),
        ({"feature_map": lambda x: x > 0}, ArgumentTypeError, "must return floats, got bool"),
        (
            {"feature_map": "exp", "q": np.full((3, 4), 1e4)},
            ArgumentError,
            "must return finite numbers, got others for the queries",
        ),
    ],
)
def test_refuses(change: dict[str, Any], kind: type[Exception], problem: str) -> None:
    x = np.ones((3, 4))
    arguments: dict[str, Any] = {"q": x, "k": x, "v": x, "rope": Rotary(head_dim=4)} | change
    with pytest.raises(kind, match=problem):
        linear(**arguments)
