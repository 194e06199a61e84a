"""A learned table: its rows are added, and it ends."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same_bits

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding
from ropecli.encodings.types.learned import Learned

X = np.random.default_rng(0).standard_normal((3, 8))


def build() -> Learned:
    got = encoding("learned", model_dim=8, heads=2, length=5)
    assert isinstance(got, Learned)
    return got


def test_code_is_the_table() -> None:
    learned = build()
    table = learned.weights["positions"]
    assert_same_bits("code", got=learned.code([4, 0, 4]), expected=table[[4, 0, 4]])


def test_a_table_of_zeros_is_no_encoding() -> None:
    weights = {"positions": np.zeros((512, 8))}
    zero = encoding("learned", model_dim=8, heads=2, weights=weights)
    nope = encoding("nope", model_dim=8, heads=2)
    args = (X, X, [0, 9, 511], [5, 5, 5])
    assert_same_bits("scores", got=zero.scores(*args), expected=nope.scores(*args))


@pytest.mark.parametrize(
    ("m", "n", "message"),
    [
        ([0, 1, 5], [0, 1, 2], "query_positions must be from 0 to 4, the table's last, got 5"),
        ([0, 1, 2], [-1, 1, 2], "key_positions must be from 0 to 4, the table's last, got -1"),
        ([0, 1.5, 2], [0, 1, 2], "query_positions must be whole for this encoding, got 1.5"),
    ],
)
def test_positions_refused(m: list[float], n: list[float], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        build().scores(X, X, m, n)


def test_code_beyond_the_table_is_refused() -> None:
    with pytest.raises(ArgumentError, match="positions must be from 0 to 4, the table's last"):
        build().code([5])


@pytest.mark.parametrize(
    ("length", "error", "message"),
    [
        (0, ArgumentError, "length must be from 1 to 1,048,576, got 0"),
        (2**20 + 1, ArgumentError, "length must be from 1 to 1,048,576, got 1048577"),
        (5.0, ArgumentTypeError, "length must be an integer, got 5.0"),
    ],
)
def test_length_refused(length: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encoding("learned", length=length)


def test_table_of_another_length_is_refused() -> None:
    weights = {"positions": np.zeros((511, 64))}
    with pytest.raises(ArgumentError, match=r"positions must have shape \(512, 64\), got \(511"):
        encoding("learned", weights=weights)
