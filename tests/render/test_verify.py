"""The table of `verify`, from verdicts made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ropecli import Rotary, Verification
from ropecli.checks.law import Check
from ropecli.render import verify as pages
from ropecli.render.console import UNCUT, Screen

ROPES = [Rotary(head_dim=8, layout=layout) for layout in ("interleaved", "half")]
HINT = "The errors and tolerances: --errors    where they come from: --explain"


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


def test_whole_screen() -> None:
    text = shown(
        check(),
        check(layout="interleaved", max_error=0.25e-15),
        check(dtype="float32", max_error=0.0),
        check("identity at 0", equation="15", max_error=0.0, tolerance=0.0),
        check("identity at 0", equation="15", dtype="float32", passed=None, samples=0),
    )
    assert text == (
        "Checking ropecli's own rotation against an independent reference\n"
        "dim 8, base 10000, both layouts, positions up to 131,072, seed 7\n"
        "\n"
        "         worst ratio of error to tolerance\n"
        "      law            Eq.  float64  float32\n"
        "PASS  norm           16      0.50     0.00\n"
        "PASS  identity at 0  15     exact        -\n"
        "\n"
        "2 laws hold in 2 dtypes and 2 layouts (40 samples, 0.8 s).\n"
        f"{HINT}\n"
    )


def test_one_layout_is_named() -> None:
    text = shown(check(), ropes=[Rotary(head_dim=8, rotary_dim=4, layout="half")])
    assert "dim 8, rotary dim 4, base 10000, layout half, positions" in text
    assert "1 law holds in 1 dtype and 1 layout (10 samples" in text


def test_failure_is_a_word_with_its_counterexample() -> None:
    text = shown(
        check("inverse"),
        check(
            "convention",
            equation="34",
            passed=False,
            max_error=1.38,
            tolerance=0.037,
            note="layout half, expected interleaved",
            counterexample="m = 1, x = e_0: got (0.54 at 0), expected (0.54 at 0, 0.84 at 4)",
        ),
    )
    assert "PASS  inverse     16      0.50\n" in text
    assert "FAIL  convention  34      37.3\n" in text
    assert (
        "\n\nFAIL  convention (Eq. 34), float64, half: error 1.38, tolerance 0.037\n"
        "      layout half, expected interleaved\n"
        "      m = 1, x = e_0: got (0.54 at 0), expected (0.54 at 0, 0.84 at 4)\n\n"
    ) in text
    assert "1 of 2 laws fails in 1 dtype and 1 layout" in text


def test_one_failing_dtype_or_layout_fails_the_law() -> None:
    text = shown(
        check(),
        check(layout="interleaved", passed=False, max_error=9e-15),
        check("inverse"),
    )
    row = next(line for line in text.splitlines() if "  norm  " in line)
    assert row.split() == ["FAIL", "norm", "16", "9"]
    assert text.count("\nFAIL  norm (Eq. 16), float64, interleaved: ") == 1


def test_several_failing_laws_are_counted() -> None:
    failed = [check(name, passed=False, max_error=1.0) for name in ("norm", "inverse")]
    text = shown(*failed, check("identity at 0"))
    assert "2 of 3 laws fail in 1 dtype" in text


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


def test_a_law_that_applies_nowhere_has_no_row() -> None:
    text = shown(check(), check("pass-through", passed=None, samples=0))
    assert "pass-through" not in text
    assert "1 law holds" in text


def test_errors_have_a_table_for_each_dtype() -> None:
    text = shown(
        check(),
        check(layout="interleaved", max_error=0.25e-15),
        check("Abel identity", equation="36"),
        check(dtype="float16", max_error=1 / 3, tolerance=0.5, samples=1200),
        check("Abel identity", dtype="float16", passed=None, samples=0),
        errors=True,
    )
    assert (
        "\n\n"
        "      law in float64  Eq.  worst error  tolerance  ratio  samples\n"
        "PASS  norm            16         5e-16      1e-15   0.50       20\n"
        "PASS  Abel identity   36         5e-16      1e-15   0.50       10\n"
        "\n"
        "      law in float16  Eq.  worst error  tolerance  ratio  samples\n"
        "PASS  norm            16         0.333        0.5   0.67    1,200\n"
        "\n"
    ) in text
    assert "--errors" not in text


def test_explain_gives_each_laws_reason_once() -> None:
    text = shown(
        check(because="one error [sic]"),
        check(layout="interleaved", because="one error [sic]"),
        check("inverse", because="two"),
        check("pass-through", passed=None, because="none"),
        explain=True,
    )
    assert (
        "\n\nWhere each tolerance comes from\n  norm: one error [sic]\n  inverse: two\n\n"
    ) in text
    assert "--explain" not in text


def test_brief_is_the_table_and_the_failures() -> None:
    text = shown(check(), check("inverse", passed=False, max_error=1.0), brief=True)
    assert text.startswith("worst ratio of error to tolerance\n      law ")
    assert text.endswith("FAIL  inverse (Eq. 16), float64, half: error 1, tolerance 1e-15\n")


def test_failures_are_whole_where_there_is_no_terminal() -> None:
    case = "x = (" + ", ".join(["0.12345678901234567"] * 6) + "): got 1, expected 2"
    text = shown(check(passed=False, max_error=1.0, counterexample=case))
    assert f"      {case}\n" in text


def test_failures_are_wrapped_at_the_terminals_width() -> None:
    case = "x = (" + ", ".join(["0.12345678901234567"] * 6) + "): got 1, expected 2"
    failed = check(passed=False, max_error=1.0, counterexample=case, because="z " * 99)
    lines = shown(failed, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert " ".join(" ".join(lines).split()).count(case) == 1


def test_the_heading_is_wrapped_and_not_indented() -> None:
    lines = shown(check(), width=40).splitlines()
    heading = lines[: lines.index("")]
    assert len(heading) > 2
    assert all(line == line.strip() for line in heading)


def test_print_shows_the_table_and_the_failures() -> None:
    judged = result(check(), check("inverse", passed=False, max_error=1.0))
    assert f"{judged}\n" == shown(*judged.checks, brief=True)
