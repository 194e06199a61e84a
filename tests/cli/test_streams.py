"""Pipes, full disks, interrupts: what only a process of its own shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import ROOT, run_cli, run_in_terminal

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0"}
SMALL = ["--dim", "4", "--max-dist", "9"]


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash that has the command as `ropecli`; a pipe fails if a part of it does."""
    script = f'set -o pipefail; ropecli() {{ "{sys.executable}" -m ropecli "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=ENVIRONMENT,
    )


@pytest.mark.parametrize(
    "line",
    [
        "ropecli decay --dim 4 --json --max-dist 300000 | head -c 20",  # more than a pipe holds
        "ropecli --help | true",
    ],
)
def test_reader_that_has_gone_is_no_fault(line: str) -> None:
    done = shell(line)
    assert (done.returncode, done.stderr) == (0, "")


def test_reader_that_has_gone_does_not_hide_a_failed_law() -> None:
    code = (
        "import sys; from ropecli.checks import verify as module; "
        "good = module.built_in_rotate; "
        "module.built_in_rotate = lambda x, rope, positions: good(x, rope, -positions); "
        "from ropecli.cli.app import run; "
        "sys.exit(run('verify --dim 2 --dtype float32'.split()))"
    )
    done = shell(f"'{sys.executable}' -c \"{code}\" | true")
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("words", ["decay --dim 4", "--help"])
def test_full_disk_behind_stdout(words: str) -> None:
    done = shell(f"ropecli {words} > /dev/full")
    assert (done.returncode, done.stderr) == (2, "error: output: No space left on device\n")


def test_a_name_that_stdout_can_not_show_is_spelt_out(tmp_path: Path) -> None:
    done = run_cli("decay", *SMALL, "-o", "é.csv", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("Written: \\xe9.csv\n")
    assert (tmp_path / "é.csv").exists()


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.npy")
    np.save(tmp_path / "q.npy", np.ones(4))
    (tmp_path / "q.npy").rename(tmp_path / name)
    done = run_cli("decay", "--q", name, "--k", name, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["parameters"]["q"] == name


# A terminal of 80 columns.


def test_a_terminal_without_braille_gets_the_table() -> None:
    screen = run_in_terminal("decay", *SMALL, PYTHONIOENCODING="ascii")
    assert screen.code == 0
    assert screen.text.isascii()
    assert "\nrelative distance  relative upper bound\n" in screen.text
    assert max(map(len, screen.text.splitlines())) <= 80


def test_files_do_not_take_the_numbers_of_closed_streams() -> None:
    code = "import os, sys; from ropecli.cli import main; import ropecli.cli.app as app; "
    code += "app.main = lambda: print(os.open('/dev/null', os.O_RDONLY) > 2); main()"
    done = shell(f"'{sys.executable}' -c \"{code}\" <&- 2>&-")
    assert done.stdout == "True\n"


def test_verify_where_stderr_is_closed() -> None:
    done = shell("ropecli verify --dim 4 2>&-")
    assert done.returncode == 0
    assert "PASS" in done.stdout


def test_closed_stdin() -> None:
    done = shell("ropecli inspect - <&-")
    said = "error: cannot read standard input: it is closed\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
