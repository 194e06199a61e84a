"""Kernels on the calling thread alone, beside those of other threads."""

from __future__ import annotations

import subprocess

from helpers import run_python

WORK = """
import threading
import numpy as np
from ropecli import Rotary, rotate
from ropecli.kernels._jit import _process, on_this_thread
x = np.random.default_rng(0).standard_normal((4_096, 64)).astype("f4")
rope = Rotary(head_dim=64)
results = []
def alone():
    with on_this_thread():
        results.append(rotate(x, rope).tobytes())
"""
ALONE = """
threads = [threading.Thread(target=alone) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not _process.launched
assert {rotate(x, rope).tobytes()} == set(results)
assert _process.launched
"""
UNTIL_THE_END = """
try:
    with on_this_thread():
        raise KeyError
except KeyError:
    rotate(x, rope)
assert _process.launched
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return run_python(WORK + code, NUMBA_DISABLE_JIT="0", NUMBA_NUM_THREADS="2")


def test_no_other_thread_is_started_and_the_bits_are_the_same() -> None:
    done = run(ALONE)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_ends_with_the_block() -> None:
    done = run(UNTIL_THE_END)
    assert (done.returncode, done.stderr) == (0, "")
