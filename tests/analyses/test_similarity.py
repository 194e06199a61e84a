"""Inner products of sinusoidal codes, and their limit."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from helpers import assert_within
from hypothesis import given, settings
from strategies import ropes

import ropecli
from ropecli import ArgumentError, ArgumentTypeError, Rotary, similarity
from ropecli.analyses.similarity import cosine_integral
from ropecli.encodings.types.sinusoidal import sinusoids


@settings(max_examples=30)
@given(ropes(largest=12))
def test_similarity_is_the_inner_product_of_two_codes(rope: Rotary) -> None:
    result = similarity(rope, max_distance=40, positions=41)
    products = result.codes @ result.codes.T / result.codes.shape[1] * 2
    distance = np.abs(np.subtract.outer(np.arange(41), np.arange(41)))
    # Angles up to 40, of two codes and of their difference, are rounded by 2^-53 of themselves,
    # and cos, sin, products and sums by as much.
    tolerance = 2.0**-53 * (4 * 40 + 64)
    assert_within(
        "p_m.p_n", got=result.similarity[distance], expected=products, tolerance=tolerance
    )
    assert result.similarity[0] == 1


@pytest.mark.parametrize(
    ("layout", "order"), [("interleaved", "interleaved"), ("half", "concatenated")]
)
def test_codes_are_those_of_the_sinusoidal_encoding(layout: str, order: str) -> None:
    codes = similarity(Rotary(head_dim=16, layout=layout), positions=9).codes
    expected = sinusoids(np.arange(9.0), 16, order=order)
    # Frequencies of two formulas: angles below 9, each with some roundings.
    assert_within("codes", got=codes, expected=expected, tolerance=2.0**-53 * 8 * 9)


@pytest.mark.parametrize(
    ("distance", "published"),
    [(0, 1.0), (1, 0.973963), (10, 0.682394), (100, 0.436773), (1000, 0.187691), (4096, 0.038746)],
)
def test_limit_for_base_10000(distance: int, published: float) -> None:
    """Su, kexue.fm 8231 and 10122."""
    limit = similarity(Rotary(head_dim=2), max_distance=4096).limit
    assert limit is not None
    assert limit[distance] == pytest.approx(published, abs=5e-7)


def test_first_zero_of_ci() -> None:
    """0.6165..., kexue.fm 10122: a base suffices for about 0.6165 times itself."""
    assert np.abs(cosine_integral(np.array([0.6165054856]))) < 1e-9
    assert (cosine_integral(np.array([0.6165, 0.6166])) * [-1, 1] > 0).all()
    limit = similarity(Rotary(head_dim=2), max_distance=7000).limit
    assert limit is not None
    assert 6160 < int((limit < 0).argmax()) < 6170


def test_cosine_integral_is_that_of_mpmath() -> None:
    x = np.concatenate([np.geomspace(1e-12, 1e9, 60), [0.5, 1.999999, 2.0, 2.000001]])
    expected = [float(mpmath.ci(each)) for each in x]
    # ln x is rounded, as is exp(-ix) / x for an x that is rounded by 2^-53 of itself.
    tolerance = 2.0**-53 * (8 * np.abs(np.log(x)).max() + 64)
    assert_within("Ci", got=cosine_integral(x), expected=expected, tolerance=tolerance)


def test_sums_approach_the_limit_as_the_dim_grows() -> None:
    gaps = []
    for dim in (128, 1024, 8192):
        gap = similarity(Rotary(head_dim=dim), max_distance=64).largest_gap
        assert gap is not None
        gaps.append(gap[0])
    # A sum at the left ends of d/2 intervals is off by about half of an interval's 2/d.
    assert gaps[0] > 7 * gaps[1] > 49 * gaps[2]
    assert gaps[2] < 2 / 8192


@pytest.mark.parametrize(
    "rope",
    [
        ropecli.rope("linear", head_dim=8, factor=2.0),
        Rotary.from_inv_freq([1.0, 0.1]),
        Rotary(head_dim=8, base=1.0),
    ],
)
def test_other_frequencies_have_no_limit(rope: Rotary) -> None:
    result = similarity(rope, max_distance=3)
    assert result.limit is None
    assert result.largest_gap is None


def test_what_the_summary_names() -> None:
    result = similarity(Rotary(head_dim=128), max_distance=4096)
    assert result.first_negative == 1707  # Men et al. 2024: base 10000 holds up to 1,706
    assert result.lowest == (result.similarity.min(), 4060)
    assert similarity(Rotary(head_dim=128), max_distance=100).first_negative is None


def test_long_ranges_are_the_short_ones_in_front() -> None:
    long = similarity(Rotary(head_dim=8), max_distance=40_000)
    short = similarity(Rotary(head_dim=8), max_distance=700)
    assert long.similarity[:701].tobytes() == short.similarity.tobytes()
    assert long.limit is not None
    assert short.limit is not None
    # Ci of a block stops at the same size of a term, up to 2^-51.
    assert_within("limit", got=long.limit[:701], expected=short.limit, tolerance=2.0**-50)
    expected = np.cos(40_000 * Rotary(head_dim=8).inv_freq).mean()
    assert math.isclose(long.similarity[-1], expected, abs_tol=40_000 * 2.0**-51)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"max_distance": -1}, ArgumentError, "max distance must be from 0 to"),
        ({"max_distance": 0.5}, ArgumentTypeError, "max distance must be an integer"),
        ({"positions": 0}, ArgumentError, "positions must be from 1 to"),
        ({"positions": 5000}, ArgumentError, "positions must be from 1 to 2\\^12|4,096"),
    ],
)
def test_unusable_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        similarity(Rotary(head_dim=4), **arguments)
