"""The README's blocks work, and its picture is the command's."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, run_cli, run_process, run_python
from numba import config

pytestmark = pytest.mark.slow

COMPILED = not config.DISABLE_JIT
README = (ROOT / "README.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
#: `ropecli` as a shell script that keeps its output, and checks fewer positions.
SHORT = '[ "$1" != check ] || set -- "$@" --context 512'
ROPECLI = f'{SHORT}\n"{sys.executable}" -m ropecli "$@" > "printed by $*"'
PICTURE = ROOT / "docs" / "images" / "figure2.svg"


@pytest.mark.parametrize("block", PYTHON)
def test_python_block_runs(block: str) -> None:
    assert "assert" in block
    if COMPILED:
        exec(compile(block, "README.md", "exec"), {})
    else:  # its sizes take compiled kernels
        done = run_python(block, NUMBA_DISABLE_JIT="0")
        assert done.returncode == 0, done.stderr


def test_commands_run_one_after_another(tmp_path: Path) -> None:
    used = README.partition("## Use\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```(?:bash|console)\n(.*?)```", used, re.DOTALL)
    script = "".join(re.sub(r"^\$ ", "", block, flags=re.MULTILINE) for block in blocks)
    assert len(re.findall(r"^ropecli ", script, re.MULTILINE)) >= 8
    (tmp_path / "bin").mkdir()
    commands = {"python": f'exec "{sys.executable}" "$@"', "ropecli": ROPECLI}
    for name, line in commands.items():
        command = tmp_path / "bin" / name
        command.write_text(f"#!/bin/sh\n{line}\n")
        command.chmod(0o755)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    script = f"set -e\n{script}"
    done = run_process(
        "bash", "-c", script, cwd=tmp_path, timeout=300, NUMBA_DISABLE_JIT="0", PATH=path
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "figure2.png").exists()
    judged = tmp_path / "printed by check mine.py:rope --model example:llama-3.1-8b --context 512"
    assert judged.read_text().startswith("FAIL")
    # There and back: twice 2.5 ulp of a pair's length, an ulp being at most 2^-23 of it.
    x, back = (np.load(tmp_path / f"{name}.npy") for name in ("queries", "back"))
    assert np.abs(back - x).max() <= 5 * 2.0**-23 * np.sqrt(2) * np.abs(x).max()


def test_failure_is_the_one_of_the_case_studies() -> None:
    (shown,) = re.findall(r"```text\n(\$ ropecli check .*?)```", README, re.DOTALL)
    page = (ROOT / "docs" / "case-studies.md").read_text()
    assert [part in page for part in shown.split("...\n")] == [True, True]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", README):
        assert (ROOT / target).exists(), target


def curve(svg: str) -> np.ndarray:
    """The points of the longest path of a figure."""
    longest = max(re.findall(r' d="([^"]+)"', svg), key=len)
    return np.array(re.findall(r"-?\d+\.?\d*", longest), dtype=float)


def test_picture_is_fresh(tmp_path: Path) -> None:
    done = run_cli("decay", "--figure2", "-o", "new.svg", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    new, old = curve((tmp_path / "new.svg").read_text()), curve(PICTURE.read_text())
    # Another Matplotlib may place the frame, and simplify the path, a little differently.
    assert abs(len(new) - len(old)) <= 0.02 * len(old)
    assert np.abs(np.array([new.min(), new.max()]) - [old.min(), old.max()]).max() < 2
