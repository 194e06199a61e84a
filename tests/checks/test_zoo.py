"""The zoo of implementations: `check` passes right ones, and names the fault of each wrong one.

A few are put to `check` always, all but some functions in the slow tier, and each one in the soak
tier.
"""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

import pytest
from implementations.registry import RIGHT, WRONG, Case, Right, Wrong
from judging import LAWS, assert_caught, assert_passed


def test_names_are_unique_and_every_wrong_one_names_its_thread() -> None:
    for cases in (RIGHT, WRONG):
        names = [case.name for case in cases]
        assert len(set(names)) == len(names)
    assert [case for case in WRONG if not re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", case.thread)] == []


def test_laws_are_those_of_check_and_each_is_broken_by_one() -> None:
    assert {law for case in WRONG for law in case.laws} == LAWS


# Verdicts of check.


def is_in_share(case: Case, one_in: int) -> bool:
    """The same ones at every run, spread over all files."""
    return crc32(case.name.encode()) % one_in == 0


#: All decoders and classes, half of the right functions and an eighth of the wrong ones.
MOST_RIGHT = [c for c in RIGHT if c.kind != "function" or is_in_share(c, 2)]
MOST_WRONG = [c for c in WRONG if c.kind != "function" or is_in_share(c, 8)]


def by_tier(cases: list[Any], one_in: int) -> list[Any]:
    """One in `one_in` in the quick tier, the others in the slow one."""
    return [
        pytest.param(
            case,
            id=f"{case.kind} {case.name}",
            marks=() if is_in_share(case, one_in) else pytest.mark.slow,
        )
        for case in cases
    ]


FEW_RIGHT, FEW_WRONG = 7, 20  #: One in this number is in the quick tier.


def test_there_are_enough_of_both() -> None:
    assert (len(RIGHT), len(WRONG)) == (38, 120)
    assert len({case.target for case in MOST_WRONG}) >= 35
    assert len({case.target for case in MOST_RIGHT}) >= 15
    assert sum(is_in_share(case, FEW_RIGHT) for case in MOST_RIGHT) >= 3
    kinds = {case.kind for case in MOST_WRONG if is_in_share(case, FEW_WRONG)}
    assert kinds == {"function", "class", "decoder"}


@pytest.mark.parametrize("case", by_tier(MOST_RIGHT, FEW_RIGHT))
def test_right_ones_pass(case: Right) -> None:
    assert_passed(case)


@pytest.mark.slow
def test_a_right_one_passes_by_the_laws_of_many_calls_too() -> None:
    """All of them in the soak tier."""
    (case,) = (each for each in RIGHT if each.name == "decoder")
    assert_passed(case, ignore=())


@pytest.mark.parametrize("case", by_tier(MOST_WRONG, FEW_WRONG))
def test_wrong_ones_are_caught_and_named(case: Wrong) -> None:
    assert_caught(case)
