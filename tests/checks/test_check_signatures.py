"""Right code passes however its arguments may broadcast, and its wrong twin fails."""

from __future__ import annotations

from typing import Any

import pytest
from implementations.signatures import CONTEXT, DIM, SIGNATURES, Signature, right
from judging import refusals

from ropecli.checks.implementation.check import Verdict, check


def judge(target: Any) -> Verdict:
    return check(
        target,
        head_dim=DIM,
        context_length=CONTEXT,
        dtypes="float32",
        select=["rotation", "every shape", "batched positions"],
        isolated=False,
    )


#: In the quick tier.
QUICK = {"offset_only", "stacked_with_tables", "flat_tokens"}
EVERY = [
    pytest.param(
        each,
        id=each.make.__name__,
        marks=() if each.make.__name__ in QUICK else pytest.mark.slow,
    )
    for each in SIGNATURES
]


def test_there_are_enough() -> None:
    assert len(SIGNATURES) >= 15
    assert {each.make.__name__ for each in SIGNATURES} >= QUICK


@pytest.mark.parametrize("signature", EVERY)
def test_the_right_one_passes_in_its_axes(signature: Signature) -> None:
    verdict = judge(signature.make(right))
    assert (verdict.passed, refusals(verdict)) == (True, [])
    assert signature.axes in verdict.arrangements


@pytest.mark.parametrize("signature", EVERY)
def test_the_wrong_one_fails(signature: Signature) -> None:
    verdict = judge(signature.make(signature.broken))
    assert verdict.passed is False, verdict.arrangements
