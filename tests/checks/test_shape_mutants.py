"""Kernels that are wrong in some shapes alone: each is caught and named, and its twin passes."""

from __future__ import annotations

import pytest
from helpers import slow
from invented_mutants import INVENTED, MUTANTS, TWINS
from judging import check_here
from shape_mutants import GENERATED, REPORTED, Mutant, assert_named, assert_twin_passes

NAMES = [*MUTANTS]


def test_there_are_enough_of_each_kind() -> None:
    assert len(GENERATED) >= 80
    assert len(REPORTED) >= 20
    assert len(INVENTED) >= 30


#: The slow tier tries one in 64 and these; `tests/soak/test_shape_mutants_soak.py` all.
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


@pytest.mark.parametrize("name", [*QUICK, *slow(*sorted({*NAMES[::64], *KINDS, *ESCAPED}))])
def test_mutant_is_caught_and_named(name: str) -> None:
    assert_named(MUTANTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("twin", [*TWINS.values()][::8], ids=lambda mutant: mutant.name)
def test_twin_passes(twin: Mutant) -> None:
    assert_twin_passes(twin)


@pytest.mark.slow
def test_sequences_of_a_batch_are_not_taken_for_positions() -> None:
    mutant = MUTANTS["factor: sequences from index 1"]
    verdict = check_here(mutant.target(), **mutant.options, select="offset positions")
    assert verdict.convention.call == "apply(x, positions)"
    assert verdict.convention.axes_of_x == "b h s d"
