"""Weights of linear attention next to softmax's, one row at a time and from their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers import assert_within

from ropecli import Rotary, linear, rotate
from ropecli.analyses.importance import rank_correlation

ROPE = Rotary(head_dim=4)


@pytest.mark.parametrize("causal", [False, True])
def test_means_over_rows_are_those_of_the_definitions(causal: bool) -> None:
    q, k, v = np.random.default_rng(0).standard_normal((3, 7, 4))
    found = linear(q, k, v, ROPE, feature_map="exp")
    got = (found.causal if causal else found.bidirectional).importance
    phi_q, phi_k = np.exp(q), np.exp(k)
    top = rotate(phi_q, ROPE) @ rotate(phi_k, ROPE).T
    below, scores = phi_q @ phi_k.T, rotate(q, ROPE) @ rotate(k, ROPE).T / 2
    variation, entropies = [], []
    for m in range(7):
        last = m + 1 if causal else 7
        weights = top[m, :last] / below[m, :last].sum()
        share = np.exp(scores[m, :last]) / np.exp(scores[m, :last]).sum()
        variation.append(sum(abs(a - b) for a, b in zip(weights, share, strict=True)) / 2)
        entropies.append(-sum(p * np.log(p) for p in share))
    assert got.rows == 7
    assert_within(
        "total variation", got=got.total_variation, expected=np.mean(variation), tolerance=1e-14
    )
    assert_within("entropy", got=got.softmax_entropy, expected=np.mean(entropies), tolerance=1e-14)


def test_keys_that_are_all_alike() -> None:
    ones = np.ones((5, 4))
    found = linear(ones, ones, ones, ROPE, np.zeros(5)).bidirectional.importance
    assert found.total_variation == pytest.approx(0, abs=1e-15)
    assert found.entropy == pytest.approx(np.log(5), rel=1e-14)
    assert found.softmax_entropy == pytest.approx(np.log(5), rel=1e-14)


def test_rank_correlation_of_all_orders() -> None:
    """Without ties it is 1 - 6 sum d^2 / (n (n^2 - 1))."""
    for order in itertools.permutations(range(5)):
        squares = sum((i - rank) ** 2 for i, rank in enumerate(order))
        expected = 1 - 6 * squares / (5 * 24)
        got = rank_correlation(np.arange(5.0), np.array(order) ** 3.0)
        assert got == pytest.approx(expected, abs=1e-14)


def test_rank_correlation_with_ties() -> None:
    # Ranks 0.5, 0.5, 2 and 0, 1, 2: their Pearson correlation is sqrt(3) / 2.
    got = rank_correlation(np.array([1.0, 1.0, 5.0]), np.array([1.0, 2.0, 3.0]))
    assert got == pytest.approx(np.sqrt(3) / 2, rel=1e-14)
    assert np.isnan(rank_correlation(np.ones(3), np.arange(3.0)))


def test_no_row_with_an_output() -> None:
    zeros = np.full((3, 4), -1.0)
    found = linear(zeros, zeros, zeros, ROPE, feature_map="relu").causal.importance
    assert found.rows == 0
    assert np.isnan([found.total_variation, found.rank_correlation, found.entropy]).all()
