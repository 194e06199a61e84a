"""`check` on implementations that are right or wrong; all of them are in the soak tier."""

from __future__ import annotations

from zlib import crc32

import pytest
from implementations.case import Case, Right, Wrong
from implementations.registry import RIGHT, WRONG
from zoo import COMPILED, assert_caught, assert_passed


def share(case: Case, one_in: int) -> bool:
    """The same ones at every run, and no neighbours."""
    return crc32(case.name.encode()) % one_in == 0


#: All decoders, scores and classes; of the functions, so many.
QUICK_RIGHT = [c for c in RIGHT if c.kind != "function" or share(c, 2)]
QUICK_WRONG = [c for c in WRONG if c.kind != "function" or share(c, 6)]
FEW_RIGHT, FEW_WRONG = ([c for c in cases if share(c, 12)] for cases in (RIGHT, WRONG))


def named(case: Case) -> str:
    return f"{case.kind} {case.name}"


def test_there_are_enough_of_both() -> None:
    assert len({case.target for case in QUICK_WRONG}) >= 40
    assert len({case.target for case in QUICK_RIGHT}) >= 15


@pytest.mark.parametrize("case", QUICK_RIGHT if COMPILED else FEW_RIGHT, ids=named)
def test_right_ones_pass(case: Right) -> None:
    assert_passed(case)


@pytest.mark.parametrize("case", QUICK_WRONG if COMPILED else FEW_WRONG, ids=named)
def test_wrong_ones_are_caught_and_named(case: Wrong) -> None:
    assert_caught(case)
