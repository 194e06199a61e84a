"""`check` on implementations that are right or wrong.

One in eight runs always, all but some functions in the slow tier, and each one in the soak tier.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import pytest
from implementations.case import Case, Right, Wrong
from implementations.registry import RIGHT, WRONG
from zoo import assert_caught, assert_passed


def is_in_share(case: Case, one_in: int) -> bool:
    """The same ones at every run, spread over all files."""
    return crc32(case.name.encode()) % one_in == 0


FEW = 8  #: One in so many runs always.
#: All decoders, scores and classes, half of the right functions and a sixth of the wrong ones.
MOST_RIGHT = [c for c in RIGHT if c.kind != "function" or is_in_share(c, 2)]
MOST_WRONG = [c for c in WRONG if c.kind != "function" or is_in_share(c, 6)]


def by_tier(cases: list[Any]) -> list[Any]:
    """One in eight in the quick tier, the others in the slow one."""
    return [
        pytest.param(
            case,
            id=f"{case.kind} {case.name}",
            marks=() if is_in_share(case, FEW) else pytest.mark.slow,
        )
        for case in cases
    ]


def test_there_are_enough_of_both() -> None:
    assert len({case.target for case in MOST_WRONG}) >= 40
    assert len({case.target for case in MOST_RIGHT}) >= 15
    assert sum(is_in_share(case, FEW) for case in MOST_RIGHT) >= 3
    assert sum(is_in_share(case, FEW) for case in MOST_WRONG) >= 5


@pytest.mark.parametrize("case", by_tier(MOST_RIGHT))
def test_right_ones_pass(case: Right) -> None:
    assert_passed(case)


@pytest.mark.parametrize("case", by_tier(MOST_WRONG))
def test_wrong_ones_are_caught_and_named(case: Wrong) -> None:
    assert_caught(case)
