"""Kernels on the calling thread alone, next to those of other threads."""

from __future__ import annotations

from helpers import run_python

WORK = """
import threading, time
import numpy as np
from ropecli import Rotary, rotate
from ropecli.kernels.jit import on_this_thread
x = np.random.default_rng(0).standard_normal((4_096, 64)).astype("f4")
rope = Rotary(head_dim=64)
results = []
def alone():
    with on_this_thread():
        results.append(rotate(x, rope).tobytes())
def share_of_this_thread():
    rotate(x, rope)
    process, thread = time.process_time(), time.thread_time()
    for _ in range(200):
        rotate(x, rope)
    return (time.thread_time() - thread) / (time.process_time() - process)
"""
ALONE = """
threads = [threading.Thread(target=alone) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert {rotate(x, rope).tobytes()} == set(results)
with on_this_thread():
    assert share_of_this_thread() > 0.9
try:
    with on_this_thread():
        raise KeyError
except KeyError:
    assert share_of_this_thread() < 0.8
"""


def test_no_other_thread_works_until_the_block_ends_and_the_bits_are_the_same() -> None:
    done = run_python(WORK + ALONE, NUMBA_DISABLE_JIT="0", NUMBA_NUM_THREADS="2")
    assert (done.returncode, done.stderr) == (0, "")
