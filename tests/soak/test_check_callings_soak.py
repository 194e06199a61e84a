"""No false alarm of any law in 1,000 calls: `pytest tests/soak/test_check_callings_soak.py`."""

from __future__ import annotations

from callings import Called, calls
from hypothesis import HealthCheck, given, seed, settings


@seed(7)
@settings(max_examples=1_000, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=calls())
def test_a_thousand_right_ones_pass_however_they_are_called(case: Called) -> None:
    verdict = case.verdict(ignore=())
    assert verdict.passed, verdict.diagnosis
    assert verdict.diagnosis is None
