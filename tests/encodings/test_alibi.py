"""ALiBi's published slopes, and what its bias does."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_within

from ropecli.encodings import encoding
from ropecli.encodings.types.alibi import slopes
from ropecli.errors import ArgumentError, ArgumentTypeError

EIGHT = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
ROOT = 2**-0.5


@pytest.mark.parametrize(
    ("heads", "published"),
    [
        (1, [1 / 256]),
        (8, EIGHT),
        (16, sorted([s * ROOT * 2 for s in EIGHT] + EIGHT, reverse=True)),
        (12, [*EIGHT, ROOT, ROOT / 2, ROOT / 4, ROOT / 8]),
    ],
)
def test_the_slopes_are_the_published_ones(heads: int, published: list[float]) -> None:
    # Powers of two are exact; 2^-(h+1/2) is one rounding of exp2, and one of 2^-0.5 here.
    assert_within("slope", got=slopes(heads), expected=published, tolerance=2.0**-52)
    whole = np.isin(published, EIGHT)
    assert slopes(heads)[whole].tolist() == np.array(published)[whole].tolist()


def test_the_slopes_of_twelve_heads_as_printed() -> None:
    printed = [f"{slope:.6f}" for slope in slopes(12)[8:]]
    assert printed == ["0.707107", "0.353553", "0.176777", "0.088388"]


def test_a_head_of_one_vector_sees_the_bias_alone() -> None:
    silent = np.zeros((4, 16))
    positions = np.arange(4)
    made = encoding("alibi", model_dim=16, heads=8)
    expected = -np.subtract.outer(positions, positions) / 2
    assert made.scores(silent, silent, positions, positions)[0].tolist() == expected.tolist()
    both = encoding("alibi", model_dim=16, heads=8, absolute=True)
    expected = -np.abs(expected)
    assert both.scores(silent, silent, positions, positions)[0].tolist() == expected.tolist()


def test_the_bias_is_not_scaled() -> None:
    for model_dim in (2, 32):
        silent = np.zeros((1, model_dim))
        made = encoding("alibi", model_dim=model_dim, heads=1)
        assert made.scores(silent, silent, [256], [0]).item() == -1.0


def test_refuses() -> None:
    with pytest.raises(ArgumentTypeError, match="absolute must be true or false, got 'yes'"):
        encoding("alibi", absolute="yes")
    with pytest.raises(ArgumentError, match="has no weight 'slopes'"):
        encoding("alibi", weights={"slopes": np.ones(4)})
