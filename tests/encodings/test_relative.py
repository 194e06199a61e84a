"""Encodings with relative terms or tables: Shaw, Transformer-XL, TUPE and DeBERTa."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers import assert_same_bits, assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli.encodings import encoding
from ropecli.reference import scores as reference

DIM, HEADS, HEAD_DIM, LENGTH = 8, 2, 4, 7
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))
POSITIONS = np.arange(LENGTH)


def build(name: str, **options: Any) -> Any:
    return encoding(name, model_dim=DIM, heads=HEADS, **options)


@given(
    queries=st.integers(1, 6),
    keys=st.integers(1, 6),
    clip=st.integers(1, 30),
    printed=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_shaw_s_attention_matches_the_reference(
    queries: int, keys: int, clip: int, printed: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x, y = random.standard_normal((queries, 8)), random.standard_normal((keys, 8))
    m, n = random.integers(0, 40, (2, 6)).astype(np.float64)
    m, n = m[:queries], n[:keys]
    options: Any = {"clip": clip, "as_printed": printed}
    shaw = build("shaw", seed=seed, **options)
    # A score s is off by 8 + 8 + 4 roundings of its terms, at most 3 (|x| |y| + |x|) |W|^2 large,
    # its share of the attention by twice that, and an output by a share of the largest value.
    largest = max(1.0, *(float(np.abs(w).max()) for w in shaw.weights.values()))
    size = (1 + float(np.abs(x).sum(1).max())) * (8 + float(np.abs(y).sum(1).max())) * largest**2
    e = np.exp(reference.shaw(x, y, m, n, shaw.weights, **options))
    share = e / e.sum(axis=2, keepdims=True)
    assert_within(
        "attend",
        got=shaw.attend(x, y, m, n),
        expected=reference.shaw_output(share, y, m, n, shaw.weights, **options),
        tolerance=2.0**-53 * (2 * 3 * 20 * size + 100) * 8 * (8 + size),
    )


def test_shaw_without_a_query_or_a_key() -> None:
    shaw = build("shaw")
    assert shaw.attend(X[:0], X, [], POSITIONS).shape == (HEADS, 0, HEAD_DIM)
    assert (shaw.attend(X, X[:0], POSITIONS, []) == np.zeros((HEADS, LENGTH, HEAD_DIM))).all()


def test_huge_scores_of_shaw_do_not_overflow() -> None:
    assert np.isfinite(build("shaw").attend(1e6 * X, 1e6 * X, POSITIONS, POSITIONS)).all()


def test_transformer_xl_takes_positions_between_two() -> None:
    m = np.arange(LENGTH)
    got, expected = (
        build("transformer_xl").scores(X, X, m + 0.5, m + 0.5),
        build("transformer_xl").scores(X, X, m, m),
    )
    assert_same_bits("scores", got=got, expected=expected)


def test_tupe_s_cls_has_thetas_for_positions() -> None:
    tupe = build("tupe")
    place = tupe.scores(np.zeros_like(X), X, POSITIONS, POSITIONS)
    theta1, theta2 = tupe.weights["theta1"], tupe.weights["theta2"]
    assert (place[:, 0, :] == theta1[:, None]).all()
    assert (place[:, 1:, 0] == theta2[:, None]).all()
