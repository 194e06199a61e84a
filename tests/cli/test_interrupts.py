"""Signals at any moment of a real process: one line, exit code 130, 143 or 129, and no file."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pytest
from files.folders import names
from helpers import ROOT

pytestmark = pytest.mark.slow

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "0"}
INTERRUPTED = (130, "error: interrupted\n")
ENDS = {
    signal.SIGINT: INTERRUPTED,
    signal.SIGTERM: (143, "error: terminated\n"),
    signal.SIGHUP: (129, "error: the terminal was closed\n"),
}


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


def send_at_many_moments(
    numbers: Collection[signal.Signals], *words: str
) -> Iterator[tuple[int, str]]:
    """Send each signal to runs of a command until each came six times in our code.

    A machine changes its speed: where a signal came too early or too late, later ones are drawn
    from other times.
    """
    draw = random.Random(0)
    latest = min(duration(*words) for _ in range(2))
    earliest = 0.1 * latest
    ended = dict.fromkeys(numbers, 0)
    for number in [*numbers] * 30:
        process = start("-m", "ropecli", *words)
        moment = draw.uniform(earliest, latest)
        time.sleep(moment)
        process.send_signal(number)
        end = finish(process)
        if end == (0, ""):
            latest = max(moment, 2 * earliest)
        elif end == (-number, "") or is_before_our_code(*end):
            latest = max(latest, 2 * moment)
        else:
            assert end == ENDS[number]
            ended[number] += 1
        yield end
        if min(ended.values()) == 6:
            return
    pytest.fail(f"of 30 signals of a kind, fewer than six came in our code: {ended}")


def duration(*words: str) -> float:
    begin = time.perf_counter()
    assert finish(start("-m", "ropecli", *words)) == (0, "")
    return time.perf_counter() - begin


def test_at_many_moments() -> None:
    ends = [*send_at_many_moments([signal.SIGINT], "verify", "--dim", "4", "--quiet")]
    assert ends.count(INTERRUPTED) == 6


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
        ("numpy", "KeyboardInterrupt"),
        ("numpy", "ImportError('broken')"),
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


ENCODE = """
import os, signal, sys
from ropecli.files import encode
from ropecli.files.formats import flat
write, count = os.pwrite, 0
def pwrite(*words):
    global count
    count += 1
    if count == {block}:
        assert os.path.exists(".y.npy.ropecli-part")
        os.kill(os.getpid(), {number})
    return write(*words)
os.pwrite = pwrite
sys.argv = ["ropecli", "encode", "x.npy", "-o", "y.npy", "-q"]
from ropecli.cli import main
main()
"""


@pytest.mark.parametrize("number", ENDS)
def test_a_run_that_is_ended_leaves_no_file(number: signal.Signals, here: Path) -> None:
    np.save("x.npy", np.zeros((1 << 18, 32), "f4"))
    for block in (1, 2):
        code = ENCODE.format(block=block, number=int(number))
        assert finish(start("-c", code)) == ENDS[number]
        assert names(here) == ["x.npy"]


MAKING = """
import fcntl, os, signal, sys
made, lock, make = os.open, fcntl.flock, os.mkdir
sent = []
def interrupt(path):
    if ".ropecli-part" in str(path) and not sent:
        sent.append(path)
        os.kill(os.getpid(), signal.SIGTERM)
def open(path, flags, *words, **more):
    fd = made(path, flags, *words, **more)
    if flags & os.O_EXCL:
        interrupt(path)
    return fd
def flock(fd, how):
    lock(fd, how)
    if how & fcntl.LOCK_EX:
        interrupt(os.readlink(f"/proc/self/fd/{{fd}}"))
def mkdir(path, *words, **more):
    make(path, *words, **more)
    interrupt(path)
{patch}
sys.argv = ["ropecli", "encode", "x.npy", "-o", "{output}", "-q"]
from ropecli.cli import main
main()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names open files by /proc")
@pytest.mark.parametrize(
    ("patch", "output"),
    [
        ("os.open = open", "y.npy"),
        ("fcntl.flock = flock", "y.npy"),
        ("fcntl.flock = flock", "y.zarr"),
        ("os.mkdir = mkdir", "y.zarr"),
    ],
)
def test_a_signal_while_a_part_is_made_leaves_none(patch: str, output: str, here: Path) -> None:
    np.save("x.npy", np.zeros((4, 8), "f4"))
    code = MAKING.format(patch=patch, output=output)
    assert finish(start("-c", code)) == ENDS[signal.SIGTERM]
    assert names(here) == ["x.npy"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="names processes by /proc")
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_while_a_program_is_checked_leaves_no_folder(
    number: signal.Signals, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The program's parent is a worker, whose parent is ropecli.
    ending = f"pid=$(awk '/^PPid/ {{print $2}}' /proc/$PPID/status); kill -{int(number)} $pid"
    Path("program").write_text(f"#!/bin/sh\n{ending}\nsleep 60\n")
    Path("program").chmod(0o755)
    monkeypatch.setitem(ENVIRONMENT, "TMPDIR", str(here))
    process = start("-m", "ropecli", "check", "-q", "--command", "./program {x} {out}")
    code, err = finish(process)
    assert (code, err.splitlines()[-1]) == (ENDS[number][0], ENDS[number][1].strip())
    assert names(here) == ["program"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_while_a_module_is_imported(number: signal.Signals) -> None:
    code = INTERRUPT_ON_IMPORT.format(module="typer", error="ImportError('broken')")
    assert finish(start("-c", code.replace("SIGINT", number.name))) == ENDS[number]


def test_signals_at_many_moments_leave_no_half_of_a_file(here: Path) -> None:
    np.save("x.npy", np.zeros((1 << 21, 32), "f4"))
    words = ("encode", "x.npy", "-o", "y.npy", "-q", "--force")
    duration(*words)
    encoded = Path("y.npy").read_bytes()
    for end in send_at_many_moments(ENDS, *words):
        written = [name for name in names(here) if name != "x.npy"]
        assert written == ["y.npy"] if end == (0, "") else written in ([], ["y.npy"])
        if written:  # the signal came after the file got its name, if it came in time
            assert Path("y.npy").read_bytes() == encoded
            Path("y.npy").unlink()


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
