"""Factors on attention and score, and growth, against 40 digits."""

from __future__ import annotations

from typing import Any

import pytest
from helpers import assert_within
from hypothesis import given
from hypothesis import strategies as st

from ropecli import rope
from ropecli.reference.factors import factors
from ropecli.rotary.types import ROPE_TYPES
from ropecli.units import DOUBLE

DIM = 16
#: In units of 2^-53 of a factor A. A term 0.1 k ln s below A: 0.1 is off by 1, k of TeleChat3 by 1,
#: the logarithm by 2, two products by 1 each. s may be a quotient, off by 1, so ln s by 1 times
#: 0.1 k, at most 1 for k up to 10. With its sum, m(s, k) is off by 8; a quotient of two by 17, a
#: square by 18. The square root of 1 + ln s / ln L0 has fewer, for s and both logarithms.
ROUNDINGS = 18
LENGTHS = {"original_max_position_embeddings": 4096}
LISTS = LENGTHS | {"short_factor": [1.0] * (DIM // 2), "long_factor": [2.0] * (DIM // 2)}
CONTEXT = {"max_position_embeddings": 131_072}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("yarn", LENGTHS | {"factor": 40.0}),
    ("yarn", LENGTHS | CONTEXT),
    ("yarn", LENGTHS | {"factor": 1.0}),
    ("yarn", LENGTHS | {"factor": 0.5}),
    ("yarn", LENGTHS | {"factor": 0.5, "mscale": 2.0, "mscale_all_dim": 1.0}),
    ("yarn", LENGTHS | {"factor": 40.0, "mscale": 0.707}),
    ("yarn", LENGTHS | {"factor": 40.0, "mscale_all_dim": 0.707}),
    ("yarn", LENGTHS | {"factor": 40.0, "mscale": 0.0, "mscale_all_dim": 1.0}),
    ("yarn", LENGTHS | {"factor": 40.0, "mscale": 1.0, "mscale_all_dim": 0.707}),
    ("yarn", LENGTHS | {"factor": 40.0, "attention_factor": 1.5}),
    ("yarn", LENGTHS | {"factor": 40.0, "attention_factor": 0.7, "mscale": 1.0}),
    ("yarn", LENGTHS | {"factor": 40.0, "ramp": "paper"}),
    ("deepseek_yarn", LENGTHS | {"factor": 40.0}),
    ("deepseek_yarn", LENGTHS | {"factor": 40.0, "mscale": 0.707, "mscale_all_dim": 0.707}),
    ("deepseek_yarn", LENGTHS | {"factor": 40.0, "mscale": 0.5, "mscale_all_dim": 1.0}),
    ("deepseek_yarn", LENGTHS | {"factor": 0.5, "mscale_all_dim": 1.0}),
    ("telechat3_yarn", LENGTHS | {"factor": 16.0}),
    ("longrope", LISTS | CONTEXT),
    ("longrope", LISTS | CONTEXT | {"factor": 3.3}),
    ("longrope", LISTS | {"max_position_embeddings": 4096}),
    ("longrope", LISTS | {"factor": 0.5}),
    ("longrope", LISTS | CONTEXT | {"attention_factor": 1.19}),
    ("longrope", LISTS | CONTEXT | {"original_max_position_embeddings": 2}),
]


def assert_factors(rope_type: str, parameters: dict[str, Any]) -> None:
    made = rope(rope_type, head_dim=DIM, **parameters)
    exact = factors(rope_type, dim=DIM, **parameters)
    for name, got, expected in (
        ("attention factor", made.attention_factor, exact.attention),
        ("softmax factor", made.softmax_factor, exact.softmax),
    ):
        # The difference is taken in 40 digits: a rounded expectation would have an error too.
        error = abs(float(got - expected))
        tolerance = ROUNDINGS * DOUBLE * float(expected)
        assert_within(name, got=error, expected=0.0, tolerance=tolerance)


@pytest.mark.parametrize(("rope_type", "parameters"), CASES, ids=str)
def test_factors_match_the_reference(rope_type: str, parameters: dict[str, Any]) -> None:
    assert_factors(rope_type, parameters)


K = st.none() | st.just(0.0) | st.floats(0.01, 10.0)


@given(factor=st.floats(0.01, 1e6), mscale=K, mscale_all_dim=K)
def test_yarn_s_factors_anywhere(
    factor: float, mscale: float | None, mscale_all_dim: float | None
) -> None:
    own = {"factor": factor, "mscale": mscale, "mscale_all_dim": mscale_all_dim}
    assert_factors("yarn", LENGTHS | own)
    given_alone = {name: value for name, value in own.items() if value is not None}
    assert_factors("deepseek_yarn", LENGTHS | given_alone)


@given(original=st.integers(2, 2**40), longest=st.integers(1, 2**50))
def test_longrope_s_factor_anywhere(original: int, longest: int) -> None:
    lengths = {"original_max_position_embeddings": original, "max_position_embeddings": longest}
    assert_factors("longrope", LISTS | lengths)


def test_a_type_without_a_formula_of_its_own_has_no_factor() -> None:
    of_their_own = {name for name, _ in CASES} | {"xpos"}
    for name in set(ROPE_TYPES) - of_their_own:
        exact = factors(name)
        assert (exact.attention, exact.softmax, exact.growth) == (1, 1, None)


@pytest.mark.parametrize("own", [{}, {"gamma": 0.7, "scale_base": 100.0}], ids=str)
def test_growth_matches_the_reference(own: dict[str, Any]) -> None:
    made = rope("xpos", head_dim=DIM, **own)
    exact = factors("xpos", dim=DIM, **own).growth
    assert exact is not None
    # Near 1 the logarithm magnifies its argument's four roundings; it is off by 2, the quotient 1.
    per = own.get("scale_base", 512.0)
    error = [abs(float(a - b)) for a, b in zip(made.growth, exact, strict=True)]
    tolerance = [DOUBLE * (4 / per + 3 * abs(float(b))) for b in exact]
    assert_within("growth", got=error, expected=[0.0] * len(exact), tolerance=tolerance)
