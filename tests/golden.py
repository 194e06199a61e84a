"""Golden files: pages as they were looked at. With WRITE_GOLDEN=1, tests write them again."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable
from unittest.mock import patch

from helpers import ROOT, run_here

from ropecli.render.console import Screen

GOLDEN = ROOT / "tests" / "data" / "screens"


def assert_golden(name: str, pages: Iterable[tuple[str, str]]) -> None:
    """Assert that pages, each below its heading, are those of a file."""
    __tracebackhide__ = True
    blocks = (f"{'=' * 20} {heading}\n{page.rstrip()}\n" for heading, page in pages)
    lines = (line.rstrip() for block in blocks for line in block.splitlines())
    text = "".join(f"{line}\n" for line in lines)
    path = GOLDEN / f"{name}.txt"
    if "WRITE_GOLDEN" in os.environ:
        path.write_text(text, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    assert text == expected, f"if that is right, WRITE_GOLDEN=1 writes {name}.txt"


def page(command: str, words: str, width: int) -> str:
    """Return a page without what another run or machine may change: seconds, and rounding."""
    screen = Screen(width=width, braille=width == 80, brief=words.endswith(" -q"))
    with patch.object(Screen, "of_stdout", lambda **_: screen):
        done = run_here(command, *shlex.split(words), NO_COLOR="1")
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    text = re.sub(r"\d+\.\d s\b", "# s", text)
    text = re.sub(r"(?m)^(PASS .*) \d\.\d\d$", r"\1 #.##", text)
    return re.sub(r"\b\d(\.\d)?e(-1\d|-0[6-9]|\+00)\b", "#e-##", text)
