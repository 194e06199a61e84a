"""The page of `check`, from verdicts made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from golden import assert_golden
from helpers import ROOT

from ropecli.checks.expectation import Expectation
from ropecli.checks.implementation.check import Verdict
from ropecli.checks.implementation.convention import Convention
from ropecli.checks.law import Check
from ropecli.render import check as pages
from ropecli.render import check_reports
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


def verdict(*checks: Check, **fields: Any) -> Verdict:
    failed = any(each.passed is False for each in checks)
    known: dict[str, Any] = {
        "checks": checks,
        "expected": Expectation(),
        "identified": None,
        "diagnosis": "it is none" if failed else None,
        "convention": Convention(call="turn(x, positions)"),
        "notes": (),
        "findings": (),
        "arrangements": ("b h s d",),
        "not_judged": (),
        "refused_batch": None,
        "loosened": (),
        "head_dim": 64,
        "axes": 1,
        "dtypes": ("float32",),
        "context_length": 4096,
        "original_context_length": None,
        "longest_sequence": None,
        "seed": 0,
        "seconds": 1.0,
    }
    return Verdict(**{**known, **fields})


def page(*checks: Check, **fields: Any) -> list[str]:
    return pages.page(verdict(*checks, **fields), Screen(), target="rope.py:turn")


def silent(name: str, note: str) -> Check:
    return check(name, passed=None, samples=0, note=note)


def test_pages_are_as_they_were_looked_at() -> None:
    unknown = "no rotation was recognised"
    names = [f"law number {count}" for count in range(9)]
    long = Convention(
        call="apply_rotary_emb(q, k, freqs)", axes_of_x="b*s h d", freqs="complex",
        axes_of_tables="b*s d", tables_dtype="float32", framework="torch",
    )  # fmt: skip
    pages = {
        "what several laws share": page(
            check("rotation", passed=False, note="nothing is rotated"),
            check("norm"),
            silent("score", unknown),
            silent("axes", "positions have one axis"),
            silent("batched positions", unknown),
            silent("batched positions", unknown),
            silent("negative positions", "refuses negative positions: ValueError"),
            silent("precision", unknown),
        ),
        "many laws": page(check("norm"), *(silent(name, "a decoder counts") for name in names)),
        "the dtype alone is wrong": page(check("norm"), check("dtype and shape", passed=False)),
        "a law that holds, with a note": page(
            check("long positions", note="the frequencies change"),
            silent("long positions", "refuses float16 data: TypeError"),
        ),
        "failures that follow from another": page(
            check("rotation", passed=False, note="nothing is rotated"),
            check("norm"),
            check("score", passed=False, follows="rotation"),
            check("long, short, long", passed=False, follows="rotation"),
        ),
        "findings, notes and what was loosened": page(
            check("norm"),
            findings=("positions start at 1: the first token is rotated as position 1",),
            notes=("it ran in this process, since it can't be pickled: '_x' object\x1b",),
            loosened=("tolerance of float32 at least 0.001", "not judged by score, composition"),
        ),
        "a long call": page(check("norm"), convention=long),
    }
    assert_golden("pages/check-by-hand", ((name, "\n".join(text)) for name, text in pages.items()))


MANY = (
    check("rotation", passed=False, note="a <b> & ]]> \x07", counterexample="x = e_0, 100%\n"),
    check("score", passed=False, follows="rotation"),
    check("norm"),
    silent("axes", "positions have one axis"),
)


def test_junit_has_a_case_for_each_law() -> None:
    root = ElementTree.fromstring(check_reports.report(verdict(*MANY), "rope.py:turn").junit())
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4", "failures": "2", "errors": "0", "skipped": "1",
    }  # fmt: skip
    cases = {each.get("name"): each for each in suite.iter("testcase")}
    failure = cases["rotation (float32)"].find("failure")
    assert failure is not None
    assert "a <b> & ]]> \\x07; smallest case: x = e_0" in str(failure.get("message"))
    assert (failure.get("type"), failure.text) == ("rotation", failure.get("message"))
    assert cases["score (float32)"].find("failure") is not None
    assert cases["axes (float32)"].find("skipped") is not None
    assert list(cases["norm (float32)"]) == []


SCHEMA = jsonschema.Draft4Validator(
    json.loads((ROOT / "tests" / "data" / "sarif-schema-2.1.0.json").read_text())
)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pack").mkdir()
    file = tmp_path / "pack" / "rope, 1.py"
    file.write_text("import numpy\n\n\ndef turn(x, positions):\n    return x\n")
    (tmp_path / "pack" / "plain.py").write_text("\nclass Turn:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    return file


@pytest.mark.parametrize(
    ("target", "uri", "line"),
    [
        ("pack/rope, 1.py:turn", "pack/rope%2C%201.py", 4),
        ("pack.plain:Turn.forward", "pack/plain.py", 2),
        ("pack.plain:absent", "pack/plain.py", None),
        ("nowhere:turn", None, None),
    ],
)
def test_sarif_is_valid_and_names_the_line(
    target: str, uri: str | None, line: int | None, source: Path
) -> None:
    document = json.loads(check_reports.report(verdict(*MANY, findings=("odd",)), target).sarif())
    SCHEMA.validate(document)
    (run,) = document["runs"]
    results = run["results"]
    assert [(each["ruleId"], each["level"]) for each in results] == [
        ("rotation", "error"), ("finding", "note"),
    ]  # fmt: skip
    for each in results:
        assert run["tool"]["driver"]["rules"][each["ruleIndex"]]["id"] == each["ruleId"]
        places = each.get("locations", [])
        if uri is None:
            assert places == []
            continue
        (place,) = places
        assert place["physicalLocation"]["artifactLocation"]["uri"] == uri
        assert place["physicalLocation"].get("region", {}).get("startLine") == line


def test_a_function_that_was_handed_over_is_found_by_itself() -> None:
    document = json.loads(check_reports.report(verdict(*MANY), "verdict", code=verdict).sarif())
    place = document["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].endswith("tests/render/test_check.py")
    line = place["region"]["startLine"]
    assert Path(__file__).read_text().splitlines()[line - 1].startswith("def verdict(")


def test_annotations_are_escaped_as_github_reads_them(source: Path) -> None:
    made = check_reports.report(verdict(*MANY, findings=("odd",)), "pack/rope, 1.py:turn")
    lines = made.annotations()
    assert len(lines) == 2
    start = "::error file=pack/rope%2C 1.py,line=4,title=ropecli check%3A rotation::"
    assert lines[0].startswith(start)
    assert "100%25" in lines[0]
    assert "::notice file=" in lines[1]
    assert not any("\n" in line for line in lines)


def test_a_run_that_its_budget_ended_is_neither_passed_nor_failed() -> None:
    cut = verdict(check("norm"), unfinished="12 of 30 checks in 120 s")
    assert cut.passed is None
    first = pages.page(cut, Screen(), target="f")[0]
    assert first == "UNKNOWN  f is not judged yet: 12 of 30 checks in 120 s, none fails"
    assert pages.VIEW.as_json(cut)["passed"] is None
    assert pages.VIEW.as_json(cut)["unfinished"] == "12 of 30 checks in 120 s"
    suite = ElementTree.fromstring(check_reports.report(cut, "f").junit())[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "0", "1")
    (result,) = json.loads(check_reports.report(cut, "f").sarif())["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("budget", "error")
    wrong = verdict(check("norm", passed=False), unfinished="12 of 30 checks in 120 s")
    assert wrong.passed is False
    first = pages.page(wrong, Screen(), target="f")[0]
    assert first == "FAIL  f is not a correct RoPE: 12 of 30 checks in 120 s"
