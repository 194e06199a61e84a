"""`check` on every mutant of a shape: `pytest tests/soak/test_shape_mutants_soak.py`."""

from __future__ import annotations

import pytest
from invented_mutants import MUTANTS, TWINS
from shape_mutants import Mutant, assert_named, assert_twin_passes


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])


@pytest.mark.parametrize("twin", TWINS.values(), ids=lambda mutant: mutant.name)
def test_twin_passes(twin: Mutant) -> None:
    assert_twin_passes(twin)
