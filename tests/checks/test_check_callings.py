"""Right implementations in random conventions, found by trial: none is refused."""

from __future__ import annotations

import pytest
from callings import Called, calls
from hypothesis import HealthCheck, given, seed, settings


@pytest.mark.slow
@seed(1)
@settings(max_examples=15, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(case=calls())
def test_right_ones_pass_however_they_are_called(case: Called) -> None:
    """1,000 of them are in the soak tier."""
    verdict = case.verdict()
    assert verdict.passed, verdict.diagnosis
    assert verdict.diagnosis is None
