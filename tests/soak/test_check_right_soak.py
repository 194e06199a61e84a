"""No false alarm of any law in 1,000 conventions: `pytest tests/soak/test_check_right_soak.py`."""

from __future__ import annotations

from conventions import Convention, conventions
from hypothesis import HealthCheck, given, seed, settings


@seed(7)
@settings(max_examples=1_000, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(convention=conventions())
def test_a_thousand_right_ones_pass(convention: Convention) -> None:
    verdict = convention.verdict(ignore=())
    assert verdict.passed, verdict.diagnosis
    assert verdict.diagnosis is None
