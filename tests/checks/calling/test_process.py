"""The worker process of `check`, which may crash, hang, print or spoil things."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import TURN, run_cli, run_python, slow
from implementations.plain import half, inv_freq, turn
from judging import FEW_LAWS, checks_of, failures

import ropecli
from ropecli.checks.implementation.calling import run
from ropecli.checks.implementation.calling.find import CallError
from ropecli.checks.implementation.calling.isolate import Printed
from ropecli.checks.implementation.check import Verdict
from ropecli.errors import FileError

MODULE = Path(__file__).with_name("misbehaviour.py")
#: How functions are called, of which nothing is asked where they can't be.
CALL: dict[str, Any] = {"axes_of_x": "b h s d", "positions_dtype": "int64"}


def judge(name: str, **options: Any) -> Verdict:
    verdict: Verdict = ropecli.check(f"{MODULE}:{name}", **FEW_LAWS | options)
    return verdict


def alive(pid: int) -> bool:
    """True if a process runs: not one that has ended and was not waited for."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def descendants(pid: int) -> set[int]:
    """Processes that a process started, and those that they did."""
    below: dict[int, set[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            below.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), set()).add(
                int(stat.parent.name)
            )
        except OSError:
            continue
    found: set[int] = set()
    new = {pid}
    while new:
        new = set().union(*(below.get(each, set()) for each in new)) - found
        found |= new
    return found


def wait_for(condition: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


#: What native libraries do to descriptors that they take for their own.
WRITES_ALL = """\
import contextlib, os
for number in range(1024):
    with contextlib.suppress(OSError):
        os.write(number, b"garbage")
"""

DEATHS = [
    ("aborts", "its process was killed by SIGABRT"),
    ("exits", "its process ended with exit code 3"),
    pytest.param(
        "signals",
        "its process was killed by signal 35",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="no real-time signals"),
        ],
    ),
    ("exhausts", "MemoryError: no memory"),
    pytest.param("segfaults", "its process was killed by SIGSEGV", marks=pytest.mark.slow),
    # Other calls take milliseconds, and on a busy machine no second.
    pytest.param("loops", "it did not return within 3 s", marks=pytest.mark.slow),
    pytest.param("stops", "it did not return within 3 s", marks=pytest.mark.slow),
    pytest.param("garbles", "its answer can't be read: ", marks=pytest.mark.slow),
    pytest.param("exhausts_stack", "RecursionError: maximum recursion", marks=pytest.mark.slow),
    pytest.param("exhausts_device", "RuntimeError: CUDA out of memory", marks=pytest.mark.slow),
    pytest.param("forks", "its process ended with exit code 4", marks=pytest.mark.slow),
    pytest.param("closes_all", "its process ended with exit code 1", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "words"), DEATHS)
def test_a_call_that_ends_its_process_is_named_and_the_other_laws_are_judged(
    name: str, words: str
) -> None:
    verdict = judge(name, timeout=3 if "3 s" in words else 60)
    assert "long, short, long" in failures(verdict)
    (law,) = checks_of(verdict, "long, short, long")
    call = "in a call of 1 x 1 x 512 vectors of float32, positions 0 to 511"
    assert str(law.note).startswith(f"a call that must be answered failed: {words}")
    assert str(law.note).endswith(call)
    for other in ("packed sequences", "same twice"):
        assert {each.passed for each in checks_of(verdict, other)} == {True}, other


@pytest.mark.slow
@pytest.mark.parametrize("name", ["closes", "leaves", "writes", *slow("foreign_defaults")])
def test_right_ones_that_do_odd_things_pass(name: str) -> None:
    begin = time.monotonic()
    assert failures(judge(name)) == []
    assert time.monotonic() - begin < 250  # no wait of 300 s for exit handlers and threads


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("prints", 50),
        pytest.param("prints_a_line", 50, marks=pytest.mark.slow),
        pytest.param("prints_lines", 1001, marks=pytest.mark.slow),
    ],
)
def test_what_it_prints_is_bounded_and_harmless(name: str, most: int) -> None:
    lines: list[str] = []
    assert failures(judge(name, echo=lines.append)) == []
    assert 0 < len(lines) <= most
    assert all(line.isprintable() and len(line) <= 10_000 for line in lines)
    assert (name == "prints") == any("\\x1b[31m" in line for line in lines)


def test_a_line_without_an_end_takes_no_memory() -> None:
    read, write = os.pipe()
    line = b"x" * 30_000_000

    def write_it() -> None:
        with os.fdopen(write, "wb") as pipe:
            pipe.write(line)

    writer = threading.Thread(target=write_it)
    lines: list[str] = []
    tracemalloc.start()
    writer.start()
    Printed(lines.append).read(os.fdopen(read, "rb"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    writer.join()
    assert [len(each) for each in lines] == [1003]  # and "..."
    assert peak < 2**20


@pytest.mark.slow
def test_the_end_of_the_stack_is_a_failure_of_its_call() -> None:
    """Newer versions of Python see it coming."""
    verdict = judge("overflows")
    assert "long, short, long" in failures(verdict)
    assert any(each in str(verdict.diagnosis) for each in ("killed by SIGSEGV", "RecursionError"))


@pytest.mark.slow
def test_memory_is_bounded() -> None:
    """A call that takes all memory ends in one line."""
    verdict = judge("eats")
    (law,) = checks_of(verdict, "long, short, long")
    assert "MemoryError: Unable to allocate" in str(law.note)


@pytest.mark.slow
def test_one_that_leaks_ends_its_process_and_is_named() -> None:
    """Each call keeps 64 MB, so that a process makes some fifteen of the 600 steps."""
    options = FEW_LAWS | {"select": "many steps"}
    verdict = ropecli.check(f"{MODULE}:leaks", **options, memory=1)
    assert verdict.passed is False
    assert "MemoryError" in str(verdict.diagnosis)
    assert "of 1 GB in use) in a call of " in str(verdict.diagnosis)


@pytest.mark.slow
def test_memory_that_only_a_large_call_lacks_is_a_refusal() -> None:
    def kernel(x: Any, positions: Any) -> Any:
        if x.nbytes > 2**20:
            raise MemoryError
        return turn(x, positions, inv_freq(64), half)

    options: dict[str, Any] = {"dtypes": "float32", "context_length": 2**14, **CALL}
    for isolated in (True, False):
        verdict = ropecli.check(kernel, **options, select="every position", isolated=isolated)
        assert failures(verdict) == [], isolated


@pytest.mark.parametrize("isolated", [False, *slow(True)])
def test_memory_that_a_small_call_lacks_is_a_failure(isolated: bool) -> None:
    options = FEW_LAWS | {"select": "every position", "isolated": isolated}
    verdict = ropecli.check(f"{MODULE}:exhausts", **options)
    assert failures(verdict) == ["every position"]
    assert "MemoryError: no memory" in str(verdict.diagnosis)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("aborts_in_batches", "its process was killed by SIGABRT"),
        ("loops_in_batches", "it did not return within 3 s"),
    ],
)
@pytest.mark.slow
def test_one_that_ends_its_process_in_batches_only_is_called_and_fails(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trials begin with four sequences."""
    monkeypatch.setattr(run, "MOST_DEATHS", 2)
    options = FEW_LAWS | {"select": "every shape", "context_length": 16}
    timeout = 3 if "3 s" in words else 60
    verdict = ropecli.check(f"{MODULE}:{name}", **options, timeout=timeout)
    assert failures(verdict) == ["every shape"]
    assert f"{words} in a call of " in str(verdict.diagnosis)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("always_aborts", "its process was killed by SIGABRT in a call of "),
        pytest.param("returns_too_much", "MemoryError: Unable to allocate", marks=pytest.mark.slow),
        pytest.param("always_loops", "did not return within 0.3 s", marks=pytest.mark.slow),
        pytest.param("returns_objects", "it returned object", marks=pytest.mark.slow),
        pytest.param(
            "DecoderThatAborts", "its process was killed by SIGABRT", marks=pytest.mark.slow
        ),
    ],
)
def test_one_that_never_returns_can_not_be_called(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MOST_DEATHS", 2)
    begin = time.monotonic()
    options = (
        {"form": "decoder"} if "Decoder" in name else {"call": f"{name}(x, positions)", **CALL}
    )
    with pytest.raises(CallError, match=words):
        judge(name, timeout=0.3 if "0.3" in words else 20, **options)
    assert time.monotonic() - begin < 250  # 2,000 trials of 0.3 s take 600


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('not today')", "ValueError: not today"),
        ("import os\nos.abort()", "it can't be loaded: its process was killed by SIGABRT"),
        ("import sys\nsys.exit(0)", "SystemExit: 0"),
        ("print('\\x1b[31mlast words', flush=True)\nimport os\nos._exit(7)", "exit code 7 .*last"),
        ("while True: pass", "it can't be loaded: it did not return within 0.5 s"),
        ("import ropecli\nropecli.check(__file__ + ':f')", "check was called by the code that is"),
        (f"{WRITES_ALL}\nimport not_there", "ModuleNotFoundError: No module named 'not_there'"),
    ],
    ids=["raises", "aborts", "exits", "last words", "hangs", "checks itself", "writes"],
)
def test_a_module_that_can_not_be_imported(source: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(f"{source}\ndef f(x, positions): return x\n")
    with pytest.raises((CallError, FileError), match=words) as caught:
        ropecli.check(f"{file}:f", timeout=0.1 if "0.5 s" in words else 60)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.slow
def test_processes_and_descriptors_do_not_pile_up() -> None:
    def kernel(x: Any, positions: Any) -> Any:
        raise ValueError

    options = {**FEW_LAWS, "call": "kernel(x, positions)", **CALL}
    counts = []
    for count in (1, 20):
        for _ in range(count):
            with pytest.raises(CallError, match="ValueError"):
                ropecli.check(kernel, **options)
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        counts.append((descriptors, threading.active_count(), len(descendants(os.getpid()))))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_checks_in_many_threads_do_not_mix() -> None:
    verdicts: list[Verdict] = []
    names = ["right", "aborts", "exits", "closes", "right", "segfaults"]
    threads = [
        threading.Thread(target=lambda name=name: verdicts.append(judge(name))) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bool(verdict.passed) for verdict in verdicts) == [False] * 3 + [True] * 3


@pytest.mark.slow
def test_no_process_is_left_where_the_smallest_failing_call_is_saved(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    expect = ropecli.Rotary(8, layout="interleaved")
    saved = tmp_path / "case.npz"
    verdict = judge("right", expect=expect, select="convention", save_failure=saved)
    assert "the smallest failing call is in" in verdict.notes[-1]
    assert descendants(os.getpid()) <= before


@pytest.mark.slow
def test_a_process_that_was_forked_has_workers_of_its_own() -> None:
    assert judge("right").passed
    pid = os.fork()
    if not pid:
        os._exit(0 if judge("right").passed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert judge("right").passed  # with those of this one


@pytest.mark.slow
def test_the_environment_is_that_of_the_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def kernel(x: Any, positions: Any) -> Any:
        import os
        from pathlib import Path

        raise ValueError(os.environ["OMP_WAIT_POLICY"], str(Path.cwd()))

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    for word in ("PASSIVE", "ACTIVE"):  # that of a worker, and the user's own
        if word == "ACTIVE":
            monkeypatch.setenv("OMP_WAIT_POLICY", word)
        with pytest.raises(CallError) as caught:
            ropecli.check(kernel, **FEW_LAWS, call="kernel(x, positions)", **CALL)
        assert word in str(caught.value)
        assert str(tmp_path) in str(caught.value)


def start(name: str, begun: Path) -> subprocess.Popen[str]:
    """Start the command line on one of the module, and wait for the call that does not end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ropecli", "check", f"{MODULE}:{name}", "--dim", "8"],
        env={**os.environ, "CALL_BEGUN": str(begun)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    wait_for(begun.exists, seconds=60)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loops", "stops", "always_loops"])
def test_ctrl_c_ends_a_call(tmp_path: Path, name: str) -> None:
    process = start(name, tmp_path / "begun")
    below = descendants(process.pid)
    begin = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - begin < 20  # and not after a timeout of 60 s
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in err
    wait_for(lambda: not any(map(alive, below)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["loops", "stops"])
def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path, name: str) -> None:
    process = start(name, tmp_path / "begun")
    below = descendants(process.pid)
    process.kill()
    process.communicate(timeout=20)
    wait_for(lambda: not any(map(alive, below)))
    assert below


@pytest.mark.slow
def test_arrays_that_fill_pipes_in_both_directions() -> None:
    """While it prints more than a pipe holds."""

    def kernel(x: Any, positions: Any) -> Any:
        import sys

        sys.stdout.write("y" * 200_000 + "\n")
        return np.copy(x)

    options = FEW_LAWS | {"head_dim": 2048, "form": "apply", "select": "rotation"}
    verdict = ropecli.check(kernel, **options)
    assert "nothing is rotated" in str(verdict.diagnosis)


HOSTILE = """
import os
from misbehaviour import right
def forks(x, positions):
    if x.shape[-2] > 100:
        os.fork()
    return right(x, positions)
def clears(x, positions):
    os.environ.clear()
    return right(x, positions)
def interrupts(x, positions):
    if x.shape[-2] > 100:
        raise KeyboardInterrupt
    return right(x, positions)
"""


def _check_process(name: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "hostile.py").write_text(HOSTILE)
    (folder / "misbehaviour.py").write_text(MODULE.read_text())
    return run_cli("check", f"hostile.py:{name}", "--context", "300", "-q", cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forks", "clears"])
def test_what_a_call_leaves_behind_disturbs_no_answer(name: str, tmp_path: Path) -> None:
    done = _check_process(name, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_an_interrupt_that_a_call_raises_is_its_failure(tmp_path: Path) -> None:
    done = _check_process("interrupts", tmp_path)
    assert (done.returncode, done.stderr) == (1, "")
    assert "A call that must be answered failed: KeyboardInterrupt." in done.stdout
    (tmp_path / "module.py").write_text("raise KeyboardInterrupt")
    done = run_cli("check", "module.py:name", "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: it can't be loaded: KeyboardInterrupt\n")


@pytest.mark.slow
def test_calls_that_hang_are_named_where_no_further_one_is_made(tmp_path: Path) -> None:
    file = tmp_path / "late.py"
    file.write_text(
        f"{TURN}\ndef late(x, positions):\n"
        "    while x.shape[-2] > 50:\n        pass\n    return turn(x, positions)\n"
    )
    verdict = ropecli.check(f"{file}:late", timeout=0.3, head_dim=64, dtypes="float32")
    text = " ".join(str(verdict).split())
    words = r"ended (\d+) times, the last time because it did not return within 0.3 s in a call"
    ended = re.search(words, text)
    assert ended is not None
    # In the search for a call twice as many timeouts may pass as in the checks.
    assert run.PATIENCE <= int(ended[1]) <= 3 * run.PATIENCE


@pytest.mark.slow
def test_a_function_that_never_returns_costs_few_timeouts(tmp_path: Path) -> None:
    file, calls = tmp_path / "never.py", tmp_path / "calls"
    file.write_text(
        "def never(x, positions):\n"
        f"    open({str(calls)!r}, 'a').write('.')\n"
        "    while True:\n        pass\n"
    )
    with pytest.raises(CallError, match=r"did not return within 0.5 s"):
        ropecli.check(f"{file}:never", timeout=0.5, head_dim=64)
    assert 1 <= len(calls.read_text()) <= run.PATIENCE


@pytest.mark.slow
def test_a_worker_ends_although_a_process_was_forked_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        f"{TURN}\ndef late(x, positions):\n"
        "    while x.shape[-2] > 50:\n        pass\n    return turn(x, positions)\n"
    )
    code = """
import os, signal, sys, threading, time
import ropecli

def fork():
    time.sleep(1.5)  # a worker is running
    pid = os.fork()
    if not pid:
        time.sleep(60)
        os._exit(0)
    pids.append(pid)

pids = []
thread = threading.Thread(target=fork)
thread.start()
begin = time.monotonic()
ropecli.check("late.py:late", timeout=1, head_dim=64, dtypes="float32")
seconds = time.monotonic() - begin
thread.join()
os.kill(pids[0], signal.SIGKILL)
sys.exit(f"{seconds:.1f} s" if seconds > 15 else 0)
"""
    done = run_python(code, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
