"""The table of `verify`, from verdicts made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from golden import assert_golden

from ropecli import Rotary, Verification
from ropecli.checks.law import Check
from ropecli.render import verify as pages
from ropecli.render.console import UNCUT, Screen

ROPES = [Rotary(head_dim=8, layout=layout) for layout in ("interleaved", "half")]


def check(name: str = "norm", **fields: Any) -> Check:
    known: dict[str, Any] = {
        "equation": "16",
        "dtype": "float64",
        "layout": "half",
        "expected": "holds",
        "passed": True,
        "max_error": 0.5e-15,
        "tolerance": 1e-15,
        "samples": 10,
        "because": "one rotation's error",
    }
    return Check(name=name, **{**known, **fields})


def result(*checks: Check) -> Verification:
    return Verification(checks=checks, seed=7, max_position=131_072, seconds=0.84)


def shown(
    *checks: Check,
    ropes: list[Rotary] = ROPES,
    errors: bool = False,
    explain: bool = False,
    brief: bool = False,
    width: int = UNCUT,
) -> str:
    screen = Screen(brief=brief, width=width)
    lines = pages.page(result(*checks), screen, ropes=ropes, errors=errors, explain=explain)
    return "\n".join(lines) + "\n"


CASE = "x = (" + ", ".join(["0.12345678901234567"] * 6) + "): got 1, expected 2"
HALF = [Rotary(head_dim=8, rotary_dim=4, layout="half")]


def test_pages_are_as_they_were_looked_at() -> None:
    plain = [
        check(),
        check(layout="interleaved", max_error=0.25e-15),
        check(dtype="float32", max_error=1 / 3, tolerance=0.5, samples=1200),
        check("identity at 0", equation="15", max_error=0.0, tolerance=0.0, because="one [sic]"),
        check("identity at 0", equation="15", dtype="float32", passed=None, samples=0),
        check("pass-through", passed=None, samples=0, because="none"),
    ]
    failed = [
        check(),
        check(layout="interleaved", passed=False, max_error=9e-15),
        check(
            "convention",
            equation="34",
            passed=False,
            max_error=1.38,
            tolerance=0.037,
            note="layout half, expected interleaved",
            counterexample=CASE,
        ),
        check("inverse"),
    ]
    pages = {
        "laws hold": shown(*plain),
        "one layout": shown(check(), ropes=HALF),
        "one law fails": shown(check("inverse"), check(passed=False, max_error=1.0)),
        "two laws fail": shown(*failed),
        "two laws fail, 80 columns": shown(*failed, width=80),
        "40 columns": shown(check(), width=40),
        "errors": shown(*plain, errors=True),
        "explanations": shown(*plain, explain=True),
        "brief": shown(*failed, brief=True),
    }
    assert_golden("pages/verify-by-hand", pages.items())


@pytest.mark.parametrize(
    ("error", "tolerance", "passed", "expected"),
    [
        (0.0, 0.0, True, "exact"),
        (0.0, 1.0, True, "0.00"),
        (0.994, 1.0, True, "0.99"),
        (1.0, 1.0, True, "1.00"),
        (1.0000001, 1.0, False, "1.01"),
        (1.004, 1.0, False, "1.01"),
        (1.05, 1.0, False, "1.05"),
        (123456.0, 1.0, False, "1.23e+05"),
        (1.0, 0.0, False, "inf"),
        (math.inf, 1.0, False, "inf"),
        (math.nan, 1.0, False, "nan"),
    ],
)
def test_ratio(
    error: float,
    tolerance: float,
    passed: bool,
    expected: str,
) -> None:
    text = shown(check(max_error=error, tolerance=tolerance, passed=passed))
    row = next(line for line in text.splitlines() if "  norm  " in line)
    assert row.split() == ["PASS" if passed else "FAIL", "norm", "16", expected]


@pytest.mark.parametrize("order", [1, -1])
def test_a_failure_that_is_not_a_number_is_not_hidden(order: int) -> None:
    both = [check(), check(layout="interleaved", passed=False, max_error=math.nan)]
    text = shown(*both[::order])
    assert next(line for line in text.splitlines() if "  norm  " in line).split()[-1] == "nan"


def test_print_shows_the_table_and_the_failures() -> None:
    judged = result(check(), check("inverse", passed=False, max_error=1.0))
    assert f"{judged}\n" == shown(*judged.checks, brief=True)
