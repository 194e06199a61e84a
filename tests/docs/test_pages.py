"""Every Python and every console block of the pages works as shown.

A page is one test, run from top to bottom in an empty folder: its blocks build on one another. A
block that begins with `# NAME.py` is that file, too.
"""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import ROOT, run_cli, run_here
from numba import config
from sybil import Example, Sybil
from sybil.parsers.myst import CodeBlockParser, PythonCodeBlockParser

pytestmark = pytest.mark.slow

PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
COMPILED = not config.DISABLE_JIT
MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_console(example: Example) -> None:
    """Run each `$ ropecli ...` or `$ gcc ...` and compare the output; `...` matches anything.

    The exit code must be 0, or the one that a following `$ echo $?` shows.
    """
    steps = re.split(r"^\$ ", str(example.parsed), flags=re.MULTILINE)
    assert not steps[0], f"line {example.line}: a console block begins with a command"
    code = 0
    for index, step in enumerate(steps[1:], start=1):
        command, _, wanted = step.partition("\n")
        if command == "echo $?":
            assert wanted.strip() == str(code), f"line {example.line}: exit code is {code}"
            continue
        program, *arguments = shlex.split(command)
        if program == "gcc":
            subprocess.run([program, *arguments], check=True, timeout=60)
            continue
        assert program == "ropecli", f"line {example.line}: {command}"
        if COMPILED:
            done = run_here(*arguments, NO_COLOR="1")
        else:  # a page's sizes take compiled kernels
            done = run_cli(*arguments, cwd=Path.cwd(), NO_COLOR="1", NUMBA_DISABLE_JIT="0")
        code = done.returncode
        printed = done.stderr + done.stdout
        shown = index + 1 < len(steps) and steps[index + 1].startswith("echo $?")
        assert shown or code == 0, f"line {example.line}: {command} gave {code}\n{printed}"
        if wanted.strip():
            matches = doctest.OutputChecker().check_output(wanted, printed, MATCH)
            assert matches, f"line {example.line}: {command} printed\n{printed}"


SYBIL = Sybil(parsers=[PythonCodeBlockParser(), CodeBlockParser("console", run_console)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_blocks_work_as_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = dict.fromkeys(("check.md", "kernels.md"), tmp_path)
    folders = {**here, "statements.md": tmp_path / "kernels"}
    if page.name in folders:
        shutil.copytree(ROOT / "examples" / "kernels", folders[page.name], dirs_exist_ok=True)
    for name, code in re.findall(
        r"^```python\n# (\w+\.py)\n(.*?)^```", page.read_text(), re.M | re.S
    ):
        (tmp_path / name).write_text(code)
    examples = list(SYBIL.parse(page).examples())
    assert examples or "```python" not in page.read_text()
    for example in examples:
        example.evaluate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_no_command_escapes(page: Path) -> None:
    # Commands of ropecli are in console blocks, except for the examples of the help texts.
    for language, block in re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.M | re.S):
        if language in {"bash", "sh", "shell"}:
            assert not re.search(r"^(\$ )?ropecli ", block, re.MULTILINE), block


def test_a_wrong_output_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block, message in [
        ("$ ropecli --version\nropecli 9.9.9\n", "printed"),
        ("$ ropecli encode missing.npy\n", "gave 2"),
        ("$ ropecli encode missing.npy\nerror: ...\n$ echo $?\n1\n", "exit code is 2"),
        ("$ ls\n", "ls"),
        ("ropecli --version\n", "begins with a command"),
    ]:
        page = tmp_path / "page.md"
        page.write_text(f"```console\n{block}```\n")
        (example,) = SYBIL.parse(page).examples()
        with pytest.raises(AssertionError, match=message):
            example.evaluate()
