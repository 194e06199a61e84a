"""Right implementations to break in one place, and the verdicts of `check` on them and the zoo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from implementations import plain
from implementations.case import Case, Right, Wrong
from implementations.plain import half, interleaved, inv_freq

import ropecli
from ropecli.checks.implementation.check import Verdict, check
from ropecli.checks.law import Check

Array = plain.Array
DIM, CONTEXT = 32, 4096
THETA = inv_freq(DIM)
HALF = ropecli.Rotary(head_dim=DIM, layout="half")

#: Eight interleaved coordinates over a short context.
SMALL_DIM, SMALL_CONTEXT = 8, 512
SMALL_THETA = inv_freq(SMALL_DIM)
SMALL = ropecli.Rotary(head_dim=SMALL_DIM)
#: Few laws, with a long call among them.
FEW_LAWS: dict[str, Any] = {
    "head_dim": SMALL_DIM,
    "dtypes": "float32",
    "context_length": SMALL_CONTEXT,
    "select": ["rotation", "packed sequences", "same twice", "long, short, long"],
}

#: Laws that make a thousand calls or a long one: tests of the others do without them.
MANY_CALLS = ("every shape", "every position", "many steps")
#: Laws of single calls in particular shapes.
OF_CALLS = {"keys", "memory", "gradient", "independent rows"}
#: All other laws of `check`.
LAWS = {
    "rotation", "convention", "precision", "long positions", "offset positions",
    "gaps in positions", "repeated positions", "positions backwards", "negative positions",
    "batched positions", "left padding", "packed sequences", "axes", "long, short, long",
    "original length", "beyond the cache", "token by token", "two instances", "input untouched",
    "dtype and shape", "same twice",
}  # fmt: skip


def turn(x: Array, positions: Any, theta: Array = THETA, factor: Any = 1.0) -> Array:
    """A right one, half-split; the factor is a number, or one for each row."""
    return plain.turn(x, positions, theta, half, factor)


def turn_small(x: Array, positions: Any, theta: Array = SMALL_THETA) -> Array:
    """A right one, interleaved."""
    return plain.turn(x, positions, theta, interleaved)


class Module:
    """A right one with a base of its own."""

    def __init__(self, base: float = 10_000.0) -> None:
        self.base = base

    def forward(self, x: Array, positions: Array) -> Array:
        return turn(x, positions, inv_freq(DIM, self.base))


class Decoder:
    """A right one that counts positions itself, but for the places where it is late."""

    late: tuple[bool, ...] = ()  #: Where steps are wrong: after a prefill, or not.
    turn = staticmethod(turn)
    length = 0
    prefilled = False

    def prefill(self, x: Array) -> Array:
        self.length, self.prefilled = x.shape[-2], True
        return self.turn(x, np.arange(self.length))

    def step(self, x: Array) -> Array:
        y = self.turn(x, np.array([self.length + (self.prefilled in self.late)]))
        self.length += 1
        return y


def check_here(target: Any, **options: Any) -> Verdict:
    """Check an implementation that runs in this process, which is quicker."""
    given: dict[str, Any] = {"isolated": False} | options
    if {"select", "ignore"} & options.keys():
        verdict: Verdict = check(target, **given)
        return verdict
    verdict = check(target, ignore=MANY_CALLS, **given)
    # These tests leave them out: the verdict need not say so.
    said = tuple(text for text in verdict.loosened if not text.startswith("not judged by"))
    return replace(verdict, loosened=said)


def judge(target: Any, **options: Any) -> Verdict:
    return check_here(target, **({"head_dim": DIM, "context_length": CONTEXT} | options))


def judge_once(target: Any, **options: Any) -> Verdict:
    """In float32 alone."""
    return judge(target, **({"dtypes": ["float32"]} | options))


def judge_small(target: Any, **options: Any) -> Verdict:
    """In float32 alone."""
    given: dict[str, Any] = {
        "head_dim": SMALL_DIM,
        "context_length": SMALL_CONTEXT,
        "dtypes": ["float32"],
    }
    return check_here(target, **(given | options))


def failures(verdict: Verdict) -> list[str]:
    """The checks that fail, each once."""
    return list(dict.fromkeys(each.name for each in verdict.checks if each.passed is False))


def refusals(verdict: Verdict) -> list[str]:
    """The notes and counterexamples of checks that fail."""
    return [
        f"{each.name} ({each.dtype}): {each.note} {each.counterexample}"
        for each in verdict.checks
        if each.passed is False
    ]


def checks_of(verdict: Verdict, law: str) -> list[Check]:
    return [each for each in verdict.checks if each.name == law]


def assert_failed(verdict: Verdict, law: str) -> Check:
    """The failure of that law."""
    names = failures(verdict)
    assert law in names, f"{law} must fail, got {names or 'nothing'}"
    return next(each for each in checks_of(verdict, law) if each.passed is False)


FORMS = {"function": "apply", "class": "module", "decoder": "decoder"}


def judge_case(case: Case, **options: Any) -> Verdict:
    """The verdict on one of the zoo, told what it is told."""
    expect = None if case.expect is None else case.expect()
    given = {"expect": expect, "form": FORMS[case.kind], **case.options, **options}
    return check_here(case.target, **given)


def assert_passed(case: Right, **options: Any) -> None:
    verdict = judge_case(case, **options)
    assert refusals(verdict) == []
    assert verdict.diagnosis is None


def assert_caught(case: Wrong) -> None:
    """One of its laws fails, and the sentence says what is wrong."""
    verdict = judge_case(case)
    assert set(failures(verdict)) & set(case.laws), (failures(verdict), case.laws)
    assert verdict.diagnosis is not None
    assert case.says.casefold() in verdict.diagnosis.casefold()
    assert "\n" not in verdict.diagnosis
