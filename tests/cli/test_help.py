"""Help and version: complete, and light."""

from __future__ import annotations

import re
from typing import Any

import pytest
from helpers import ROOT, run_cli, run_python

import ropecli
from ropecli.cli.app import COMMANDS, build, run

GROUP = build()
OPTIONS = [
    (name, option)
    for name, command in [("", GROUP), *GROUP.commands.items()]
    for option in command.params
]


def helped(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(list(arguments)) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_no_arguments_and_both_spellings_give_the_same_help() -> None:
    screens = [run_cli(*arguments) for arguments in ((), ("-h",), ("--help",))]
    for done in screens:
        assert (done.returncode, done.stderr) == (0, "")
    assert len({done.stdout for done in screens}) == 1
    assert screens[0].stdout.startswith("Usage: ropecli")


def test_help_lists_the_built_commands_and_no_others(capsys: pytest.CaptureFixture[str]) -> None:
    listed = helped(capsys, "--help").split("Commands:\n")[1]
    lines = [line for line in listed.splitlines() if line.strip()]
    assert [line.split()[0] for line in lines] == list(COMMANDS)
    assert all(len(line.split()) > 3 for line in lines)  # each with what it does
    for command in COMMANDS:
        assert (ROOT / "ropecli" / "cli" / f"{command}.py").exists()


def test_examples_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ([], *[[name] for name in COMMANDS]):
        usage, examples = helped(capsys, *command, "--help").split("\n\n")[:2]
        assert usage.startswith("Usage: ropecli")
        assert examples.strip().startswith("Examples:\n")
        assert f"ropecli {' '.join(command)}".strip() in examples


@pytest.mark.parametrize("command", COMMANDS)
def test_both_spellings_of_a_commands_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert helped(capsys, command, "-h") == helped(capsys, command, "--help")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = helped(capsys, *command.split(), "--help")
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "option"), OPTIONS, ids=[f"{name}-{option.name}" for name, option in OPTIONS]
)
def test_every_option_says_what_it_does(command: str, option: Any) -> None:
    assert option.help, f"ropecli {command}: {option.name}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_in_the_commands_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = helped(capsys, command, "--help")
    for option in GROUP.commands[command].params:
        for spelling in option.opts:
            assert spelling in text or option.metavar in text


@pytest.mark.parametrize("command", COMMANDS)
def test_json_and_quiet_are_options_of_every_command(command: str) -> None:
    spellings = {word for option in GROUP.commands[command].params for word in option.opts}
    assert {"--json", "--quiet", "-q"} <= spellings


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert helped(capsys, "--version") == f"ropecli {ropecli.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", ropecli.__version__)


def test_help_and_version_load_nothing_heavy() -> None:
    code = f"""
import sys
from ropecli.cli.app import run
for arguments in (["--help"], ["--version"], *([name, "--help"] for name in {COMMANDS})):
    assert run(arguments) == 0
heavy = ["numpy", "numba", "matplotlib", "mpmath", "plotille", "ml_dtypes", "llvmlite"]
loaded = [name for name in heavy if name in sys.modules]
sys.exit(f"loaded: {{loaded}}" if loaded else 0)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.slow
def test_completion_offers_commands_and_options() -> None:
    how = "complete_bash"
    done = run_cli(_ROPECLI_COMPLETE=how, COMP_WORDS="ropecli de", COMP_CWORD="1")
    assert (done.returncode, done.stdout.split()) == (0, ["decay"])
    done = run_cli(_ROPECLI_COMPLETE=how, COMP_WORDS="ropecli decay --max", COMP_CWORD="2")
    assert (done.returncode, done.stdout.split()) == (0, ["--max-dist"])
