"""Processes that are killed, interrupted, or out of space."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from files.folders import names, saved
from files.resumed import contents
from helpers import ROOT, random_array

from ropecli import Rotary, encode_file

ROPE = Rotary(head_dim=8)
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
LEFT = {".y.npy.ropecli-part", ".y.npy.ropecli-part.blocks"}

#: The command, with small blocks and a line for each.
BLOCKS = """
import signal, sys
from ropecli.files import array_job
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background may ignore
array_job.BLOCK_BYTES = 4_096
real = array_job.ArrayJob.rotate
def turn(*words):
    print("turned", file=sys.stderr, flush=True)
    return real(*words)
array_job.ArrayJob.rotate = turn
from ropecli.cli import main
sys.argv = ["ropecli", "encode", *sys.argv[1:]]
main()
"""


def start(*words: object) -> subprocess.Popen[bytes]:
    """The command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", BLOCKS, *map(str, words)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )


def killed(blocks: int, *words: object) -> None:
    """Kill the command once it has begun so many blocks."""
    with start(*words, "-q") as process:
        assert process.stderr is not None
        for _ in range(blocks):
            assert process.stderr.readline() == b"turned\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL


def finished(*words: object) -> int:
    """Run the command to its end: how many blocks it turned."""
    with start(*words, "-q") as process:
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return errors.count(b"turned\n")


@pytest.mark.slow
def test_five_kills(tmp_path: Path) -> None:
    path, output = (
        saved(tmp_path, random_array(4_800, 8, dtype="f8")),
        tmp_path / "y.npy",
    )  # 150 blocks
    before = contents(path)
    draw = random.Random(1)
    encode_file(path, tmp_path / "expected.npy", ROPE)
    words = [path, "-o", output]
    for blocks in (1, draw.randint(2, 120)):
        killed(blocks, *words)
        assert set(names(tmp_path)) - {"expected.npy", "x.npy"} == {".y.npy.ropecli-part"}
    done = 0
    for blocks in (1, draw.randint(2, 40), draw.randint(2, 40)):
        killed(blocks, *words, "--resume")
        done += blocks - 1
        assert set(names(tmp_path)) - {"expected.npy", "x.npy"} == LEFT
    # Of the blocks of each run at most three were turned and not yet logged.
    assert finished(*words, "--resume") <= 150 - done + 3 * 3
    assert names(tmp_path) == ["expected.npy", "x.npy", "y.npy"]
    assert contents(output) == contents(tmp_path / "expected.npy")
    assert contents(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("stuck", ["stdin", "stdout"])
def test_interrupt_ends_what_waits_for_others(tmp_path: Path, stuck: str) -> None:
    path = saved(tmp_path, random_array(100_000, 8, dtype="f8"))  # more than a pipe holds
    words = ["-", "-o", tmp_path / "y.npy"] if stuck == "stdin" else [path, "-o", "-"]
    with start(*words, "-q") as process:
        assert process.stderr is not None
        assert process.stdin is not None
        if stuck == "stdin":
            process.stdin.write(path.read_bytes()[: 128 + 32 * 2_048])
            process.stdin.flush()
        for _ in range(32):  # blocks; no more come, and no more than 64 KiB go
            assert process.stderr.readline() == b"turned\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=20) == 130
        finally:
            process.kill()
    assert names(tmp_path) == ["x.npy"]


@pytest.mark.slow
def test_things_that_are_called_as_stdout_is(tmp_path: Path) -> None:
    path = saved(tmp_path, random_array(100, 8, dtype="f8"))
    encode_file(path, tmp_path / "expected.npy", ROPE)
    (tmp_path / "-").mkdir()
    (tmp_path / "-" / "precious").write_bytes(b"precious")
    code = "import ropecli; ropecli.encode_file('x.npy', '-', ropecli.Rotary(head_dim=8))"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, check=True, env=ENVIRONMENT)
    assert done.stdout == (tmp_path / "expected.npy").read_bytes()
    assert contents(tmp_path / "-") == {"precious": b"precious"}


@pytest.mark.slow
def test_full_disk_keeps_what_can_be_gone_on_with(tmp_path: Path) -> None:
    path, output = saved(tmp_path, random_array(4_800, 8, dtype="f8")), tmp_path / "y.npy"
    encode_file(path, tmp_path / "expected.npy", ROPE)
    limit = path.stat().st_size // 2

    def small_disk() -> None:
        # Python ignores the signal.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", BLOCKS, path, "-o", output, "--resume", "-q"],
            capture_output=True,
            text=True,
            check=False,
            env=ENVIRONMENT,
            preexec_fn=small_disk,
        )
        assert done.returncode == 2
        said = done.stderr.replace("turned\n", "")
        assert f"error: cannot write {output}: File too large\n" in said
        assert "Traceback" not in said
    assert set(names(tmp_path)) == {"expected.npy", "x.npy"} | LEFT
    finished(path, "-o", output, "--resume")
    assert contents(output) == contents(tmp_path / "expected.npy")
