"""Faults put into right code by operators: `check` sees each, and passes the code without.

Each operator is tried on one implementation here, a few of them in the quick tier, and on several
in the soak tier.
"""

from __future__ import annotations

import numpy as np
import pytest
from fault_operators import FIXED, FREE, OPERATORS, SMALL, Base, Operator, made_wrong, passes
from helpers import for_each
from judging import refusals

QUICK, SLOW = 3, 150

MIXED = [OPERATORS[i] for i in np.random.default_rng(0).permutation(len(OPERATORS))]


@for_each("operator", MIXED[:QUICK])
def test_a_few_faults_are_seen(operator: Operator) -> None:
    small = (base for base in made_wrong(operator) if base.options.get("head_dim") == SMALL)
    assert_seen(operator, next(small))


@pytest.mark.slow
@pytest.mark.parametrize("operator", MIXED[QUICK : QUICK + SLOW], ids=lambda each: each.name)
def test_faults_are_seen(operator: Operator) -> None:
    assert_seen(operator, next(made_wrong(operator)))


@pytest.mark.slow
@pytest.mark.parametrize("base", [*FREE[-11:], *FIXED[::13]], ids=lambda each: each.name)
def test_right_ones_without_a_fault_pass(base: Base) -> None:
    """The zoo has tests of its own."""
    assert refusals(base.judge(base.target, ignore=())) == []


def assert_seen(operator: Operator, base: Base) -> None:
    """Assert that `check` fails an implementation with a fault."""
    verdict = passes(operator, base)
    assert verdict is None, f"{base.name} passes, called {verdict.convention.options()}"
