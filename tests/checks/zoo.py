"""The implementations as `check` is put to them."""

from __future__ import annotations

from implementations.case import Case, Right, Wrong

from ropecli.checks.implementation import Verdict
from ropecli.checks.implementation.check import check

FORMS = {"function": "apply", "class": "module", "decoder": "decoder", "score": "score"}


def judged(case: Case) -> Verdict:
    """The verdict on one implementation, told what it is told."""
    expect = None if case.expect is None else case.expect()
    return check(case.target, expect=expect, form=FORMS[case.kind], **case.options)


def failed(verdict: Verdict) -> list[str]:
    return sorted({each.name for each in verdict.checks if each.passed is False})


def assert_passed(case: Right) -> None:
    verdict = judged(case)
    refusals = [
        f"{each.name} ({each.dtype}): {each.note} {each.counterexample}"
        for each in verdict.checks
        if each.passed is False
    ]
    assert refusals == []
    assert verdict.diagnosis is None


def assert_caught(case: Wrong) -> None:
    """One of its laws fails, and the sentence says what is wrong."""
    verdict = judged(case)
    assert set(failed(verdict)) & set(case.laws), (failed(verdict), case.laws)
    assert verdict.diagnosis is not None
    assert case.says.casefold() in verdict.diagnosis.casefold()
    assert "\n" not in verdict.diagnosis
