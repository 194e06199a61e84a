"""The page of `check`, from verdicts made by hand."""

from __future__ import annotations

from typing import Any

from ropecli.checks.implementation import Verdict
from ropecli.checks.implementation.calling.convention import Convention
from ropecli.checks.law import Check
from ropecli.render import check as pages
from ropecli.render.console import Screen


def check(name: str, **fields: Any) -> Check:
    known: dict[str, Any] = {
        "equation": "34",
        "dtype": "float32",
        "layout": "half",
        "expected": "holds",
        "passed": True,
        "max_error": 0.0,
        "tolerance": 1e-6,
        "samples": 10,
        "because": "none",
    }
    return Check(name=name, **{**known, **fields})


def page(*checks: Check) -> list[str]:
    failed = any(each.passed is False for each in checks)
    verdict = Verdict(
        checks=checks,
        expect=None,
        identified=None,
        diagnosis="it is none" if failed else None,
        convention=Convention(call="turn(x, positions)"),
        notes=(),
        findings=(),
        loosened=(),
        head_dim=64,
        axes=1,
        dtypes=("float32",),
        context_length=4096,
        original_context_length=None,
        seed=0,
        seconds=1.0,
    )
    return pages.page(verdict, Screen(), target="rope.py:turn")


def silent(name: str, note: str) -> Check:
    return check(name, passed=None, samples=0, note=note)


def test_what_is_so_of_several_laws_is_said_once() -> None:
    unknown = "no rotation was recognised"
    text = page(
        check("rotation", passed=False, note="nothing is rotated"),
        check("norm"),
        silent("score", unknown),
        silent("axes", "positions have one axis"),
        silent("batched positions", unknown),
        silent("batched positions", unknown),
        silent("negative positions", "refuses negative positions: ValueError"),
        silent("precision", unknown),
    )
    assert text[-4:] == [
        "  score, batched positions, precision: no rotation was recognised",
        "  negative positions: refuses negative positions: ValueError",
        "",
        "1 of 2 laws fails (20 rows, seed 0, 1.0 s).",
    ]


def test_many_laws_are_listed_line_by_line() -> None:
    names = [f"law number {count}" for count in range(9)]
    text = page(check("norm"), *(silent(name, "a decoder counts") for name in names))
    listed = text[text.index("  PASS  norm") + 2 : -2]
    assert len(listed) == 2
    assert listed[0].startswith("  law number 0, law number 1, ")
    assert listed[1].startswith("    ")
    assert listed[1].endswith("law number 8: a decoder counts")


def test_a_law_that_holds_says_only_what_it_found() -> None:
    text = page(
        check("long positions", note="the frequencies change"),
        silent("long positions", "refuses float16 data: TypeError"),
    )
    assert "  long positions: the frequencies change" in text
    assert not any("float16" in line for line in text)
