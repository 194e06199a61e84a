"""Faults in places: `check` sees each, names it, and passes the code without.

Samples of what `tests/soak/test_faults_soak.py` tries whole.
"""

from __future__ import annotations

import numpy as np
import pytest
from faults import MUTANTS, TWINS, Mutant, assert_named, assert_twin_passes
from helpers import for_each, slow
from judging import check_here, refusals
from right_code import FIXED, FREE, PLANTED, SMALL, Base, made_wrong, passes, plant

#: One of each kind, of which the quick tier tries one.
QUICK = ["factor: float16 only"]
KINDS = [
    "not turned: one row in 131,072",
    "one buffer for all results: a result kept until the next call",
    "turned as its neighbour: one token of float16 at position 32,768",
    "not turned: sequences from index 4",
    "read as contiguous: strided input",
    "read as contiguous: transposed input",
    "zeros: rows from index 1,024",
]
#: Escaped once, or were named by another fault's name.
ESCAPED = [
    "factor: k with fewer heads",
    "positions run on in the next sequence: sequences from index 1",
    "returned in float64: one token of half precision",
    "turned as its neighbour: the last row of sequences of more than one token",
]
MIXED = [PLANTED[i] for i in np.random.default_rng(0).permutation(len(PLANTED))]
QUICKLY, SLOWLY = 3, 12  #: Planted faults of each tier.


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= 170
    assert len(PLANTED) >= 270


@pytest.mark.parametrize("name", [*QUICK, *slow(*KINDS, *ESCAPED)])
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("twin", [*TWINS.values()][::8], ids=lambda mutant: mutant.name)
def test_twin_passes(twin: Mutant) -> None:
    assert_twin_passes(twin)


@for_each("mutant", MIXED[:QUICKLY])
def test_a_few_faults_in_right_code_are_seen(mutant: Mutant) -> None:
    small = (base for base in made_wrong(mutant) if base.options.get("head_dim") == SMALL)
    assert_seen(mutant, next(small))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MIXED[QUICKLY : QUICKLY + SLOWLY], ids=lambda each: each.name)
def test_faults_in_right_code_are_seen(mutant: Mutant) -> None:
    assert_seen(mutant, next(made_wrong(mutant)))


@pytest.mark.slow
@pytest.mark.parametrize("base", [*FREE[-11:], *FIXED[::13]], ids=lambda each: each.name)
def test_right_code_without_a_fault_passes(base: Base) -> None:
    """The zoo has tests of its own."""
    assert refusals(base.judge(base.target, ignore=())) == []


@pytest.mark.slow
def test_axes_that_were_found_and_do_not_show_that_they_are_meant_are_listed() -> None:
    """One token of each sequence is right, which is also a call in other axes, and shows those."""
    mutant = next(each for each in PLANTED if each.name == "zeroed: all but the first row")
    base = next(each for each in made_wrong(mutant) if each.name == "x, freqs_cis in b s h*d")
    verdict = base.judge(plant(mutant, base), select="rotation")
    assert "b s h*d" not in verdict.arrangements
    assert verdict.not_judged == ('--axes-of-x "b s h*d"',)


def assert_seen(mutant: Mutant, base: Base) -> None:
    """Assert that `check` fails an implementation with a fault."""
    verdict = passes(mutant, base)
    assert verdict is None, f"{base.name} passes, called {verdict.convention.options()}"


@pytest.mark.slow
def test_sequences_of_a_batch_are_not_taken_for_positions() -> None:
    mutant = MUTANTS["factor: sequences from index 1"]
    verdict = check_here(mutant.target(), **mutant.options, select="offset positions")
    assert verdict.convention.call == "apply(x, positions)"
    assert verdict.convention.axes_of_x == "b h s d"
