"""What a run opens: the files that it is given and those of its installation, and no socket."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cli.samples import FAILING, RUNS, write_files
from helpers import ROOT, oracle

from ropecli.cli.app import COMMANDS

pytestmark = pytest.mark.slow

#: Prints every file that is opened and every socket, at the end.
AUDIT = """
import atexit, json, os, sys
opened, sockets, said = set(), set(), sys.argv.pop(1)
def audit(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        opened.add(os.path.join(os.getcwd(), os.fsdecode(arguments[0])))
    elif event.startswith(("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.")):
        sockets.add(f"{event} {arguments}")
sys.addaudithook(audit)
def report():
    with open(said, "w") as file:
        json.dump([sorted(opened), sorted(sockets)], file)
atexit.register(report)
sys.argv = ["ropecli", *sys.argv[1:]]
from ropecli.cli import main
main()
"""
#: Settings of libraries; each would end a run that reads it, or wait forever.
PLANTED = (
    *("matplotlibrc", "dask.yaml", "jupyter_config.py", ".netrc"),
    *("setup.cfg", "tox.ini", "pytest.ini", ".env", "sitecustomize.py", "usercustomize.py"),
)
#: Runs beside those of `RUNS`, by the command: figures, reports, tables, settings.
MORE = {
    "decay": ["--dim", "8", "--max-dist", "8", "-o", "x.png", "--style", "ggplot", "--force"],
    "encode": ["rows.npy", "--inv-freq", "table.npy", "--force"],
    "lint": ["tiny.json", "--sarif", "x.sarif", "--force"],
    "report": ["tiny.json", "-o", "report.html", "--force"],
    "scores": ["--length", "2", "--model-dim", "4", "--heads", "1", "-o", "x.svg", "--force"],
}
ALL = [*sorted({*COMMANDS} - {"trace"}), *oracle("trace")]


@pytest.fixture
def planted(here: Path) -> Path:
    """Return the working folder, with the files of the runs and settings that no run may read."""
    write_files(here)
    np.save("table.npy", np.ones(2))
    for name in PLANTED:
        os.mkfifo(here / name)
    return here


def run_audited(*words: str) -> tuple[int, set[Path], list[str]]:
    """Run a command line in a process; return its exit code, files that it opened, and sockets."""
    with tempfile.NamedTemporaryFile() as said:
        done = subprocess.run(
            [sys.executable, "-c", AUDIT, said.name, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            check=False,
        )
        text = Path(said.name).read_text()
        assert text, done.stderr
        opened, sockets = json.loads(text)
        files = {Path(os.path.normpath(name)) for name in opened} - {Path(said.name)}
    return done.returncode, files, sockets


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to the machine, to Python, or to ropecli or its caches."""
    folders: list[str | Path] = [
        sys.prefix,
        sys.base_prefix,
        ROOT / "ropecli",
        Path.home() / ".cache",
    ]
    folders += [os.environ.get("NUMBA_CACHE_DIR", "/dev"), "/dev", "/proc", "/sys", "/etc", "/usr"]
    return any(path.is_relative_to(each) for each in folders)


@pytest.mark.parametrize("command", ALL)
def test_a_run_opens_what_it_is_given(command: str, planted: Path) -> None:
    for words in filter(None, (RUNS[command], MORE.get(command))):
        before = {each.name for each in planted.iterdir()}
        code, opened, sockets = run_audited(command, *words)
        assert code == (command in FAILING and words is RUNS[command])
        assert sockets == []
        here = {each for each in opened if each.is_relative_to(planted)} - {planted}
        assert [each for each in opened - here - {planted} if not is_installed(each)] == []
        mine = {each.relative_to(planted).parts[0] for each in here}
        named = {name for name in before if any(name in word for word in words)}
        made = {each.name for each in planted.iterdir()} - before
        parts = {name for name in mine if name.endswith(".ropecli-part")}
        assert mine <= named | made | parts | {"pyproject.toml"}


@pytest.mark.parametrize(
    "style", ["http://127.0.0.1:9/x.mplstyle", "numpy.x", "pipe", "odd.mplstyle"]
)
def test_a_style_is_a_name_or_a_file(style: str, planted: Path) -> None:
    os.mkfifo("pipe")
    Path("odd.mplstyle").write_text("lines.colour: red\n")
    words = ["decay", "--dim", "4", "--max-dist", "2", "-o", "x.png", "--style", style]
    code, _, sockets = run_audited(*words)
    assert code == 2
    assert sockets == []
    assert not (planted / "x.png").exists()
