"""The lint command: findings as words, as an exit code, as a document, as SARIF."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import assert_refused, read_stdout, run_here
from models.gguf.writer import gguf, save
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


def test_only_an_error_is_exit_code_1() -> None:
    text = read_stdout("lint", "wrong", code=1)
    assert text.startswith("wrong/config.json: 1 error\n\n  error    R012  rope_scaling.attn_")
    assert "Transformers uses 1.1386 (0.1 ln 4 + 1)" in text
    assert read_stdout("lint", "sound") == "sound/config.json: no findings\n"
    assert read_stdout("lint", "noted").startswith("noted/config.json: 1 note\n")


def test_several_files_are_told_in_their_order() -> None:
    path = save(Path(), gguf(llama(rope__freq_base=None)))
    text = read_stdout("lint", "sound", "wrong/config.json", str(path), "-q", code=1)
    assert [line.split(": ")[:2] for line in text.splitlines()] == [
        ["wrong/config.json:11:3", "error R012"],
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
    known = {"source", "rule", "level", "key", "message", "hint", "fix", "line", "column"}
    assert set(finding) == known
    assert (finding["line"], finding["column"], finding["fix"]) == (11, 3, {})
    assert (finding["source"], finding["rule"]) == ("wrong", "R012")


def test_select_and_ignore_decide_what_counts() -> None:
    assert "no findings" in read_stdout("lint", "wrong", "--ignore", "R012")
    assert "no findings" in read_stdout("lint", "wrong", "--select", "R129", "--select", "R010")
    assert "1 error" in read_stdout("lint", "wrong", "--select", "R012", code=1)


def test_rules_are_listed() -> None:
    assert len(read_stdout("lint", "--rules").splitlines()) == len(rules())
    listed = json.loads(read_stdout("lint", "--rules", "--json"))["result"]["rules"]
    assert [each["id"] for each in listed] == list(rules())


@pytest.mark.parametrize("shown", [["--rules"], ["--explain", "R001"]])
@pytest.mark.parametrize("written", [["--fix"], ["--sarif"], ["--sarif", "-o", "out.sarif"]])
def test_rules_are_neither_fixed_nor_written_as_sarif(shown: list[str], written: list[str]) -> None:
    expected = f"{written[0]} cannot be combined with {shown[0]}"
    assert assert_refused("lint", *shown, *written) == expected


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


# Forms of stdout, levels that fail, single rules, patterns.


@pytest.mark.parametrize(
    ("name", "level", "code"),
    [("noted", "warning", 0), ("noted", "note", 1), ("wrong", "never", 0), ("sound", "note", 0)],
)
def test_the_level_that_fails_may_be_chosen(name: str, level: str, code: int) -> None:
    read_stdout("lint", name, "--fail-on", level, code=code)


def test_annotations_of_github() -> None:
    text = read_stdout("lint", "wrong", "noted", "--output-format", "github", code=1)
    first, second = text.splitlines()
    assert first.startswith(
        "::error file=wrong/config.json,line=11,col=3,title=R012 attn_factor is not a key of "
        "config.json::It has no effect in "
    )
    assert second.startswith("::notice file=noted/config.json,line=")


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_form_may_be_named_in_two_ways(form: str) -> None:
    words = ["lint", "wrong"]
    named = read_stdout(*words, "--output-format", form, code=1)
    assert named == read_stdout(*words, f"--{form}", code=1)


def test_a_rule_is_explained() -> None:
    text = read_stdout("lint", "--explain", "r012")
    assert text.startswith("R012  error: attn_factor is not a key of config.json\n\nFinds:   ")
    got = json.loads(read_stdout("lint", "--explain", "R012", "--json"))
    assert got["parameters"] == {"explain": "R012"}
    assert got["result"]["cure"] == rules()["R012"].cure
    assert "rule must be one of R001 to" in assert_refused("lint", "--explain", "R12")
    assert read_stdout("lint", "--explain", "r034") == "R034 is retired: R132 finds its cases.\n"
    got = json.loads(read_stdout("lint", "--explain", "R034", "--json"))["result"]
    assert got == {"id": "R034", "by": "R132"}
    refused = assert_refused("lint", "wrong", "--ignore", "R034")
    assert refused == "rule R034 is retired: R132 finds its cases"


def test_sources_may_be_patterns() -> None:
    text = read_stdout("lint", "*/config.json", "--quiet", code=1)
    names = [line.split(":")[0] for line in text.splitlines()]
    assert names == ["noted/config.json", "wrong/config.json"]
    assert assert_refused("lint", "x*.json") == "no file matches x*.json"


# Cures.

#: Keys that the fixes are for, next to those of a sound file; and the same keys after them.
CURED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "misspelt": ({"rope_theta": None, "rope_teta": 5e5}, {"rope_theta": 5e5}),
    "an integer": (
        {"rope_scaling": {"attention_factor": 1}},
        {"rope_scaling": {"attention_factor": 1.0}},
    ),
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}


def _with(keys: dict[str, Any]) -> dict[str, Any]:
    """A yarn configuration with other keys; None removes one."""
    made = config(max_position_embeddings=131_072, rope_theta=1e6, rope_scaling=dict(YARN))
    for name, value in keys.items():
        if isinstance(value, dict):
            made[name] |= value
        else:
            made[name] = value
    return {name: value for name, value in made.items() if value is not None}


@pytest.mark.parametrize("case", CURED)
def test_a_cure_that_is_certain_is_written_into_a_copy(case: str) -> None:
    before, after = map(_with, CURED[case])
    path = Path("config.json")
    path.write_text(json.dumps(before, indent=2))
    text = read_stdout("lint", "config.json", "--fix", "--fail-on", "never")
    assert re.search(
        r"\nFixed: R\d+(, R\d+)*\n--- config.json\n\+\+\+ config.fixed.json\n@@ ", text
    )
    assert text.endswith("\n\nWritten: config.fixed.json\n")
    assert json.loads(path.read_text()) == before
    assert json.loads(Path("config.fixed.json").read_text()) == after
    fixed = {each.rule for each in ropecli.lint("config.fixed.json")}
    assert fixed < {each.rule for each in ropecli.lint("config.json")}


#: A file as a person writes it, and what of it is fixed.
WRITTEN = """{
  "model_type": "llama",   "hidden_size": 4096, "num_attention_heads":32,
  "max_position_embeddings": 131072, "name": "\\u00e9é {[", "eos": [1,
     2, 3 ],
  "rope_theta": "1e6",
  "rope_scaling": { "rope_type": "yarn", "facto": 4.0, "foo": [ 1, 2 ],
    "original_max_position_embeddings": "32768", "low_freq_factor": 1 }
}

"""
FIXED = (
    ('"1e6"', "1000000.0"),
    ('"facto"', '"factor"'),
    (', "foo": [ 1, 2 ]', ""),
    ('"32768"', "32768"),
    (', "low_freq_factor": 1', ""),
)


def test_every_certain_cure_is_written_and_nothing_else_is_changed() -> None:
    Path("config.json").write_text(WRITTEN)
    read_stdout("lint", "config.json", "--fix", "-o", "new.json", "--fail-on", "never")
    expected = WRITTEN
    for before, after in FIXED:
        expected = expected.replace(before, after)
    assert Path("new.json").read_text() == expected
    assert [each for each in ropecli.lint("new.json") if each.fix] == []


LINEAR = '{"type": "linear", "factor": 2.0}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"foo": 1, "type": "linear", "factor": 2.0}', LINEAR),
        ('{"type": "linear", "factor": 2.0, "foo": 1}', LINEAR),
        ('{"foo": 1, "bar": 2, "type": "linear", "factor": 2.0}', LINEAR),
        ('{"type": "linear", "factor": 2.0, "bar": 2, "foo": 1}', LINEAR),
        ('{"foo": 1}', "{}"),
        ('{"type": "linear", "factor": null, "facto": 2.0}', LINEAR),
        ('{"type": "linear", "facto": 2.0, "fator": 3.0}', LINEAR),
        ('{"foo": 1, "type": "linear", "factor": 2.0, "foo": 2}',) * 2,  # R003: which is meant?
    ],
)
def test_a_key_is_removed_with_its_comma_and_renamed_in_place(before: str, after: str) -> None:
    text = '{{"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8,\n"rope_theta": '
    text += '1e4, "max_position_embeddings": 4096, "rope_scaling": {}, "x": [1,2]}}'
    Path("config.json").write_text(text.format(before))
    read_stdout("lint", "config.json", "--fix", "-o", "new.json", "--fail-on", "never")
    if before != after:
        assert Path("new.json").read_text() == text.format(after)
    assert Path("new.json").exists() is (before != after)


def test_nothing_is_written_where_no_cure_is_certain() -> None:
    text = read_stdout("lint", "wrong", "--fix", code=1)
    assert text.endswith("\nNo finding has a safe automatic fix: nothing is written.\n")
    assert [path.name for path in Path("wrong").iterdir()] == ["config.json"]


def test_fixes_that_are_refused() -> None:
    Path("config.json").write_text(json.dumps(_with(CURED["misspelt"][0])))
    Path("config.fixed.json").touch()
    assert "exists; pass --force" in assert_refused("lint", "config.json", "--fix")
    assert "takes one config.json, got 2" in assert_refused("lint", "wrong", "sound", "--fix")
    path = save(Path(), gguf(llama(rope__freq_base=None)))
    line = "only a config.json can be fixed, got x.gguf"
    assert assert_refused("lint", str(path), "--fix") == line
    got = json.loads(read_stdout("lint", "config.json", "--fix", "--force", "--json", code=1))
    assert got["result"]["fixed"]["rules"] == ["R010"]


def test_github_gets_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mconfig.json"
    path.write_text(json.dumps(CASES["R012"].fires))
    text = read_stdout("lint", path, "--output-format", "github", code=1)
    assert "\x1b" not in text
    assert "\\x1b[31mconfig.json" in text
