"""Messages of `lint`, from findings made by hand."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ropecli import Finding
from ropecli.models.lint.report import LintedFile, LintReport
from ropecli.models.lint.rule import rules
from ropecli.render import console, view_of
from ropecli.render import lint as pages
from ropecli.render.console import Screen
from ropecli.results import ResultGroup


def finding(rule: str = "R012", **fields: str) -> Finding:
    known: dict[str, Any] = {
        "level": rules()[rule].level,
        "key": "rope_scaling.attn_factor",
        "message": "Transformers ignores it and uses 1.1386 (0.1 ln 4 + 1).",
        "hint": "Call it attention_factor, with the value that was meant in the first place.",
    }
    return Finding(rule=rule, **{**known, **fields})


FOUND = [finding(), finding("R003", key="", message="It stands twice.", hint="Leave one.")]
PAGE = """\
config.json: 1 error, 1 warning

  error    R012  rope_scaling.attn_factor: attn_factor is not a key of config.json
                 Transformers ignores it and uses 1.1386 (0.1 ln 4 + 1).
                 Call it attention_factor, with the value that was meant in the first place.
  warning  R003  a repeated key
                 It stands twice.
                 Leave one.
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("config.json", "a [b].json", "clean.json", "g\nh"):
        Path(name).touch()


def lines_of(*files: tuple[str, list[Finding]], width: int = 1000, brief: bool = False) -> str:
    linted = [
        LintedFile(source=name, path=Path(name), findings=tuple(found), places={})
        for name, found in files
    ]
    report = LintReport(files=tuple(linted))
    return "\n".join([*pages.page(report, Screen(width=width, brief=brief)), ""])


def test_one_block_a_finding() -> None:
    assert lines_of(("config.json", FOUND)) == PAGE


def test_levels_are_counted() -> None:
    found = [finding(), finding(), finding("R031"), finding("R132")]
    assert lines_of(("config.json", found)).startswith("config.json: 2 errors, 2 notes\n")


def test_a_finding_prints_its_consequences_and_its_fix() -> None:
    first, second = FOUND
    assert str(first) == (
        "error R012: rope_scaling.attn_factor: Transformers ignores it and uses 1.1386 "
        "(0.1 ln 4 + 1). Call it attention_factor, with the value that was meant in the first "
        "place."
    )
    assert str(second) == "warning R003: It stands twice. Leave one."
    assert second._repr_html_() == "<pre>warning R003: It stands twice. Leave one.</pre>"


def test_a_terminal_is_not_overrun(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, width=60, highlight=False, soft_wrap=True, force_terminal=True)
    monkeypatch.setattr(console, "out", lambda: terminal)
    console.show(lines_of(("config.json", FOUND), width=60).splitlines(), Screen(width=60))
    text = screen.getvalue()
    assert "\x1b[1;31merror\x1b[0m" in text
    assert "\x1b[33mwarning\x1b[0m" in text
    plain = text.replace("\x1b[1;31m", "").replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 60
    indented = [line for line in plain.splitlines() if line.startswith(" " * 17)]
    assert len(indented) > 2 * len(FOUND)


def test_letters_that_are_none_are_spelt_out() -> None:
    odd = finding(key="a\nb", message="c\x1b[0md.", hint="e\tf.")
    out = lines_of(("g\nh", [odd])) + lines_of(("g\nh", [odd]), brief=True)
    assert r"a\nb: attn_factor" in out
    assert r"c\x1b[0md." in out
    assert r"e\tf." in out
    assert r"g\nh: error R012: a\nb: c" in out
    assert "\x1b" not in out
    assert str(odd) == r"error R012: a\nb: c\x1b[0md. e\tf."


def test_lines_for_another_page() -> None:
    lines = pages.lines_of(FOUND, 100)
    assert lines == ["lint: 1 error, 1 warning", *PAGE.splitlines()[2:]]
    assert pages.lines_of([], 100) == ["lint: no findings"]


def test_rules_are_listed_with_level_and_title() -> None:
    every = ResultGroup(results=tuple(rules().values()))
    lines = str(every).splitlines()
    assert len(lines) == len(rules())
    assert "R012  error    attn_factor is not a key of config.json" in lines
    listed = view_of(every).as_json(every)["rules"]
    assert [each["id"] for each in listed] == list(rules())
    assert listed[0]["fires"].startswith("A file that can be read")
