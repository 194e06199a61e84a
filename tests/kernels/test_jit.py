"""Threads, forks and caches, each in its own process."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
import pytest
from helpers import ROOT, for_each, run_cli, run_python

pytestmark = pytest.mark.slow

#: The smallest kernel, with a check of its result.
KERNEL = """
import math, numpy as np
from ropecli.kernels import abel
def work():
    cos, sin = np.full((2, 4, 8), np.nan)
    abel.fill_steps(np.array([1.0, 0.5, 0.25, 0.0]), 2.0, cos, sin)
    return cos.tobytes() + sin.tobytes()
first = work()
assert np.frombuffer(first)[1] == math.cos(2.0)
"""
COMPILED: dict[str, Any] = {"NUMBA_DISABLE_JIT": "0", "NUMBA_NUM_THREADS": "2"}


def run(code: str, **environment: Any) -> str:
    done = run_python(KERNEL + code, **{**COMPILED, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that holds the kernel."""
    folder = tmp_path_factory.mktemp("cache")
    run("", NUMBA_CACHE_DIR=str(folder))
    return folder


def entries(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.rglob(f"*fill_steps*{suffix}"))


THREADS = """
import threading
results = []
threads = [threading.Thread(target=lambda: results.extend(work() for _ in range(50)))
           for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(results) == 200 and set(results) == {first}
"""


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_python_threads_may_call_kernels_at_once(layer: str, warm: Path) -> None:
    code = THREADS + "from ropecli.kernels.jit import threading_layer; print(threading_layer())"
    assert run(code, NUMBA_THREADING_LAYER=layer, NUMBA_CACHE_DIR=str(warm)) == layer


FORK = """
import os, sys
child = os.fork()
if not child:
    os._exit(0 if work() == first else 3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("layer", ["workqueue", "omp"])
def test_child_forked_after_a_parallel_call_gets_the_same_bits(layer: str, warm: Path) -> None:
    assert run(FORK, NUMBA_THREADING_LAYER=layer, NUMBA_CACHE_DIR=str(warm)) == "0"


def test_child_forked_while_another_thread_is_in_a_kernel(warm: Path) -> None:
    code = """
import threading
busy, free = threading.Event(), threading.Event()
def keep_busy():
    cos, sin = np.empty((2, 4, 2_000_000))
    while not free.is_set():
        busy.set()
        abel.fill_steps(np.ones(4), 2.0, cos, sin)
thread = threading.Thread(target=keep_busy)
thread.start()
busy.wait()
"""
    end = "free.set()\nthread.join()"
    assert run(code + FORK + end, NUMBA_CACHE_DIR=str(warm)) == "0"


@pytest.mark.skipif(sys.platform != "linux", reason="GNU OpenMP")
def test_child_forked_where_others_hold_the_threads_of_openmp(warm: Path) -> None:
    # As PyTorch leaves them: a child that asks for them waits for ever.
    code = """
import ctypes, os, signal
import ropecli.kernels.abel
nothing = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: None)
ctypes.CDLL("libgomp.so.1").GOMP_parallel(nothing, None, 2, 0)
assert len(os.listdir("/proc/self/task")) > 1
if not (child := os.fork()):
    signal.alarm(20)
"""
    end = """
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = run_python(
        code + indent(KERNEL, "    ") + end,
        **{**COMPILED, "NUMBA_CACHE_DIR": str(warm), "NUMBA_THREADING_LAYER": "omp"},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_multiprocessing_pool_of_forks(warm: Path) -> None:
    code = """
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert set(pool.starmap(work, [()] * 4)) == {first}
print("done")
"""
    assert run(code, NUMBA_CACHE_DIR=str(warm)) == "done"


def test_second_process_loads_what_the_first_compiled(warm: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in entries(warm, "")}
    stats = run(
        "print(abel.fill_steps.threaded.dispatcher.stats.cache_hits, end=' ')\n"
        "print(abel.fill_steps.threaded.dispatcher.stats.cache_misses)",
        NUMBA_CACHE_DIR=str(warm),
    )
    assert stats.split()[0] != "{}"
    assert {path: path.stat().st_mtime_ns for path in entries(warm, "")} == before


def test_other_code_is_compiled_as_it_would_be_without_kernels(tmp_path: Path) -> None:
    code = """
import numba
print(int(numba.config.OPT), numba.njit(lambda x: x).targetoptions.get("no_cfunc_wrapper"))
"""
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path)) == "3 None"
    assert run(code, NUMBA_CACHE_DIR=str(tmp_path), NUMBA_OPT="0") == "0 None"


def test_parallel_and_serial_code_have_entries_of_their_own(warm: Path) -> None:
    run(FORK, NUMBA_CACHE_DIR=str(warm))
    names = {path.name.partition("-")[0] for path in entries(warm, ".nbi")}
    assert names == {"abel.fill_steps", "abel.fill_steps_serial"}


#: Each kind meets a reloaded module; its first call must not load from the cache, the second must.
DAMAGE = """
import importlib, os, pathlib
folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
def files(suffix):
    return {path: path.read_bytes() for path in folder.rglob(f"*fill_steps*{suffix}")}
def loaded():
    importlib.reload(abel)
    assert work() == first
    return sum(abel.fill_steps.threaded.dispatcher.stats.cache_hits.values())
for suffix, damage in [
    (".nbi", lambda data: data[: len(data) // 2]),
    (".nbi", lambda data: bytes(range(256)) * 8),
    (".nbi", lambda data: b"cno_such_module\\nthing\\n."),
    (".nbc", lambda data: b""),
    (".nbc", lambda data: b"not a pickle\\n" * 40),
]:
    assert loaded() == 1
    assert files(suffix)
    for path, data in files(suffix).items():
        path.write_bytes(damage(data))
    assert loaded() == 0
    made = files(suffix)
    assert loaded() == 1
    assert files(suffix) == made
print("done")
"""


def test_damaged_cache_is_replaced(tmp_path: Path, warm: Path) -> None:
    folder = tmp_path / "cache"
    subprocess.run(["cp", "-r", warm, folder], check=True)
    assert run(DAMAGE, NUMBA_CACHE_DIR=str(folder)) == "done"


def test_default_folder_is_the_user_s_own(tmp_path: Path) -> None:
    run("", XDG_CACHE_HOME=str(tmp_path), NUMBA_CACHE_DIR="")
    folder = tmp_path / "ropecli" / "numba"
    if sys.platform == "linux":
        assert entries(folder, ".nbc")
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "environment",
    [
        {"NUMBA_CACHE_DIR": "/proc/no/such/folder"},
        {"NUMBA_CACHE_DIR": "", "HOME": "/proc/none", "XDG_CACHE_HOME": "/proc/none"},
        {"NUMBA_CACHE_DIR": "/dev/null/folder"},
    ],
    ids=["named folder", "no home", "below a file"],
)
def test_cache_that_cannot_be_written_is_done_without(environment: dict[str, Any]) -> None:
    run("", **environment)


def test_full_disk_costs_the_cache_and_nothing_else(tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    code += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    done = run_python(code + KERNEL, **COMPILED, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not entries(tmp_path, ".nbc")


def test_numba_s_own_setting_is_left_alone(tmp_path: Path) -> None:
    code = "import numba; print(repr(numba.config.CACHE_DIR))"
    assert run(code, XDG_CACHE_HOME=str(tmp_path), NUMBA_CACHE_DIR="") == "''"


def run_at_once(folder: Path, *commands: list[str]) -> list[str]:
    """Run pieces of Python, with their arguments, at once with one cache; return their outputs."""
    environment = {**os.environ, **COMPILED, "PYTHONPATH": str(ROOT)}
    environment["NUMBA_CACHE_DIR"] = str(folder)
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [
        subprocess.Popen([sys.executable, "-c", *command], env=environment, **pipes)
        for command in commands
    ]
    outputs = []
    for process in started:
        output, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        outputs.append(output)
    return outputs


def test_four_processes_start_at_once_on_a_cold_cache(tmp_path: Path) -> None:
    run_at_once(tmp_path, *[[KERNEL]] * 4)
    assert entries(tmp_path, ".nbc")
    run("", NUMBA_CACHE_DIR=str(tmp_path))


def test_two_signatures_saved_at_once_get_files_of_their_own(tmp_path: Path) -> None:
    # Numba picks a data file's name from an index read before: unlocked, float32 code could be
    # loaded for float64.
    code = """
import sys, numpy as np
from ropecli import Rotary, rotate
x = np.ones((3, 4), sys.argv[1])
print(rotate(x, Rotary(head_dim=4)).tobytes().hex())
"""
    cold, warm = (run_at_once(tmp_path, [code, "f4"], [code, "f8"]) for _ in range(2))
    assert cold == warm
    assert all(cold)


PLANTED = """
import os, pathlib, pickle
class Planted:
    def __reduce__(self):
        return os.mkdir, (os.environ["MARK"],)
for file in pathlib.Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbi"):
    file.write_bytes(pickle.dumps(Planted()))
"""


@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_planted_code_runs_only_in_a_folder_that_only_the_user_may_write(
    mode: int, tmp_path: Path
) -> None:
    folder, mark = tmp_path / "cache", tmp_path / "mark"
    environment = {"NUMBA_CACHE_DIR": str(folder), "MARK": str(mark)}
    run(PLANTED, **environment)
    folder.chmod(mode)
    run("", **environment)
    assert mark.exists() == (mode == 0o700)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NUM_THREADS", "0", "Number of threads specified must be > 0."),
        ("NUM_THREADS", "-3", "Number of threads specified must be > 0."),
        ("NUM_THREADS", "x", "associated value 'x' could not be parsed"),
        ("THREADING_LAYER", "bogus", "'bogus' is unknown to Numba"),
        ("THREADING_LAYER_PRIORITY", "omp", "must be a permutation"),
        ("CACHE_LOCATOR_CLASSES", "nowhere", "Unknown cache locator class"),
        ("OPT", "99", "value '99' could not be parsed"),
    ],
)
def test_settings_that_numba_refuses_are_named(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"NUMBA_{name}", value)
    done = run_cli("info", NUMBA_DISABLE_JIT="0")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: Numba can't run with ")
    assert f"NUMBA_{name}={value}" in line
    assert said in line


@for_each("command", ["info", "scores --dim 4", "encode x.npy"])
def test_a_threading_layer_that_is_not_installed_is_named(command: str, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2**13, 256)))
    done = run_cli(
        *command.split(), cwd=tmp_path, NUMBA_THREADING_LAYER="tbb", NUMBA_DISABLE_JIT="0"
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "NUMBA_THREADING_LAYER=tbb: No threading layer could be loaded." in done.stderr


def test_a_file_of_settings_is_read_where_it_is_the_users(tmp_path: Path) -> None:
    file = tmp_path / ".numba_config.yaml"
    file.write_text("num_threads: 1\n")
    done = run_cli("info", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["result"]["threads"] == 1
    file.write_text("- num_threads\n")
    done = run_cli("info", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    file.chmod(0o666)
    done = run_cli("info", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: Numba would read {file}: every user may write it")
    file.unlink()
    os.mkfifo(file)
    done = run_cli("info", cwd=tmp_path)
    assert done.stderr.startswith(f"error: Numba would read {file}: it is not a regular file")
