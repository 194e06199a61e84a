"""Options of lint and check that a project sets in its pyproject.toml."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from pathlib import Path

import pytest
from helpers import (
    ROOT,
    assert_refused,
    for_each,
    read_json,
    read_output,
    read_stdout,
    run_cli,
    run_python,
)
from models.lint.cases import CASES

from ropecli.cli.app import build

NEVER = '[tool.ropecli.lint]\nfail-on = "never"\n'
NESTED = f"x = {'[' * 5000}{']' * 5000}\n"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(CASES["R012"].fires))
    return tmp_path


def settings(text: str) -> None:
    Path("pyproject.toml").write_text(text)


@pytest.mark.slow
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


@pytest.mark.slow
def test_check_takes_them_too() -> None:
    settings('[tool.ropecli.check]\nselect = ["rotation"]\ndim = 8\n')
    Path("mine.py").write_text("def turn(x):\n    return x\n")
    got = read_json("check", "mine.py:turn", "--context", "16", code=1)
    assert (got["parameters"]["select"], got["parameters"]["dim"]) == (["rotation"], 8)


def test_other_commands_take_none() -> None:
    settings("[tool.ropecli.lint]\nrules = 3\n")
    assert read_json("decay", "--max-dist", "1")["parameters"]["max_dist"] == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.ropecli.lnit]\n", "[tool.ropecli] has tables lint and check, got lnit"),
        ("[tool.ropecli.lint]\nfialon = 1\n", "lint has no option 'fialon'; did you mean fail-on?"),
        (
            '[tool.ropecli.lint]\nignore = "R012"\n',
            "lint.ignore must be a list, got 'R012'",
        ),
        (
            "[tool.ropecli.lint]\nfail-on = []\n",
            "lint.fail-on must be one value, got []",
        ),
        ("[tool.ropecli.lint]\njson = 1\n", "lint.json must be true or false, got 1"),
        ("[tool]\nropecli = 3\n", "[tool.ropecli] must be a table, got 3"),
        ("[tool.ropecli]\nlint = 3\n", "lint must be a table, got 3"),
        (NESTED, "it is nested too deeply"),
        ("#" * 2**21, "it is larger than 1,048,576 bytes"),
        ("[tool", "Expected ']' at the end of a table declaration (at end of document)"),
    ],
)
def test_mistakes_name_the_file(text: str, message: str, folder: Path) -> None:
    settings(text)
    line = assert_refused("lint", "config.json")
    path = folder / "pyproject.toml"
    assert line in (f"{path}: {message}", f"cannot read {path}: {message}")


@for_each("key", ["dim", "base", "seed", "tolerance", "timeout", "axes", "context"])
def test_what_is_no_value_of_an_option_names_it(key: str) -> None:
    for value in ("2020-01-01", "{a = 1}", "true", "[{a = 1}]"):
        settings(f"[tool.ropecli.check]\n{key} = {value}\n")
        assert f"pyproject.toml: check.{key} must be " in assert_refused("check", "mine.py:turn")
    settings("[tool.ropecli]\ncheck = [1]\n")
    assert "check must be a table, got [1]" in assert_refused("check", "mine.py:turn")


def test_tables_of_others_are_not_read() -> None:
    settings("tool = 3\n")
    assert "1 error" in read_stdout("lint", "config.json", code=1)


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        ("lint", "output", '"out.json"'),
        ("lint", "force", "true"),
        ("lint", "fix", "true"),
        ("lint", "sarif", "true"),
        ("check", "call", '"turn(x)"'),
        ("check", "with", '"evil.py:apply"'),
        ("check", "command", '"touch run"'),
        ("check", "init", '["a=1"]'),
        ("check", "framework", '"torch"'),
        ("check", "model", '"example:llama-3.1-8b"'),
        ("check", "write", '"out.json"'),
        ("check", "junit", '"out.xml"'),
        ("check", "sarif", '"out.sarif"'),
        ("check", "save-failure", '"out.npz"'),
        ("check", "force", "true"),
    ],
)
def test_an_option_that_writes_or_runs_is_refused_by_name(
    command: str, key: str, value: str, folder: Path
) -> None:
    Path("evil.py").write_text('open("run", "w")\ndef turn(x):\n    return x\n')
    settings(f"[tool.ropecli.{command}]\n{key} = {value}\n")
    before = sorted(folder.iterdir())
    line = assert_refused(command, "config.json" if command == "lint" else "evil.py:turn")
    assert f"pyproject.toml: {command}.{key} can be set on the command line only" in line
    assert sorted(folder.iterdir()) == before


@for_each("command", ["lint", "check"])
def test_nothing_that_may_be_set_is_a_path(command: str) -> None:
    module = importlib.import_module(f"ropecli.cli.{command}")
    options = {p.opts[-1].removeprefix("--"): p for p in build((command,)).commands[command].params}
    hints = inspect.signature(getattr(module, command)).parameters
    for key in module.FROM_PROJECT:
        assert "Path" not in str(hints[options[key].name].annotation), key
    row = f"| `{command}` | {', '.join(f'`{key}`' for key in module.FROM_PROJECT)} |"
    assert row in (ROOT / "docs/commands/lint.md").read_text().splitlines()


@AS_ROOT
@pytest.mark.slow
def test_a_file_of_another_user_is_named_and_not_obeyed(folder: Path) -> None:
    inner, path = folder / "inner", folder / "pyproject.toml"
    inner.mkdir()

    def stderr_with(text: str) -> str:
        settings(text)
        os.chown(path, 4321, -1)
        done = run_cli("lint", folder / "config.json", cwd=inner)
        assert done.returncode == 1
        return done.stderr

    reason = "it belongs to user 4321, not to user 0"
    assert stderr_with(NEVER) == f"note: {path} is not obeyed: {reason}\n"
    for text in ("[tool", "[tool.other]\n", NESTED):  # one that says nothing, or can't be read
        assert stderr_with(text) == ""


def test_a_file_that_others_may_write_is_not_obeyed(folder: Path) -> None:
    settings(NEVER)
    path = folder / "pyproject.toml"
    path.chmod(0o646)
    _, said = read_output("lint", "config.json", code=1)
    assert said == f"note: {path} is not obeyed: every user may write it\n"
    assert read_output("lint", "config.json", "-q", code=1)[1] == ""
    path.chmod(0o644)
    read_output("lint", "config.json")


@AS_ROOT
def test_a_group_may_write_where_it_is_the_users_alone(folder: Path) -> None:
    settings(NEVER)
    path = folder / "pyproject.toml"
    path.chmod(0o664)
    read_output("lint", "config.json")
    os.chown(path, -1, 4321)
    assert "group 4321 may write it" in read_output("lint", "config.json", code=1)[1]


@AS_ROOT
def test_a_link_is_obeyed_where_it_and_its_file_are_the_users(folder: Path) -> None:
    path, file = folder / "pyproject.toml", folder / "mine.toml"
    file.write_text(NEVER)
    path.symlink_to(file)
    read_output("lint", "config.json")
    os.chown(path, 4321, -1, follow_symlinks=False)
    assert "is not obeyed" in read_output("lint", "config.json", code=1)[1]
    os.chown(path, 0, -1, follow_symlinks=False)
    os.chown(file, 4321, -1)
    assert "is not obeyed" in read_output("lint", "config.json", code=1)[1]


def test_what_is_not_a_file_is_passed_over(folder: Path) -> None:
    path = folder / "pyproject.toml"
    os.mkfifo(path)  # opening it would wait for ever
    read_stdout("lint", "config.json", code=1)
    path.unlink()
    path.symlink_to("nothing")
    read_stdout("lint", "config.json", code=1)
    path.unlink()
    path.mkdir()
    read_stdout("lint", "config.json", code=1)


@pytest.mark.slow
def test_a_folder_that_was_removed_has_no_settings(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    code = "import os, sys, runpy\nos.rmdir(os.getcwd())\n"
    code += f"sys.argv = ['ropecli', 'lint', {str(folder / 'config.json')!r}]\n"
    done = run_python(code + "runpy.run_module('ropecli', run_name='__main__')", cwd=inner)
    assert (done.returncode, done.stderr) == (1, "")
