"""Ctrl-C at any moment of a real process: one line and exit code 130."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from helpers import ROOT

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0"}
INTERRUPTED = (130, "error: interrupted\n")


@pytest.fixture(autouse=True)
def _default_in_children() -> Iterator[None]:
    """Let children handle Ctrl-C as in a terminal, even where the tests ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(*words: str) -> subprocess.Popen[str]:
    """Start Python with the words as its arguments."""
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a process, and return its exit code and what it wrote on stderr."""
    with process:
        _, err = process.communicate(timeout=120)
    return process.returncode, err


def is_before_our_code(code: int, err: str) -> bool:
    """Tell if the interpreter ended before the first line of `main`, where nothing can be done.

    It is then killed by the signal, or ends with a traceback in which `main` does not appear.
    """
    if code == -signal.SIGINT and not err:
        return True
    return err.endswith("KeyboardInterrupt\n") and not re.search(r"ropecli/cli.*, in main", err)


def interrupt_at(delays: list[float], *words: str) -> list[tuple[int, str]]:
    """Interrupt a command after each delay, and return how they ended."""
    ends = []
    for delay in delays:
        process = start("-m", "ropecli", *words)
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        ends.append(finish(process))
    return ends


def duration(*words: str) -> float:
    begin = time.perf_counter()
    assert finish(start("-m", "ropecli", *words)) == (0, "")
    return time.perf_counter() - begin


def assert_ends(ends: list[tuple[int, str]], *, late: int) -> None:
    """Assert that all were interrupted, or ended before our code, and at most `late` were done."""
    ours = [end for end in ends if not is_before_our_code(*end)]
    done = [end for end in ours if end == (0, "")]
    assert [end for end in ours if end not in (INTERRUPTED, (0, ""))] == []
    assert len(done) <= late


@pytest.mark.slow
def test_at_many_moments() -> None:
    words = ("verify", "--dim", "4", "--quiet")
    whole = min(duration(*words) for _ in range(3))
    ends = interrupt_at([whole * i / 15 for i in range(15)], *words)
    assert_ends(ends, late=8)  # on a busy machine one run is faster than another
    assert ends.count(INTERRUPTED) >= 5


INTERRUPT_ON_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(name, *_):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise {error} from None

sys.meta_path.insert(0, Interrupting)
sys.argv = ["ropecli", "verify", "--dim", "4"]
from ropecli.cli import main
main()
"""


@pytest.mark.parametrize(
    ("module", "error"),
    [
        ("ropecli.cli.app", "KeyboardInterrupt"),
        ("typer", "ImportError('broken')"),
        pytest.param("numpy", "KeyboardInterrupt", marks=pytest.mark.slow),
        pytest.param("numpy", "ImportError('broken')", marks=pytest.mark.slow),
    ],
)
def test_while_a_module_is_imported(module: str, error: str) -> None:
    code = INTERRUPT_ON_IMPORT.format(module=module, error=error)
    assert finish(start("-c", code)) == INTERRUPTED


IN_C = """
import ctypes, os, signal, sys, time
from ropecli.cli import app, interrupts
{setup}
def run(words):
    try:
        call()
        time.sleep(60)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130

app.run = run
from ropecli.cli import main
main()
"""
COMPILER = """
exec(compile("def interrupt(): os.kill(os.getpid(), signal.SIGINT)", "x", "exec"),
     compiler := {"os": os, "signal": signal, "__name__": "llvmlite.binding"})
call = ctypes.CFUNCTYPE(None)(compiler["interrupt"])
"""
DELETED = """
class Deleted:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

call = Deleted  # which is gone at once
"""


@pytest.mark.parametrize("setup", [COMPILER, DELETED], ids=["callback", "__del__"])
def test_where_python_would_print_an_exception_and_go_on(setup: str) -> None:
    assert finish(start("-c", IN_C.replace("{setup}", setup))) == INTERRUPTED


def test_while_python_ends() -> None:
    begin = "import atexit, os, signal; from ropecli.cli import interrupts\n"
    handling = "interrupts.exit_at_once_from_now_on()\n"
    ending = "atexit.register(os.kill, os.getpid(), signal.SIGINT)\n"
    assert finish(start("-c", begin + handling + ending)) == INTERRUPTED
    # What was registered before runs after the handler is gone: the work was done.
    assert finish(start("-c", begin + ending + handling)) == (0, "")


def test_a_process_that_ignores_it_goes_on() -> None:
    ignoring = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    ignoring += "sys.argv = ['ropecli', '--version']\nfrom ropecli.cli import app, main\n"
    ignoring += "run = app.run\n"
    ignoring += "app.run = lambda words: os.kill(os.getpid(), signal.SIGINT) or run(words)\n"
    assert finish(start("-c", ignoring + "main()")) == (0, "")
