"""`check` on 1,500 faults in right code: `pytest tests/soak/test_fault_operators_soak.py`."""

from __future__ import annotations

from itertools import islice

import pytest
from fault_operators import FIXED, FREE, OPERATORS, Base, Operator, made_wrong, passes
from judging import refusals

EACH = 7  #: Implementations of each operator.


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: each.name)
def test_faults_are_seen(operator: Operator) -> None:
    bases = [*islice(made_wrong(operator), EACH)]
    assert bases
    assert [base.name for base in bases if passes(operator, base) is not None] == []


def test_there_are_enough() -> None:
    assert sum(len([*islice(made_wrong(each), EACH)]) for each in OPERATORS) >= 1500


@pytest.mark.parametrize("base", [*FREE, *FIXED], ids=lambda each: each.name)
def test_right_ones_without_a_fault_pass(base: Base) -> None:
    assert refusals(base.judge(base.target, ignore=())) == []
