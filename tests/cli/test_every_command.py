"""Promises of every command: its help, its document, its page, and its output in a pipe."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from cli.samples import FAILING, RUNS, write_files
from golden import assert_golden
from helpers import (
    ROOT,
    assert_refused,
    oracle,
    read_output,
    read_stdout,
    run_cli,
    run_here,
    run_python,
    slow,
)

import ropecli
from ropecli.cli import completion
from ropecli.cli.app import COMMANDS, DROPPED, GROUPS, RENAMED, build

GROUP = build()
SLOW = ("check", "identify", "vectors", "permute")
EACH = pytest.mark.parametrize("command", COMMANDS)
#: Of runs, of which some take half a second.
EACH_RUN = pytest.mark.parametrize(
    "command", [*sorted({*COMMANDS} - {*SLOW, "trace"}), *slow(*SLOW), *oracle("trace")]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    write_files(folder)
    return folder


# Help and version.


def test_no_arguments_and_both_spellings_give_the_same_help() -> None:
    screens = [run_cli(*arguments) for arguments in ((), ("-h",), ("--help",))]
    for done in screens:
        assert (done.returncode, done.stderr) == (0, "")
    assert len({done.stdout for done in screens}) == 1
    assert screens[0].stdout.startswith("Usage: ropecli")


def test_help_lists_the_built_commands_and_no_others() -> None:
    text = read_stdout("--help")
    for heading, names in GROUPS.items():
        lines = text.split(f"\n{heading}:\n")[1].split("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == list(names)
        assert all(len(line.split()) > 3 for line in lines)  # each with what it does
    for command in COMMANDS:
        assert (ROOT / "ropecli" / "cli" / f"{command.replace('-', '_')}.py").exists()


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_begins_with_examples_and_fits_80_columns(command: str) -> None:
    text = read_stdout(*command.split(), "--help")
    usage, examples = text.split("\n\n")[:2]
    assert usage.startswith("Usage: ropecli")
    assert examples.strip().startswith("Examples:\n")
    assert f"ropecli {command}".strip() in examples
    assert max(map(len, text.splitlines())) <= 80
    assert not set("{}<>") & set(usage)  # arguments are named as a user would
    assert "[[" not in usage
    assert "<list" not in text
    assert read_stdout(*command.split(), "-h") == text
    assert read_stdout("help", *command.split()) == text


@pytest.mark.parametrize("command", [*sorted({*COMMANDS} - {"report"}), *slow("report")])
def test_output_in_the_help_is_what_the_example_prints(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = (GROUP.commands[command].help or "").partition("\n\n")[0].splitlines()[2:]
    lines = [each.strip() for each in examples]
    outputs = [each for each in lines if not each.startswith("ropecli ")]
    analysis = ROOT / "ropecli" / "analyses" / f"{command.replace('-', '_')}.py"
    assert outputs or command == "info" or not analysis.exists()
    line = ""
    printed = ""
    while outputs:
        each = lines.pop(0)
        if each.startswith("ropecli "):  # one without output may write what the next one reads
            line, printed = each, read_stdout(*shlex.split(each)[1:])
        else:
            assert each in printed, f"{line} does not print {each!r}"
            outputs.pop(0)


@EACH
def test_an_option_given_twice_is_a_list_or_refused(command: str) -> None:
    for option in GROUP.commands[command].params:
        if option.param_type_name == "option" and not option.is_flag and not option.multiple:
            words = [option.opts[0], "1"] * 2
            line = assert_refused(command, *words)
            assert line == f"{'/'.join(option.opts)} takes one value, got 2"


@EACH
def test_every_option_is_in_the_help(command: str) -> None:
    text = read_stdout(command, "--help")
    parameters = GROUP.commands[command].params
    assert {"--json", "--quiet", "-q"} <= {word for option in parameters for word in option.opts}
    for option in parameters:
        for spelling in option.opts:
            assert spelling in text or option.metavar in text


@pytest.mark.parametrize("words", [["table"], ["table", "--dim", "4"], ["help", "table"]])
def test_an_old_name_is_answered_with_the_new_one(words: list[str]) -> None:
    assert assert_refused(*words) == "'table' is now 'frequencies'"


@pytest.mark.parametrize(("old", "new"), RENAMED.items())
def test_new_names_are_commands(old: str, new: str) -> None:
    assert old not in COMMANDS
    command, *options = new.split()
    known = {word for option in GROUP.commands[command].params for word in option.opts}
    assert {word for word in options if word.startswith("-")} <= known


@pytest.mark.parametrize(("command", "option"), DROPPED)
def test_a_dropped_option_says_what_to_do_instead(command: str, option: str) -> None:
    expected = f"{command} has no {option} any more: {DROPPED[command, option]}"
    assert assert_refused(command, option) == expected
    assert assert_refused("info", option).startswith(f"No such option: {option}; see")


def test_version() -> None:
    assert read_stdout("--version") == f"ropecli {ropecli.__version__}\n"
    assert read_stdout("-V") == read_stdout("version") == read_stdout("--version")
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
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_completion_offers_commands_and_options() -> None:
    for words, number, offered in [
        ("ropecli de", "1", ["decay"]),
        ("ropecli decay --max", "2", ["--max-dist"]),
        ("ropecli decay --layout ", "3", ["interleaved", "half"]),
        ("ropecli scores --encoding rope,t5,tu", "3", ["rope,t5,tupe"]),
    ]:
        done = run_cli(_ROPECLI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=number)
        assert (done.returncode, done.stdout.split()) == (0, offered)
    for shell in ("zsh", "fish"):
        done = run_cli(
            _ROPECLI_COMPLETE=f"complete_{shell}",
            _TYPER_COMPLETE_ARGS="ropecli lint --explain R11",
            _TYPER_COMPLETE_FISH_ACTION="get-args",
        )
        assert done.returncode == 0
        assert re.findall(r"R\d+", done.stdout) == [f"R11{i}" for i in range(7)]


@pytest.mark.parametrize("place", completion.VALUES)
def test_values_that_the_shell_completes(place: str) -> None:
    command, _, parameter = place.rpartition(".")
    takes = [
        name for name, each in GROUP.commands.items() if parameter in {p.name for p in each.params}
    ]
    complete = completion.completer(command or takes[0], parameter)
    assert complete is not None
    names = complete("")
    assert len(names) > 1
    assert complete(names[-1])[0] == names[-1]
    assert takes if not command else command in takes


# Results.


@EACH_RUN
def test_json_is_one_document_without_colours(
    command: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    words = [command, *RUNS[command], "--json", "-q"]
    out, err = read_output(*words, code=int(command in FAILING), FORCE_COLOR="1")
    assert err == ""
    assert (out.count("\n"), out.isascii()) == (1, True)
    assert "\\u001b" not in out
    document = json.loads(out, parse_constant=pytest.fail)  # NaN and Infinity are not JSON
    assert list(document) == ["schema", "version", "parameters", "result"]
    assert document["schema"] == f"ropecli.{command}/1"
    assert document["version"] == ropecli.__version__
    parameters = json.dumps(document["parameters"], indent=1)
    assert_golden(f"parameters/{command}", [(" ".join(RUNS[command]), parameters)])


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {*SLOW, "encode", "lint", "trace"}))
def test_quiet_prints_the_first_paragraph(
    command: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    page, quiet = (
        re.sub(r"[\d.]+ s\b", "", run_here(command, *RUNS[command], *more).stdout).rstrip("\n")
        for more in ([], ["-q"])
    )
    assert quiet == page.partition("\n\n")[0]


@EACH_RUN
def test_a_page_in_a_pipe_is_plain_unless_colours_are_asked_for(
    command: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    for name in ("FORCE_COLOR", "NO_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    words, code = [command, *RUNS[command], "-q"], int(command in FAILING)
    usual = [{"NO_COLOR": "1"}, {"TERM": "dumb"}] if command == "verify" else []
    for variables in ({}, *usual):
        out, _ = read_output(*words, code=code, **variables)
        assert "\x1b" not in out
    out, _ = read_output(*words, code=code, FORCE_COLOR="1", NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*[349]\d", out)  # bold is not a colour
    out, _ = read_output(*words, code=code, FORCE_COLOR="1")
    has_verdict = command in {"verify", "check", "permute", "positions", "trace"}
    assert ("\x1b[" in out) == has_verdict


@pytest.mark.parametrize(
    "command",
    [
        *("base-bound", "cache", "construct", "decay", "frequencies", "inspect"),
        *("precision", "rotate", "scale", "scores", "usage"),
    ],
)
def test_what_is_saved_is_not_offered_to_be_saved(
    command: str, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    saving = ["-o", f"{command}.json", "--force"]
    shown = [run_here(command, *RUNS[command], *more).stdout for more in ([], saving)]
    offered = [re.search("^Save ", text, re.MULTILINE) is not None for text in shown]
    assert offered == [True, False]
