"""`check` on every fault in every place: `pytest tests/soak/test_faults_soak.py`."""

from __future__ import annotations

from itertools import islice

import pytest
from faults import MUTANTS, TWINS, Mutant, assert_named, assert_twin_passes
from judging import refusals
from right_code import FIXED, FREE, PLANTED, Base, made_wrong, passes

EACH = 7  #: Implementations in which each fault is planted.


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])


@pytest.mark.parametrize("twin", TWINS.values(), ids=lambda mutant: mutant.name)
def test_twin_passes(twin: Mutant) -> None:
    assert_twin_passes(twin)


@pytest.mark.parametrize("mutant", PLANTED, ids=lambda each: each.name)
def test_faults_in_right_code_are_seen(mutant: Mutant) -> None:
    bases = [*islice(made_wrong(mutant), EACH)]
    assert bases
    assert [base.name for base in bases if passes(mutant, base) is not None] == []


def test_there_are_enough() -> None:
    assert sum(len([*islice(made_wrong(each), EACH)]) for each in PLANTED) >= 1500


@pytest.mark.parametrize("base", [*FREE, *FIXED], ids=lambda each: each.name)
def test_right_code_without_a_fault_passes(base: Base) -> None:
    assert refusals(base.judge(base.target, ignore=())) == []
