"""Options of lint and check that a project sets in its pyproject.toml."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from helpers import assert_refused, read_json, read_stdout
from models.lint.cases import CASES


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CASES["R012"].fires))
    return tmp_path


def settings(text: str) -> None:
    Path("pyproject.toml").write_text(text)


def test_values_of_a_project_count_where_an_option_is_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert "1 error" in read_stdout("lint", "config.json", code=1)
    settings('[tool.ropecli.lint]\nignore = ["R012"]\n')
    assert "no findings" in read_stdout("lint", "config.json")
    assert "1 error" in read_stdout("lint", "config.json", "--ignore", "R001", code=1)
    settings('[tool.ropecli.lint]\nfail-on = "never"\n')
    assert "1 error" in read_stdout("lint", "config.json")
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    Path("pyproject.toml").write_text("[tool.other]\n")  # says nothing, so the outer one counts
    assert "1 error" in read_stdout("lint", "../config.json")


def test_check_takes_them_too() -> None:
    settings('[tool.ropecli.check]\nselect = ["norm"]\ndim = 8\n')
    Path("mine.py").write_text("def turn(x):\n    return x\n")
    got = read_json("check", "mine.py:turn", "--context", "16")
    assert (got["parameters"]["select"], got["parameters"]["dim"]) == (["norm"], 8)


def test_other_commands_take_none() -> None:
    settings("[tool.ropecli.lint]\nrules = 3\n")
    assert read_json("decay", "--max-dist", "1")["parameters"]["max_dist"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.ropecli.lnit]\n", "[tool.ropecli] has tables lint and check, got lnit"),
        ("[tool.ropecli.lint]\nfialon = 1\n", "lint has no option 'fialon'; did you mean fail-on?"),
        ('[tool.ropecli.lint]\nignore = "R012"\n', "lint.ignore must be a list, got 'R012'"),
        ("[tool.ropecli.lint]\nfail-on = []\n", "lint.fail-on must be one value, got []"),
        ("[tool", "Expected ']' at the end of a table declaration (at end of document)"),
    ],
)
def test_mistakes_name_the_file(text: str, message: str, folder: Path) -> None:
    settings(text)
    line = assert_refused("lint", "config.json")
    path = folder / "pyproject.toml"
    assert line in (f"{path}: {message}", f"cannot read {path}: {message}")
