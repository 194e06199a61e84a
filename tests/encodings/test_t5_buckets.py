"""T5's buckets, as published."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropecli import ArgumentError, ArgumentTypeError
from ropecli.encodings.types.t5 import buckets

#: The least distance of each bucket, of 32 buckets and 128 positions.
BOTH_WAYS = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]
CAUSAL = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]


@pytest.mark.parametrize(("bidirectional", "first"), [(True, BOTH_WAYS), (False, CAUSAL)])
def test_published_table(bidirectional: bool, first: list[int]) -> None:
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
def test_the_logarithm_s_floor_in_fractions(
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


def test_whole_powers_fall_where_the_formula_says() -> None:
    # e = 5 of 10 buckets and D = 5 * 3^5: bucket 5 + k begins at 5 * 3^k, on which a rounded
    # logarithm may fall short.
    first = [5 * 3**k for k in range(5)]
    options = {"num_buckets": 10, "max_distance": 5 * 3**5, "bidirectional": False}
    for k, distance in enumerate(first):
        pair = -np.array([distance - 1, distance])
        assert buckets(pair, **options).tolist() == [4 + k, 5 + k]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "furthest", "bidirectional", "message"),
    [
        (2, 128, True, "num_buckets must be an even number from 4 to 1024, got 2"),
        (33, 128, True, "num_buckets must be an even number from 4 to 1024, got 33"),
        (1, 128, False, "num_buckets must be a number from 2 to 1024, got 1"),
        (-32, 128, False, "num_buckets must be a number from 2 to 1024, got -32"),
        (2000, 10**6, True, "num_buckets must be an even number from 4 to 1024, got 2000"),
        (32, 8, True, r"max_distance must be from 9 to 2\^31, got 8"),
        (32, 16, False, r"max_distance must be from 17 to 2\^31, got 16"),
        (32, 10**60, True, r"max_distance must be from 9 to 2\^31, got an integer of 200 bits"),
    ],
)
def test_impossible_buckets_are_refused(
    count: int, furthest: int, bidirectional: bool, message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        buckets(
            np.zeros(1, dtype=np.int64),
            num_buckets=count,
            max_distance=furthest,
            bidirectional=bidirectional,
        )


def test_fractional_count_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"num_buckets must be an integer, got 32\.0"):
        buckets(np.zeros(1, dtype=np.int64), num_buckets=32.0)  # type: ignore[arg-type]
