"""CoPE: positions that the content makes."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers import assert_within

from ropecli.encodings import Encoding, encoding


def with_ruler(**options: Any) -> Encoding:
    """CoPE of one head whose q . e[p] is p times the query's last coordinate."""
    rows = options.get("p_max", 64)
    table = np.zeros((rows, 4))
    table[:, 3] = np.arange(rows)
    key = np.eye(4)
    key[3] = 0  # no content from the coordinate that reads the ruler
    weights = {"query": np.eye(4)[None], "key": key[None], "position": table}
    return encoding("cope", model_dim=4, heads=1, weights=weights, **options)


def test_half_open_gates_count_halves() -> None:
    made = with_ruler()
    x = np.tile([0.0, 0.0, 0.0, 1.0], (4, 1))
    got = made.scores(x, x, np.arange(4), np.arange(4))[0]
    # Gates of sigmoid(0) = 1/2: p_mn = (m - n + 1) / 2, and 0 for a key after its query.
    expected = np.maximum(np.subtract.outer(np.arange(4), np.arange(4)) + 1, 0) / 2 / 2
    assert got.tolist() == expected.tolist()


def test_open_gates_count_tokens_up_to_the_last_row_of_the_table() -> None:
    made = with_ruler(p_max=3)
    x = np.tile([10.0, 0.0, 0.0, 1.0], (6, 1))
    got = made.scores(x, x, np.arange(6), np.arange(6))[0, -1] - 100 / 2
    # sigmoid(100) is 1 in float64; p = 6, 5, 4, 3, 2, 1, clamped to 2.
    assert got.tolist() == [1, 1, 1, 1, 1, 0.5]


def test_only_the_order_of_the_positions_counts() -> None:
    random = np.random.default_rng(1)
    x, y = random.standard_normal((3, 16)), random.standard_normal((5, 16))
    made = encoding("cope", model_dim=16, heads=2)
    m, n = np.array([1, 4, 6]), np.array([5, 0, 3, 2, 5])
    start = made.scores(x, y, m, n)
    assert made.scores(x, y, m * 100 - 7, n * 100 - 7).tolist() == start.tolist()
    turned = made.scores(x, y[::-1], m, n[::-1])[..., ::-1]
    # Keys at one position may be summed in the other order: three gates below 1, and a table and
    # a query whose product is below 16.
    assert_within("score", got=turned, expected=start, tolerance=16 * 4 * 2.0**-53)
