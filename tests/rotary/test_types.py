"""Every rope type against its oracle: a row each."""

from __future__ import annotations

import math
from typing import Any

import pytest
from helpers import assert_within_ulps

from ropecli import ArgumentError, rope
from ropecli.reference import frequencies
from ropecli.rotary.types import ROPE_TYPES

CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    ("default", {}, frequencies.default(base=10_000.0, rotary_dim=64)),
    ("default", {"rope_theta": 5e5}, frequencies.default(base=5e5, rotary_dim=64)),
    ("default", {"rotary_dim": 32}, frequencies.default(base=10_000.0, rotary_dim=32)),
    ("linear", {"factor": 8.0}, frequencies.linear(base=10_000.0, rotary_dim=64, factor=8.0)),
    (
        "linear",
        {"factor": 3.3, "rope_theta": 1e6},
        frequencies.linear(base=1e6, rotary_dim=64, factor=3.3),
    ),
]


@pytest.mark.parametrize(("name", "parameters", "expected"), CASES)
def test_frequencies_match_the_reference(
    name: str, parameters: dict[str, Any], expected: list[Any]
) -> None:
    made = rope(name, head_dim=64, **parameters)
    # In half-ulps: the exponent's rounding times ln(base), pow 2, a division 1; and as many
    # again where the result lies just above a power of two.
    ulps = math.log(made.base or 1) + 3
    assert_within_ulps(name, got=made.inv_freq, expected=[float(f) for f in expected], ulps=ulps)
    assert made.rope_type == name


def test_every_type_has_a_row() -> None:
    assert {name for name, _, _ in CASES} == set(ROPE_TYPES)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("yern", {}, "rope type must be one of default, linear"),
        ("linear", {}, "missing a required argument: 'factor'; it takes head_dim, factor"),
        ("default", {"factor": 2.0}, "unexpected keyword argument 'factor'"),
        ("linear", {"factor": 0.0}, "factor must be finite and above 0, got 0"),
        ("linear", {"factor": math.nan}, "factor must be finite and above 0, got nan"),
    ],
)
def test_what_is_refused(name: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        rope(name, head_dim=64, **parameters)
    assert message in str(caught.value)
