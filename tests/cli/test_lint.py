"""The lint command: findings as words, as an exit code, as a document, as SARIF."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from helpers import assert_refused, read_stdout, run_here
from models.gguf.writer import gguf, saved
from models.lint.cases import CASES, config, llama

import ropecli
from ropecli.models.lint.rule import rules

WRONG, NOTED = CASES["R012"].fires, CASES["R034"].fires
SOUND = config(max_position_embeddings=16_384)  # which the base holds


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in {"wrong": WRONG, "sound": SOUND, "noted": NOTED}.items():
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(content, indent=1))
    return tmp_path


def test_an_error_is_told_and_is_exit_code_1() -> None:
    text = read_stdout("lint", "wrong", code=1)
    assert text.startswith("wrong/config.json: 1 error\n\n  error    R012  rope_scaling.attn_")
    assert "Transformers uses 1.1386 (0.1 ln 4 + 1)" in text


def test_sound_and_noted_files_are_exit_code_0() -> None:
    assert read_stdout("lint", "sound") == "sound/config.json: no findings\n"
    assert read_stdout("lint", "noted").startswith("noted/config.json: 1 note\n")


def test_several_files_are_told_in_their_order() -> None:
    path = saved(Path(), gguf(llama(rope__freq_base=None)))
    text = read_stdout("lint", "sound", "wrong/config.json", str(path), "-q", code=1)
    assert [line.split(": ")[:2] for line in text.splitlines()] == [
        ["wrong/config.json", "error R012"],
        ["x.gguf", "warning R102"],
    ]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.BytesIO(json.dumps(WRONG).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    assert read_stdout("lint", "-", code=1).startswith("standard input: 1 error\n")


def test_document() -> None:
    text = read_stdout("lint", "wrong", "sound", "--json", "--ignore", "R004", code=1)
    got = json.loads(text)
    assert (got["schema"], got["version"]) == ("ropecli.lint/1", ropecli.__version__)
    assert got["parameters"] == {"sources": ["wrong", "sound"], "select": [], "ignore": ["R004"]}
    (finding,) = got["result"]["findings"]
    assert set(finding) == {"source", "rule", "level", "key", "message", "hint"}
    assert (finding["source"], finding["rule"]) == ("wrong", "R012")


def test_select_and_ignore_decide_what_counts() -> None:
    assert "no findings" in read_stdout("lint", "wrong", "--ignore", "R012")
    assert "no findings" in read_stdout("lint", "wrong", "--select", "R011", "--select", "R010")
    assert "1 error" in read_stdout("lint", "wrong", "--select", "R012", code=1)


def test_rules_are_listed() -> None:
    assert len(read_stdout("lint", "--rules").splitlines()) == len(rules())
    listed = json.loads(read_stdout("lint", "--rules", "--json"))["result"]["rules"]
    assert [each["id"] for each in listed] == list(rules())


def test_sarif_on_stdout() -> None:
    got = json.loads(read_stdout("lint", "wrong", "sound", "--sarif", code=1))
    (result,) = got["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "wrong/config.json"},
        "region": {"startLine": 11},
    }
    assert '"attn_factor"' in Path("wrong/config.json").read_text().splitlines()[10]


def test_sarif_in_a_file_beside_the_words() -> None:
    text = read_stdout("lint", "wrong", "--sarif", "-o", "out.sarif", code=1)
    assert text.startswith("wrong/config.json: 1 error")
    whole = Path("out.sarif").read_text()
    assert json.loads(whole)["version"] == "2.1.0"
    assert "--force" in assert_refused("lint", "wrong", "--sarif", "-o", "out.sarif")
    assert read_stdout("lint", "wrong", "--sarif", "-o", "out.sarif", "--force", code=1) == text
    assert Path("out.sarif").read_text() == whole
    both = read_stdout("lint", "sound", "--sarif", "--json", "-o", "out.sarif", "--force")
    assert json.loads(both)["result"] == {"findings": []}


def test_files_that_can_be_read_are_told_beside_those_that_cannot() -> None:
    Path("broken.json").write_text("{")
    done = run_here("lint", "missing.json", "wrong", "broken.json")
    assert done.returncode == 2
    assert done.stdout.startswith("wrong/config.json: 1 error\n")
    first, second = done.stderr.splitlines()
    assert first == "error: cannot read missing.json: No such file or directory"
    assert second.startswith("error: broken.json is not valid JSON")


def test_files_stand_apart_from_both_sides() -> None:
    lines = read_stdout("lint", "sound", "wrong", "sound", "noted", code=1).splitlines()
    heads = [i for i, line in enumerate(lines) if "config.json: " in line and line[0] != " "]
    assert len(heads) == 4
    assert heads[0] == 0
    assert all(lines[i - 1] == "" != lines[i - 2] for i in heads[1:])
