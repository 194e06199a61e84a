"""Streams of results and notes, and the text of a line."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path

import pytest

from ropecli.render import console


class Terminal(io.TextIOWrapper):
    """A stream that says it is one."""

    def isatty(self) -> bool:
        return True


def terminal(encoding: str) -> Terminal:
    return Terminal(io.BytesIO(), encoding=encoding)


def test_note_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    console.note(f"x.npy: {'long ' * 50}[red]row[/red] 0 of 5 taken")
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"note: x.npy: {'long ' * 50}[red]row[/red] 0 of 5 taken\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("queries é 表.npy", "queries é 表.npy"),
        ("a\nb", r"a\nb"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("\udcff", r"\udcff"),
        ("\u202e", r"\u202e"),
    ],
)
def test_visible_spells_out_what_is_no_letter(text: str, shown: str) -> None:
    assert console.visible(text) == shown


def test_parts_of_a_row_are_aligned_with_its_value() -> None:
    lines = ["  layout   half: pairs (0, 8), (1, 9)", "", "  a sentence of five words", "short"]
    assert console.wrap_rows(lines, 22, hang=2) == [
        "  layout   half: pairs",
        "           (0, 8), (1,",
        "           9)",
        "",
        "  a sentence of five",
        "    words",
        "short",
    ]
    assert console.wrap_rows(lines[2:3], 22) == ["  a sentence of five", "  words"]


def test_out_is_never_cut_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    line = "relative_distance " * 500
    console.out().print(line, markup=False)
    assert capsys.readouterr().out == line + "\n"


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [("utf-8", True), ("UTF8", True), ("ascii", False), ("latin-1", False)],
)
def test_braille_needs_a_terminal_that_can_show_it(
    encoding: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", terminal(encoding))
    assert console.draws_braille() is expected


def test_wrapped_breaks_at_spaces_only() -> None:
    line = "      m = 1e-16, q = e_0: got (0.5403023058681398 at 0), expected 1"
    lines = console.wrap_text(line, 40, indent=6)
    assert lines == [
        "      m = 1e-16, q = e_0: got",
        "      (0.5403023058681398 at 0),",
        "      expected 1",
    ]


def test_sentences_fit_a_terminal_and_tables_are_left_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = ["  a sentence of many words", "name     1.5     2.5", "a short one"]
    console.show(lines, console.Screen(width=16))
    assert capsys.readouterr().out.splitlines() == [
        "  a sentence of",
        "  many words",
        "name     1.5     2.5",
        "a short one",
    ]
    console.show(lines, console.Screen())
    assert capsys.readouterr().out.splitlines() == lines


def test_wrapped_never_cuts_a_word() -> None:
    assert console.wrap_text("x " + 30 * "9", 10, indent=2) == ["x", "  " + 30 * "9"]


def test_a_note_that_nobody_can_read_is_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    console.note("closed")
    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        console.note("full")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w", buffering=1) as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        console.note("gone")
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            gone.close()
    assert capsys.readouterr() == ("", "")
