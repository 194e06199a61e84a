"""DeBERTa: which row a distance has in either term, as released and as printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import assert_same_bits, assert_within

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings import encoding
from ropecli.encodings.types.deberta import Deberta

X = np.random.default_rng(0).standard_normal((5, 8))


def build(**options: Any) -> Deberta:
    got = encoding("deberta", model_dim=8, heads=2, **options)
    assert isinstance(got, Deberta)
    return got


def rows_of(term: str, **options: Any) -> list[int]:
    """The table's row that a term takes for a query at 5 and keys at 0 to 10, k = 3."""
    first, none = np.array([[[1.0, 0.0]]]), np.zeros((1, 1, 2))
    c2p = term == "c2p"
    weights = {
        "query": first if c2p else none,
        "key": none if c2p else first,
        "position_query": none if c2p else first,
        "position_key": first if c2p else none,
        "positions": np.arange(6.0)[:, None],
    }
    deberta = encoding(
        "deberta", model_dim=1, heads=1, head_dim=2, clip=3, weights=weights, **options
    )
    got = deberta.scores(np.ones((1, 1)), np.ones((11, 1)), [5], range(11))[0, 0] * np.sqrt(6)
    # 1/sqrt(2), 1/sqrt(3), sqrt(6) and three products, each rounded, of at most 5.
    assert_within("rows", got=got, expected=np.rint(got), tolerance=5 * 6 * 2.0**-52)
    rows: list[int] = np.rint(got).astype(int).tolist()
    return rows


def test_rows_of_either_term() -> None:
    # m - n runs from 5 to -5: clip(m - n + 3, 0, 5), and clip(n - m + 3, 0, 5) as printed.
    released = [5, 5, 5, 5, 4, 3, 2, 1, 0, 0, 0]
    assert rows_of("c2p") == released
    assert rows_of("c2p", as_printed=True) == released
    assert rows_of("p2c") == released
    assert rows_of("p2c", as_printed=True) == [0, 0, 0, 1, 2, 3, 4, 5, 5, 5, 5]


def test_shared_projections_are_those_of_tokens() -> None:
    shared = build(shared=True)
    own = {f"position_{kind}": shared.weights[kind] for kind in ("query", "key")}
    apart = build(weights={**shared.weights, **own})
    m = np.arange(5) * 9
    got, expected = shared.scores(X, X, m, m), apart.scores(X, X, m, m)
    assert_same_bits("shared", got=got, expected=expected)


def test_without_a_table_it_is_a_product_over_sqrt_3d() -> None:
    flat = build(weights={"positions": np.zeros((32, 8))})
    nope = encoding("nope", model_dim=8, heads=2)
    expected = nope.scores(X, X, range(5), range(5)) / np.sqrt(3)
    got = flat.scores(X, X, range(5), range(5))
    # One rounding each of 1/sqrt(3), of two scales and of two products.
    assert_within("scores", got=got, expected=expected, tolerance=5 * 2.0**-53 * np.abs(expected))


@pytest.mark.parametrize("printed", [False, True])
def test_moving_all_positions_changes_no_bit(printed: bool) -> None:
    deberta, m = build(as_printed=printed), np.arange(5) * 7
    got, expected = deberta.scores(X, X, m + 37, m + 37), deberta.scores(X, X, m, m)
    assert_same_bits("scores", got=got, expected=expected)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"clip": 0}, ArgumentError, "clip must be from 1 to 1,048,576, got 0"),
        ({"shared": 1}, ArgumentTypeError, "shared must be true or false, got 1"),
        ({"as_printed": 1}, ArgumentTypeError, "as_printed must be true or false, got 1"),
        (
            {"weights": {"positions": np.zeros((33, 8))}},
            ArgumentError,
            r"positions must have shape \(32, 8\), got \(33, 8\)",
        ),
        (
            {"shared": True, "weights": {"position_key": np.zeros((2, 8, 4))}},
            ArgumentError,
            "encoding deberta has no weight 'position_key'",
        ),
    ],
)
def test_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(**options)


def test_positions_between_two_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"query_positions must be whole for this encoding, got 0\.5"
    ):
        build().scores(X[:1], X[:1], [0.5], [0])
