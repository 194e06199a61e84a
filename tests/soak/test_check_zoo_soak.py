"""`check` on every implementation that is kept: `pytest tests/soak/test_check_zoo_soak.py`."""

from __future__ import annotations

import pytest
from implementations.case import Right, Wrong
from implementations.registry import RIGHT, WRONG
from judging import assert_caught, assert_passed


@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.name)
def test_right_ones_pass(case: Right) -> None:
    assert_passed(case, ignore=())


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.name)
def test_wrong_ones_are_caught_and_named(case: Wrong) -> None:
    assert_caught(case)
