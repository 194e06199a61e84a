"""The lint command: the order of its words, files of SARIF, and fixed copies."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers import assert_refused, read_output, read_stdout, run_here
from models.lint.cases import CASES, config

import ropecli

WRONG, NOTED = CASES["R012"].fires, CASES["R034"].fires
SOUND = config(max_position_embeddings=16_384)  # which the base holds


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, content in {"wrong": WRONG, "sound": SOUND, "noted": NOTED}.items():
        Path(name).mkdir()
        Path(name, "config.json").write_text(json.dumps(content, indent=1))
    return tmp_path


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    given = io.BytesIO(json.dumps(WRONG).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(given))
    assert read_stdout("lint", "-", code=1).startswith("standard input: 1 error\n")


def test_sarif_in_a_file_beside_the_words() -> None:
    text, err = read_output("lint", "wrong", "--sarif", "out.sarif", code=1)
    assert err == "note: out.sarif written\n"
    assert text.startswith("wrong/config.json: 1 error")
    whole = Path("out.sarif").read_text()
    assert json.loads(whole)["version"] == "2.1.0"
    assert "--force" in assert_refused("lint", "wrong", "--sarif", "out.sarif")
    assert read_output("lint", "wrong", "--sarif", "out.sarif", "--force", code=1)[0] == text
    assert Path("out.sarif").read_text() == whole
    both, _ = read_output("lint", "sound", "--sarif", "out.sarif", "--json", "--force")
    assert json.loads(both)["result"] == {"findings": []}


def test_files_that_can_be_read_are_told_beside_those_that_cannot() -> None:
    Path("broken.json").write_text("{")
    done = run_here("lint", "missing.json", "wrong", "broken.json")
    assert done.returncode == 2
    assert done.stdout.startswith("wrong/config.json: 1 error\n")
    first, second = done.stderr.splitlines()
    assert first == "error: cannot read missing.json: No such file or directory"
    assert second.startswith("error: broken.json is not valid JSON")
    for form in (["--json"], ["--sarif", "x.sarif"], ["--junit", "x.xml"]):
        assert run_here("lint", "wrong", "broken.json", *form).stdout == ""


def test_files_stand_apart_from_both_sides() -> None:
    lines = read_stdout("lint", "sound", "wrong", "sound", "noted", code=1).splitlines()
    heads = [i for i, line in enumerate(lines) if "config.json: " in line and line[0] != " "]
    assert len(heads) == 4
    assert lines[:2] == ["4 files: 1 error, 1 note in 2 of them", ""]
    assert heads[0] == 2
    assert all(lines[i - 1] == "" != lines[i - 2] for i in heads[1:])


# Forms of stdout.


def test_annotations_of_github() -> None:
    done = run_here("lint", "wrong", "noted", "--github")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "2 files: 1 error, 1 note in 2 of them\n\nwrong/config.json: 1 error\n"
    )
    first, second = done.stderr.splitlines()
    assert first.startswith(
        "::error file=wrong/config.json,line=11,col=3,title=R012 attn_factor is not a key of "
        "config.json::It has no effect in "
    )
    assert second.startswith("::notice file=noted/config.json,line=")


@pytest.mark.slow
def test_junit_has_a_case_for_each_finding_that_fails_and_each_file_without_one() -> None:
    def cases(*words: str, code: int) -> list[tuple[str | None, ...]]:
        read_stdout("lint", "wrong", "sound", "noted", *words, "-q", "--junit", "a.xml", code=code)
        found = ElementTree.parse("a.xml").iter("testcase")
        named = [
            (each.get("classname"), each.get("name"), *(below.tag for below in each))
            for each in found
        ]
        Path("a.xml").unlink()
        return named

    wrong, sound, noted = (f"{name}/config.json" for name in ("wrong", "sound", "noted"))
    error = (wrong, "R012 rope_scaling.attn_factor", "failure")
    passing = [(sound, "no findings"), (noted, "1 note")]
    assert cases(code=1) == [error, *passing]
    assert cases("--fail-on", "never", code=0) == [(wrong, "1 error"), *passing]
    (*_, last) = cases("--fail-on", "note", code=1)
    assert last[0] == noted
    assert last[2] == "failure"


def test_a_folder_stands_for_the_models_in_it() -> None:
    Path("more", ".git").mkdir(parents=True)
    for name in ("wrong", "sound"):
        Path(name).rename(Path("more", name))
    Path("more", ".git", "config.json").write_text("{}")
    first, _, second, *_ = read_stdout("lint", "more", code=1).splitlines()
    assert (first, second) == (
        "2 files: 1 error in more/wrong/config.json",
        "more/sound/config.json: no findings",
    )
    named = read_stdout("lint", "more", "--json", code=1)
    sources = json.loads(named)["parameters"]["sources"]
    assert sources == ["more/sound/config.json", "more/wrong/config.json"]
    Path("empty").mkdir()
    assert "empty holds no config.json" in assert_refused("lint", "empty")


def test_a_retired_rule_is_explained_by_the_one_that_finds_its_cases() -> None:
    assert read_stdout("lint", "--explain", "r034") == "R034 is retired: R132 finds its cases.\n"
    got = json.loads(read_stdout("lint", "--explain", "R034", "--json"))["result"]
    assert got == {"id": "R034", "by": "R132"}
    refused = assert_refused("lint", "wrong", "--ignore", "R034")
    assert refused == "rule R034 is retired: R132 finds its cases"


# Cures.


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


def test_github_gets_no_control_characters(tmp_path: Path) -> None:
    path = tmp_path / "\x1b[31mconfig.json"
    path.write_text(json.dumps(CASES["R012"].fires))
    text = run_here("lint", path, "--github").stderr
    assert "\x1b" not in text
    assert "\\x1b[31mconfig.json" in text
