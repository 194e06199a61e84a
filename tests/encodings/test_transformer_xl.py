"""Transformer-XL: the relative shift of its code, and u and v in the query's place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within
from numpy.typing import NDArray

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding
from ropecli.encodings.types.transformer_xl import TransformerXl

DIM, HEADS, HEAD_DIM, LENGTH = 8, 2, 4, 7
X = np.random.default_rng(0).standard_normal((LENGTH, DIM))


def build(**options: Any) -> TransformerXl:
    got = encoding("transformer_xl", model_dim=DIM, heads=HEADS, **options)
    assert isinstance(got, TransformerXl)
    return got


def shifted(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """The released code's trick: a column of zeros, read as one row more, without the first."""
    queries, keys = scores.shape
    padded = np.concatenate([np.zeros((queries, 1)), scores], axis=1)
    return padded.reshape(keys + 1, queries)[1:].reshape(queries, keys)


def test_released_codes_relative_shift() -> None:
    # It scores each query against distances LENGTH - 1 ... 0 and shifts row m left by
    # LENGTH - 1 - m, which puts the distance m - n in place of key n; only n <= m counts.
    xl = build()
    distances = xl.code(np.arange(LENGTH)[::-1])
    got = xl.scores(X, X, range(LENGTH), range(LENGTH))
    for h in range(HEADS):
        q, k = X @ xl.weights["query"][h], X @ xl.weights["key"][h]
        r = distances @ xl.weights["key_position"][h]
        ac = (q + xl.weights["u"][h]) @ k.T
        bd = shifted((q + xl.weights["v"][h]) @ r.T)
        expected = np.tril((ac + bd) / np.sqrt(HEAD_DIM))
        # Some 2 DIM + HEAD_DIM roundings of sums of at most DIM^2 terms below 20.
        allowed = (2 * DIM + HEAD_DIM) * DIM**2 * 20 * 2.0**-53
        assert_within("scores", got=np.tril(got[h]), expected=expected, tolerance=allowed)


def test_code_is_all_sines_then_all_cosines() -> None:
    assert build().code([0]).tolist() == [[0.0] * 4 + [1.0] * 4]
    theta = np.array([1, 0.1, 0.01, 0.001])
    expected = np.concatenate([np.sin(-3 * theta), np.cos(-3 * theta)])
    assert_within("code", got=build().code([-3])[0], expected=expected, tolerance=10 * 2.0**-53)


def test_moving_all_positions_changes_no_bit() -> None:
    m = np.arange(LENGTH)
    got, expected = build().scores(X, X, m + 37, m + 37), build().scores(X, X, m, m)
    assert_same_bits("scores", got=got, expected=expected)


def test_as_printed_is_the_original_with_u_and_v_projected() -> None:
    printed = build(as_printed=True)
    weights = dict(printed.weights)
    weights |= {name: printed.weights[name] @ printed.weights["query"] for name in "uv"}
    m = np.arange(LENGTH) * 5
    original = build(weights=weights)
    got, expected = printed.scores(X, X, m, m), original.scores(X, X, m, m)
    assert_same_bits("scores", got=got, expected=expected)


def test_positions_between_two_are_as_good_as_whole_ones() -> None:
    m = np.arange(LENGTH)
    got, expected = build().scores(X, X, m + 0.5, m + 0.5), build().scores(X, X, m, m)
    assert_same_bits("scores", got=got, expected=expected)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"as_printed": "yes"}, ArgumentTypeError, "as_printed must be true or false, got 'yes'"),
        (
            {"weights": {"u": np.zeros(8)}},
            ArgumentError,
            r"u must have shape \(2, 4\), got \(8,\)",
        ),
        (
            {"as_printed": True, "weights": {"v": np.zeros((2, 4))}},
            ArgumentError,
            r"v must have shape \(8,\), got \(2, 4\)",
        ),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(**options)


def test_odd_model_dim_is_refused() -> None:
    with pytest.raises(ArgumentError, match="model_dim must be even for sinusoids, got 7"):
        encoding("transformer_xl", model_dim=7, heads=1, head_dim=4)
