"""The table of exit codes: which commands end with 1, for what, and with 0 where it is not so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cli.samples import write_files
from helpers import ROOT, run_here
from safetensors.numpy import save_file

pytestmark = pytest.mark.slow

#: Of each command, a run that finds nothing wrong, and one that does.
RUNS: dict[str, tuple[list[str], list[str]]] = {
    "base-bound": (["--base", "5e5", "--context", "4096"], ["--base", "100", "--context", "4096"]),
    "check": (
        ["rotation.py:rotate", "--dim", "4", "--fast"],
        ["rotation.py:rotate", "--dim", "4", "--fast", "--layout", "half"],
    ),
    "diff": (["tiny.json", "tiny.json"], ["model.json", "other.json"]),
    "encode": (["before.npy", "--check", "after.npy"], ["before.npy", "--check", "before.npy"]),
    "identify": (["before.npy", "after.npy"], ["before.npy", "other.npy"]),
    "inspect": (["tiny.json"], ["model.json"]),
    "lint": (["tiny.json"], ["model.json"]),
    "permute": (
        ["weights.safetensors", "--check", "turned.safetensors", "--to", "half", "--heads", "2"],
        ["weights.safetensors", "--check", "weights.safetensors", "--to", "half", "--heads", "2"],
    ),
    "positions": (["ids.npy", "--lengths", "3", "--chunk", "1,3"], ["ids.npy", "--lengths", "2"]),
}
#: Those that end with 1 where ropecli itself is wrong (`test_verify.py`, `test_scores.py`), and the
#: one that needs PyTorch (`oracle/test_trace.py`).
ELSEWHERE = {"scores", "verify", "trace"}


@pytest.fixture(autouse=True)
def folder(here: Path) -> Path:
    write_files(here)
    np.save("other.npy", np.random.default_rng(1).standard_normal((16, 4)))
    return here


def test_the_pages_name_the_commands_that_end_with_1() -> None:
    pages = (ROOT / "docs" / "commands").glob("*.md")
    named = {page.stem for page in pages if re.search(r"\| fine \|\n\| 1 \| ", page.read_text())}
    assert named == RUNS.keys() | ELSEWHERE


@pytest.mark.parametrize("command", RUNS)
def test_1_is_for_what_the_page_says_and_0_for_the_rest(command: str) -> None:
    fine, found = RUNS[command]
    if command == "permute":
        options = ["--to", "half", "--heads", "2", "-o", "turned.safetensors"]
        rows = np.random.default_rng(0).standard_normal((8, 2))
        save_file(
            {"q_proj.weight": rows, "k_proj.weight": rows[::-1].copy()}, "weights.safetensors"
        )
        assert run_here("permute", "weights.safetensors", *options).returncode == 0
    done = run_here(command, *fine)
    assert done.returncode == 0, done.stdout + done.stderr
    done = run_here(command, *found)
    assert done.returncode == 1, done.stdout + done.stderr
