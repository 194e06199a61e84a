"""`check` on every mutant of a shape: `pytest tests/soak/test_shape_mutants_soak.py`."""

from __future__ import annotations

import pytest
from invented_mutants import MUTANTS
from shape_mutants import assert_named


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])
