"""No fault in right code of a positional encoding passes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby

import pytest
from encodings_faults import FAULTS, Planted, changes, planted
from encodings_right import RIGHT

import ropecli

pytestmark = pytest.mark.slow

#: Each showed only in some calls: far positions, one number of heads, state, weights of the past.
QUICK = [
    ("positions in bfloat16", "interleaved"),
    ("wraps at 512", "concatenated"),
    ("base 10,001", "over_fewer"),
    ("the last row is 0", "grid_of_mae"),
    ("rows are one late", "learned"),
    ("the first column of dims that 4 does not divide is 0", "learned"),
    ("wrong for 12 heads", "slopes"),
    ("slopes of the next power of 2", "alibi"),
    ("keys beyond 1,000 are as key 1,000", "kerple"),
    ("keys in bfloat16", "alibi"),
    ("wrong for 12 heads", "kerple"),
    ("max_distance is ignored", "buckets"),
    ("the border at 64 is one late", "buckets"),
    ("each call after the first is doubled", "t5"),
    ("two weights are exchanged", "transformer_xl"),
    ("weights: all 0", "fire"),
    ("keys are one late", "rel_shift"),
    ("divided by d", "cope"),
    ("the first sequence's result in all", "tupe"),
    ("writes into its arguments", "nope"),
]


@pytest.mark.parametrize(("fault", "name"), QUICK)
def test_fault_is_caught(fault: str, name: str) -> None:
    one = Planted(RIGHT[name], fault)
    assert changes(one)
    verdict = ropecli.check(one.code(), encoding=one.right.encoding, isolated=False)
    assert verdict.passed is False
    assert verdict.diagnosis


def not_failed(faults: Iterable[Planted]) -> list[str]:
    """Return the names of those that `check` does not fail."""
    return [
        each.name
        for each in faults
        if ropecli.check(each.code(), encoding=each.right.encoding, isolated=False).passed
        is not False
    ]


def test_no_fault_passes() -> None:
    """In every fourth right code that it changes; all of them are in the soak tier."""
    faults = [[*codes] for _, codes in groupby(planted(), key=lambda each: each.fault)]
    assert len(faults) == len(FAULTS) >= 60, "a fault that changes nothing"
    assert sum(map(len, faults)) >= 600
    some = [codes[n % min(4, len(codes)) :: 4] for n, codes in enumerate(faults)]
    assert not_failed(chain.from_iterable(some)) == []
