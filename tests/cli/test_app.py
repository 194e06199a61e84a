"""Exceptions: each is a line and an exit code, and never a traceback unasked."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Callable

import pytest
import typer
from helpers import assert_refused

from ropecli import ArgumentError, ArgumentTypeError, FileError, RopecliError, __version__
from ropecli.cli.app import run

Raise = Callable[[BaseException], None]


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Raise:
    """Make the analysis behind `info` raise."""

    def arrange(error: BaseException) -> None:
        def look() -> None:
            raise error

        monkeypatch.setattr("ropecli.analyses.info.info", look)

    return arrange


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (RopecliError("no"), 2, "no"),
        (ArgumentError("dim"), 2, "dim"),
        (ArgumentTypeError("type"), 2, "type"),
        (FileError("file"), 2, "file"),
        (MemoryError(), 2, "out of memory"),
        (OSError(errno.ENOSPC, "No space left on device"), 2, "output: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 2, "/x: Permission denied"),
        (OSError("odd"), 2, "output: odd"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (typer.Abort(), 130, "interrupted"),
        (FileError("a\nb\x1b[31m\udcff é"), 2, r"a\nb\x1b[31m\udcff é"),
    ],
)
def test_error_is_one_line_and_a_code(
    error: BaseException, code: int, line: str, fails: Raise
) -> None:
    fails(error)
    assert assert_refused("info", code=code) == line
    assert assert_refused("info", "--json", code=code) == line


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("division"), ValueError("a\nb"), KeyError("k")]
)
def test_a_bug_says_so_and_asks_for_a_report(error: Exception, fails: Raise) -> None:
    fails(error)
    line = assert_refused("info", "--json", code=101)
    assert line.startswith(f"this is a bug in ropecli {__version__}: {type(error).__name__}: ")
    assert "report" in line
    assert "ROPECLI_DEBUG=1" in line


def test_debug_shows_the_traceback(
    fails: Raise, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROPECLI_DEBUG", "1")
    fails(ZeroDivisionError("division"))
    assert run(["info"]) == 101
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Traceback (most recent call last):\n")
    assert "ZeroDivisionError: division\n" in printed.err
    assert printed.err.splitlines()[-1].startswith("error: this is a bug in ropecli")


def test_debug_leaves_a_users_mistake_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROPECLI_DEBUG", "1")
    assert assert_refused("decay", "--dim", "7").startswith("head dim must be")


@pytest.mark.parametrize("code", [0, 1, 7])
def test_exit_code_of_a_command_is_handed_on(
    code: int, fails: Raise, capsys: pytest.CaptureFixture[str]
) -> None:
    fails(typer.Exit(code))
    assert run(["info"]) == code
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("decai", ["'decai'", "'decay'", "; see ropecli --help"]),
        ("frobnicate", ["'frobnicate'", "; see ropecli --help"]),
        ("decay --bsae 3", ["--bsae", "--base", "; see ropecli decay --help"]),
        ("verify --frob", ["--frob", "; see ropecli verify --help"]),
        ("info extra", ["extra", "; see ropecli info --help"]),
        ("--dim 64", ["--dim", "; see ropecli --help"]),
        ("decay --dim", ["'--dim'", "argument"]),
        ("", ["; see ropecli --help"]),
    ],
)
def test_usage_error_says_what_and_where_to_read_on(line: str, parts: list[str]) -> None:
    """The wording is Typer's and changes; what was given and what is meant must be there."""
    got = assert_refused(*line.split())
    for part in parts:
        assert part in got


def test_closed_stdout_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert run(["info"]) == 2
    assert capsys.readouterr().err == "error: stdout is closed\n"


def test_full_stderr_keeps_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    assert run(["decay", "--dim", "7"]) == 2
