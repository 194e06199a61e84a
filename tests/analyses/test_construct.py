"""Heads made of position alone: Barbero et al. 2024, arXiv:2410.06205v3."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import ropes

import ropecli
from ropecli import ArgumentError, ArgumentTypeError, Rotary, construct, rope, rotate

U = 2.0**-53
NOPE = rope("p-rope", head_dim=8, p=0)


def rotated_scores(
    rope: Rotary, q: NDArray[np.float64], k: NDArray[np.float64], distances: NDArray[Any]
) -> NDArray[np.float64]:
    """(R_m q).(R_n k) with the query at 0, by rotating the key itself."""
    keys = rotate(np.tile(k, (len(distances), 1)), rope, -distances)
    query = rotate(q[None], rope, [0])[0]
    scores: NDArray[np.float64] = keys @ query
    return scores


def attentions(scores: NDArray[np.float64], distance: int) -> NDArray[np.float64]:
    """Softmax weight of the key at a distance, at each position that has one: i = distance, ..."""
    weights = np.exp(scores - scores[distance])
    shares: NDArray[np.float64] = 1 / np.cumsum(weights)[distance:]
    return shares


# Proposition 3.1.


@pytest.mark.parametrize("distance", [0, 1, 100, 499])
def test_the_score_of_any_psi_is_largest_at_the_chosen_distance_alone(distance: int) -> None:
    """Before the query and after it: for all |m - n| <= N."""
    made = Rotary(head_dim=16)
    for seed in range(5):
        psi = np.random.default_rng(seed).standard_normal(16)
        result = construct(made, psi=psi, distances=[distance], context_length=500)
        (head,) = result.heads
        everywhere = np.arange(-500, 501)
        scores = rotated_scores(made, head.q, head.k, everywhere)
        assert everywhere[scores.argmax()] == distance
        assert head.squared_norm is not None
        assert scores.max() == pytest.approx(head.squared_norm, rel=1e-12)
        assert head.q @ psi == pytest.approx(np.linalg.norm(head.q) * np.linalg.norm(psi))


@given(
    made=ropes(largest=16),
    length=st.integers(1, 40),
    place=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
)
def test_scores_are_those_of_the_rotated_vectors(
    made: Rotary, length: int, place: float, seed: int
) -> None:
    distance = int(place * (length - 1))
    psi = np.random.default_rng(seed).standard_normal(made.head_dim)
    (head,) = construct(made, psi=psi, distances=[distance], context_length=length).heads
    scores = rotated_scores(made, head.q, head.k, np.arange(length))
    # Each vector is rotated within 7e-16 + 1.2e-16 |m theta| of its pairs' lengths, k twice, and
    # head_dim products and sums are rounded; an angle is at most 40 times the fastest.
    angle = 40 * float(np.abs(made.inv_freq).max())
    unit = 4 * 7e-16 + 3 * 1.2e-16 * angle + (2 * made.head_dim + 8) * U
    largest = max(made.attention_factor**2, 1.0) * float(head.q @ head.q)
    assert_within("score", got=head.score, expected=scores, tolerance=unit * largest)
    assert head.q @ head.q == pytest.approx(head.k @ head.k, rel=1e-12)


def test_it_need_not_decay() -> None:
    """The article's claim that the score of a pair of tokens falls with distance is refuted."""
    result = construct(Rotary(head_dim=128), distances=[3000], context_length=4096)
    score = result.heads[0].score
    assert score.argmax() == 3000
    assert score[3000] > 4 * score[0]


# Theorem 5.3 and Definition 5.1.


@pytest.mark.parametrize("distance", [0, 1, 7])
@pytest.mark.parametrize("epsilon", [0.5, 0.01, 1e-9])
def test_attention_is_at_least_what_was_asked_at_every_position(
    distance: int, epsilon: float
) -> None:
    result = construct(
        Rotary(head_dim=32), distances=[distance], context_length=300, epsilon=epsilon
    )
    (head,) = result.heads
    shares = attentions(head.score, distance)
    # A score of size c is rounded by c u, and so is a weight's logarithm.
    assert head.squared_norm is not None
    rounding = 600 * U * head.squared_norm
    assert shares.min() >= 1 - epsilon * (1 + rounding) - 4 * U
    assert shares[-1] == pytest.approx(head.attention, abs=epsilon * rounding + 4 * U)
    # The length is the least: a little less is not enough.
    short = attentions(head.score * (1 - 1e-6), distance)
    assert short[-1] < 1 - epsilon


@pytest.mark.parametrize("factor", [0.1, 3.0])
def test_an_attention_factor_is_part_of_the_score(factor: float) -> None:
    """Losses of several units fall out of reach of each other, and must still be counted."""
    made = Rotary.from_inv_freq([3.1, -0.7], attention_factor=factor)
    for head in construct(made, context_length=9).heads:
        shares = attentions(head.score, head.distance)
        assert shares[-1] == pytest.approx(0.99, rel=1e-12)
        assert head.attention == pytest.approx(0.99, rel=1e-12)


def test_little_attention_needs_no_length_and_some_a_length_in_spite_of_a_tie() -> None:
    one = construct(Rotary(head_dim=8), distances=[2], context_length=4, epsilon=0.8)
    assert one.heads[0].squared_norm == 1.0  # a quarter each is more than a fifth
    tie = Rotary.from_inv_freq([2 * math.pi / 7])
    (head,) = construct(tie, distances=[2], context_length=12, epsilon=0.6).heads
    assert head.runner_up == 9
    assert head.squared_norm is not None
    assert attentions(head.score, 2)[-1] == pytest.approx(0.4, rel=1e-9)
    assert head.attention == pytest.approx(0.4, rel=1e-9)


@pytest.mark.parametrize(
    ("dim", "length", "squared_norm", "tolerance"),
    [(128, 128, 154.2705, 5e-5), (128, 8192, 154.2705, 5e-5), (2, 128, 29_326, 0.5)],
)
def test_squared_norm_that_a_diagonal_head_needs(
    dim: int, length: int, squared_norm: float, tolerance: float
) -> None:
    """Regression values. Far positions weigh nothing; with one pair 44 is seven turns."""
    (head,) = construct(Rotary(head_dim=dim), distances=[0], context_length=length).heads
    assert head.squared_norm == pytest.approx(squared_norm, abs=tolerance)
    assert head.runner_up == (44 if dim == 2 else 1)


def test_one_pair_comes_back_after_44_positions_and_after_710() -> None:
    """1 - cos 44 = 1.567e-4 and 1 - cos 710 = 1.8e-9: 44 and 710 are next to multiples of 2 pi."""
    for length, where, margin in ((100, 44, 1.567e-4), (1000, 710, 1.8e-9)):
        (head,) = construct(Rotary(head_dim=2), distances=[0], context_length=length).heads
        assert head.runner_up == where
        assert head.margin == pytest.approx(margin, rel=0.01)


# Proposition 5.2.


def test_nope_has_no_such_head() -> None:
    for head in construct(NOPE, context_length=16).heads:
        assert head.squared_norm is None
        assert head.attention == 1 / 16
        assert head.margin == 0
        assert head.float32_ties == 15


# Theorem 6.1.


def test_low_frequencies_lose_a_match_with_length() -> None:
    made = Rotary(head_dim=128)
    kept = [construct(made, context_length=n).semantic_pairs for n in (1024, 4096, 16_384)]
    # Those with i above 64 ln(2 (N - 1) / pi) / ln(10000): 45.02, 54.66 and 64.29.
    assert kept == [18, 9, 0]
    p_rope = rope("p-rope", head_dim=128, p=0.75)
    assert construct(p_rope, context_length=10**5).semantic_pairs == 16
    assert construct(p_rope, context_length=10**5).worst_match[-1] == 1


def test_quarter_turns_published_for_gemma() -> None:
    """Section 6: g_119 is about 0.0002, and after 8000 positions about pi/2, 1.64."""
    result = construct(Rotary(head_dim=256), context_length=8001)
    frequency = result.rope.inv_freq[118]
    assert frequency == pytest.approx(2.0535e-4, abs=5e-9)
    assert round(float(frequency), 4) == 0.0002
    assert 8000 * frequency == pytest.approx(1.6428, abs=5e-5)
    assert result.quarter_turn[118] == pytest.approx(math.pi / 2 / frequency, rel=1e-15)
    assert result.worst_match[118] == pytest.approx(math.cos(1.6428), abs=5e-5)


def test_products_published_for_a_head_of_gemma() -> None:
    """Section 6: one pair against the first token, -85.5, and against another, +24.9."""
    q = [-4.1, 11.3]
    for k, score in (([11.2, -3.5], -85.47), ([-2.5, 1.3], 24.94)):
        curve = ropecli.decay(Rotary(head_dim=2), max_distance=0, q=q, k=k)
        assert curve.score is not None
        assert curve.score[0] == pytest.approx(score, abs=5e-3)


def test_frequencies_that_the_paper_rounds() -> None:
    """10000^-0.8 is 0.0006; 500000^(-40/64) is 0.00027, not about 0.0001."""
    assert Rotary(head_dim=10).inv_freq[4] == pytest.approx(6.3e-4, abs=5e-6)
    llama = Rotary(head_dim=128, base=500_000.0)
    assert llama.inv_freq[40] == pytest.approx(2.74e-4, abs=5e-7)
    # 128,000 over 10,000 is 2.04 turns of a frequency 1/base that no pair has.
    for dim, turns in ((128, 2.3525), (256, 2.1892)):
        assert 128_000 / Rotary(head_dim=dim).wavelength[-1] == pytest.approx(turns, abs=5e-5)


# Traps.


def test_low_frequencies_alone_tie_in_float32() -> None:
    """Neighbours differ by |psi|^2 g^2 / 2, which float32 does not hold; float64 does."""
    made = Rotary(head_dim=128)
    (head,) = construct(made, distances=[1000], context_length=4096, pairs=[63]).heads
    g = float(made.inv_freq[63])
    assert head.margin == pytest.approx(g**2 / 2, rel=1e-6)
    assert g**2 / 2 < 2.0**-24
    assert head.float32_ties >= 2
    assert head.score.argmax() == 1000
    assert (head.score == head.score.max()).sum() == 1
    whole = construct(made, distances=[1000], context_length=4096).heads[0]
    assert whole.float32_ties == 0


def test_a_margin_below_float64_is_still_known() -> None:
    """1 - cos(1e-12) is 5e-25, and 1.0 - 5e-25 is 1.0."""
    made = Rotary.from_inv_freq([1e-12])
    (head,) = construct(made, distances=[0], context_length=10).heads
    assert head.margin == pytest.approx(5e-25, rel=1e-12)
    assert head.squared_norm is not None
    assert head.attention == pytest.approx(0.99, rel=1e-9)


def test_a_pair_that_comes_back_exactly_cannot_tell_distances_apart() -> None:
    made = Rotary.from_inv_freq([2 * math.pi / 7])
    (near,) = construct(made, distances=[2], context_length=7).heads
    assert near.squared_norm is not None
    (far,) = construct(made, distances=[2], context_length=30).heads
    assert (far.squared_norm, far.margin, far.runner_up) == (None, 0, 9)
    assert far.attention == 1 / 4  # at 2, 9, 16 and 23


def test_pairs_that_do_not_rotate_are_left_out() -> None:
    (head,) = construct(rope("p-rope", head_dim=8, p=0.5), distances=[1]).heads
    assert head.q[:4].any()
    assert not head.q[4:].any()
    assert not head.k[4:].any()


def test_a_context_of_one() -> None:
    result = construct(Rotary(head_dim=4), context_length=1)
    (head,) = result.heads
    assert (head.distance, head.squared_norm, head.attention) == (0, 1.0, 1.0)
    assert (head.margin, head.runner_up, head.float32_ties) == (None, None, 0)
    assert "diagonal" in str(result)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"distances": [4096]}, "distance must be from 0 to 4,095, got 4096"),
        ({"distances": [-1]}, "distance must be from 0 to 4,095, got -1"),
        ({"distances": [1.5]}, "distance must be an integer, got 1.5"),
        ({"distances": []}, "distances must not be empty"),
        ({"context_length": 0}, "context_length must be from 1 to 16,777,216, got 0"),
        ({"epsilon": 0}, "epsilon must be finite and above 0, got 0"),
        ({"epsilon": 1}, "epsilon must be below 1, got 1"),
        ({"psi": np.zeros(8)}, "psi must not be 0"),
        ({"psi": np.ones(4)}, "psi must have shape (8,), got (4,)"),
        ({"psi": ["a"] * 8}, "psi must be an array of numbers, got list"),
        ({"pairs": [4]}, "pair must be from 0 to 3, got 4"),
        ({"pairs": []}, "pairs must not be empty"),
        ({"pairs": [0], "psi": np.ones(8)}, "psi and pairs both say where the vectors lie"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)) as caught:
        construct(Rotary(head_dim=8), **arguments)
    assert message in str(caught.value)


def test_an_encoding_that_is_not_a_rotation_is_refused() -> None:
    with pytest.raises(ArgumentError, match="xPos changes lengths"):
        construct(rope("xpos", head_dim=8))
