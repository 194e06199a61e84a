"""No false alarm of any law in 1,000 conventions: `pytest tests/soak/test_check_right_soak.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conventions import ORIGINAL, Convention, by_length, conventions
from hypothesis import HealthCheck, given, seed, settings

import ropecli


@seed(7)
@settings(max_examples=1_000, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(convention=conventions())
def test_a_thousand_right_ones_pass(convention: Convention) -> None:
    verdict = convention.verdict(ignore=())
    assert verdict.passed, verdict.diagnosis
    assert verdict.diagnosis is None


@pytest.mark.parametrize(
    ("head_dim", "base", "factor", "where", "table", "told"),
    [
        (36, 7358564.8902688855, 8.0, {"layout": "half", "direction": "reversed"}, np.float64,
         {"dtypes": ("float16",), "context": None, "seed": 177}),
        (12, 46350435.27946196, 38.70612946594475, {}, np.float32,
         {"dtypes": ("float16", "float32"), "context": 8192, "seed": 188}),
        (12, 100.0, 38.70612946594475, {}, np.float32,
         {"dtypes": ("float16", "float32"), "context": 8192, "seed": 188}),
        (8, 1e6, 2.0, {"direction": "reversed"}, np.float32,
         {"dtypes": ("float32",), "context": 131_072, "seed": 49}),
    ],
)  # fmt: skip
def test_the_table_of_each_length_is_measured_well_enough(
    head_dim: int,
    base: float,
    factor: float,
    where: dict[str, Any],
    table: Any,
    told: dict[str, Any],
) -> None:
    """Few rows show it: of the slowest pairs too little, of the others more than one formula."""
    given: dict[str, Any] = {"factor": factor, "max_position_embeddings": ORIGINAL}
    rope = ropecli.rope("dynamic", head_dim=head_dim, rope_theta=base, **where, **given)
    at_length = by_length(rope, "dynamic", where, given)
    convention = Convention(
        rope=rope, at_length=at_length, table=table, own_dtype=True, told=False, original=None,
        **told,
    )  # fmt: skip
    verdict = convention.verdict(ignore=())
    assert verdict.passed, verdict.diagnosis
