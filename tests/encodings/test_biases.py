"""Encodings that add a bias: ALiBi, KERPLE, FIRE and T5."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ropecli.encodings import Encoding, encoding
from ropecli.encodings.types.alibi import slopes
from ropecli.encodings.types.t5 import buckets

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
def test_alibi_s_slopes_are_the_published_ones(heads: int, published: list[float]) -> None:
    # Powers of two are exact; 2^-(h+1/2) is one rounding of exp2, and one of 2^-0.5 here.
    assert_within("slope", got=slopes(heads), expected=published, tolerance=2.0**-52)
    whole = np.isin(published, EIGHT)
    assert slopes(heads)[whole].tolist() == np.array(published)[whole].tolist()


def test_alibi_s_slopes_of_twelve_heads_as_printed() -> None:
    printed = [f"{slope:.6f}" for slope in slopes(12)[8:]]
    assert printed == ["0.707107", "0.353553", "0.176777", "0.088388"]


def kerple_bias(kind: str, r1: float, r2: float, distances: list[float]) -> NDArray[np.float64]:
    weights = {"r1": np.array([r1]), "r2": np.array([r2])}
    made = encoding("kerple", model_dim=4, heads=1, kind=kind, weights=weights)
    silent = np.zeros((len(distances), 4))
    bias: NDArray[np.float64] = made.scores(silent[:1], silent, [0], distances)[0, 0]
    return bias


@pytest.mark.parametrize(
    ("kind", "r1", "r2", "expected"),
    [
        ("power", 0.5, 2.0, [0, -2, -0.5, -24.5]),
        ("power", 2.0, 1.0, [0, -4, -2, -14]),
        ("log", 2.0, 0.5, [0, -2 * np.log(2), -2 * np.log(1.5), -2 * np.log(4.5)]),
        # Clamped as in the authors' code: an exponent to 2, a factor to 0.01.
        ("power", 1.0, 5.0, [0, -4, -1, -49]),
        ("power", -1.0, 1.0, [0, -0.02, -0.01, -0.07]),
        ("log", 1.0, -3.0, [0, -np.log1p(0.02), -np.log1p(0.01), -np.log1p(0.07)]),
    ],
)
def test_kerple_by_hand(kind: str, r1: float, r2: float, expected: list[float]) -> None:
    got = kerple_bias(kind, r1, r2, [0, 2, -1, 7])
    # A logarithm is within one unit of its last place, here of 4 at most, on each side.
    tolerance = 4 * 2.0**-52 if kind == "log" else 0
    assert_within("bias", got=got, expected=expected, tolerance=tolerance)


def test_kerple_s_weights_are_spread_as_training_starts() -> None:
    weights = encoding("kerple", model_dim=400, heads=100).weights
    assert (weights["r1"].min() < 0.2, weights["r1"].max() > 1.8) == (True, True)
    assert (weights["r2"].min() < 0.1, weights["r2"].max() > 0.9) == (True, True)
    assert weights["r1"].max() <= 2
    assert weights["r2"].max() <= 1


def fire_of_identity(**options: Any) -> Encoding:
    """FIRE whose network gives its input back, plus 1, so that the ratio can be seen."""
    hidden, output = np.zeros((1, 32)), np.zeros((32, 1))
    hidden[0, 7], output[7, 0] = 2.0, 0.5
    weights = {
        "hidden": hidden,
        "hidden_bias": np.zeros(32),
        "output": output,
        "output_bias": np.ones(1),
    }
    return encoding("fire", model_dim=4, heads=1, weights=weights, **options)


@pytest.mark.parametrize(
    ("m", "n", "expected"),
    [
        (3, 3, 1.0),  # distance 0
        (7, 4, 1 + np.log(4) / np.log(11)),  # query within L = 10
        (4, 7, 1 + np.log(4) / np.log(11)),  # a key after its query
        (31, 0, 2.0),  # the first key from beyond L
        (31, 16, 1 + np.log(16) / np.log(32)),
    ],
)
def test_fire_s_ratio_by_hand(m: int, n: int, expected: float) -> None:
    made = fire_of_identity(c=1.0, threshold=10.0)
    silent = np.zeros((1, 4))
    got = made.scores(silent, silent, [m], [n]).item()
    # Two logarithms and a division on each side, of values below 2.
    assert abs(got - expected) < 8 * 2.0**-52


#: The least distance of each bucket of T5, of 32 buckets and 128 positions.
BOTH_WAYS = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]
CAUSAL = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


@pytest.mark.parametrize(("bidirectional", "first"), [(True, BOTH_WAYS), (False, CAUSAL)])
def test_t5_s_published_buckets(bidirectional: bool, first: list[int]) -> None:
    for bucket, (low, high) in enumerate(pairwise([*first, 1000])):
        past = buckets(-np.arange(low, high), bidirectional=bidirectional)
        assert past.tolist() == [bucket] * (high - low), f"distances {low} to {high - 1}"
        if low:
            future = buckets(np.arange(low, high), bidirectional=bidirectional)
            expected = 16 + bucket if bidirectional else 0
            assert future.tolist() == [expected] * (high - low), f"distances {low} to {high - 1}"


@given(
    half=st.integers(2, 20),
    beyond=st.integers(1, 300),
    bidirectional=st.booleans(),
    distance=st.integers(0, 500),
)
def test_t5_s_floor_of_a_logarithm_in_fractions(
    half: int, beyond: int, bidirectional: bool, distance: int
) -> None:
    count = 2 * half if bidirectional else half
    exact = half // 2
    furthest, steps = exact + beyond + (half if bidirectional else 0), half - exact
    got = buckets(
        np.array([-distance]),
        num_buckets=count,
        max_distance=furthest,
        bidirectional=bidirectional,
    )[0]
    if distance < exact:
        assert got == distance
        return
    # floor(steps log(n/e) / log(D/e)) >= k means (n/e)^steps >= (D/e)^k.
    ratio, whole = Fraction(distance, exact) ** steps, Fraction(furthest, exact)
    assert got == exact + sum(ratio >= whole**k for k in range(1, steps))


def test_t5_s_whole_powers_fall_where_the_formula_says() -> None:
    # e = 5 of 10 buckets and D = 5 * 3^5: bucket 5 + k begins at 5 * 3^k, on which a rounded
    # logarithm may fall short.
    first = [5 * 3**k for k in range(5)]
    options = {"num_buckets": 10, "max_distance": 5 * 3**5, "bidirectional": False}
    for k, distance in enumerate(first):
        pair = -np.array([distance - 1, distance])
        assert buckets(pair, **options).tolist() == [4 + k, 5 + k]  # type: ignore[arg-type]
