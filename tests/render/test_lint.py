"""Words of `lint`, from findings made by hand."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ropecli import Finding
from ropecli.models.lint.rule import rules
from ropecli.render import console
from ropecli.render import lint as pages


def finding(rule: str = "R012", **fields: str) -> Finding:
    known = {
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


def test_one_block_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show("config.json", FOUND, brief=False)
    assert capsys.readouterr() == (PAGE, "")


def test_no_findings_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show("a [b].json", [], brief=False)
    assert capsys.readouterr().out == "a [b].json: no findings\n"


def test_levels_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show("x", [finding(), finding(), finding("R031"), finding("R034")], brief=False)
    assert capsys.readouterr().out.startswith("x: 2 errors, 2 notes\n")


def test_brief_is_one_line_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show("config.json", FOUND, brief=True)
    pages.show("clean.json", [], brief=True)
    assert capsys.readouterr().out == (
        "config.json: error R012: rope_scaling.attn_factor: Transformers ignores it and uses "
        "1.1386 (0.1 ln 4 + 1).\nconfig.json: warning R003: It stands twice.\n"
    )


def test_a_terminal_is_not_overrun(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, width=60, highlight=False, soft_wrap=True, force_terminal=True)
    monkeypatch.setattr(console, "out", lambda: terminal)
    pages.show("config.json", FOUND, brief=False)
    text = screen.getvalue()
    assert "\x1b[1;31merror\x1b[0m" in text
    assert "\x1b[33mwarning\x1b[0m" in text
    plain = text.replace("\x1b[1;31m", "").replace("\x1b[33m", "").replace("\x1b[0m", "")
    assert max(map(len, plain.splitlines())) <= 60
    indented = [line for line in plain.splitlines() if line.startswith(" " * 17)]
    assert len(indented) > 2 * len(FOUND)


def test_letters_that_are_none_are_spelt_out(capsys: pytest.CaptureFixture[str]) -> None:
    odd = finding(key="a\nb", message="c\x1b[0md.", hint="e\tf.")
    pages.show("g\nh", [odd], brief=False)
    pages.show("g\nh", [odd], brief=True)
    out = capsys.readouterr().out
    assert r"a\nb: attn_factor" in out
    assert r"c\x1b[0md." in out
    assert r"e\tf." in out
    assert r"g\nh: error R012: a\nb: c" in out
    assert "\x1b" not in out


def test_lines_for_another_page() -> None:
    lines = pages.lines_of(FOUND)
    assert lines == ["lint: 1 error, 1 warning", *PAGE.splitlines()[2:]]
    assert pages.lines_of([]) == ["lint: no findings"]


def test_document() -> None:
    assert pages.as_json([("a", FOUND[:1]), ("b", []), ("c", FOUND[1:])]) == {
        "findings": [
            {
                "source": "a",
                "rule": "R012",
                "level": "error",
                "key": "rope_scaling.attn_factor",
                "message": FOUND[0].message,
                "hint": FOUND[0].hint,
            },
            {
                "source": "c",
                "rule": "R003",
                "level": "warning",
                "key": "",
                "message": "It stands twice.",
                "hint": "Leave one.",
            },
        ]
    }


def test_rules_are_listed_with_level_and_title(capsys: pytest.CaptureFixture[str]) -> None:
    pages.show_rules()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(rules())
    assert "R012  error    attn_factor is not a key of config.json" in lines
    listed = pages.rules_as_json()["rules"]
    assert [each["id"] for each in listed] == list(rules())
    assert listed[0]["fires"].startswith("A file that can be read")
