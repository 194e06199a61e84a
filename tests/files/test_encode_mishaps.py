"""Kills, full disks and other mishaps while a file is being rotated; and its memory."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from files.folders import names, refused, saved
from helpers import ROOT, assert_same_bits, run_python

from ropecli import Rotary, encode_file, rotate
from ropecli.errors import FileError
from ropecli.files import array_job

pytestmark = pytest.mark.slow

ROPE = Rotary(head_dim=8)


def shrink(path: Path) -> None:
    os.truncate(path, 4_000)


def interrupt(_: Path) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("event", "error", "left"),
    [
        (shrink, FileError, ["in", "out"]),
        (interrupt, KeyboardInterrupt, ["in", "out"]),
        (lambda path: shutil.rmtree(path.parents[1] / "out"), FileError, ["in"]),
    ],
    ids=["input shrinks", "Ctrl-C", "folder removed"],
)
def test_mishap_half_way_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    event: Callable[[Path], None],
    error: type[BaseException],
    left: list[str],
) -> None:
    monkeypatch.setattr(array_job, "BLOCK_BYTES", 1_024)
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    path = saved(tmp_path / "in", np.ones((200, 8)))
    with pytest.raises(error):
        encode_file(
            path,
            tmp_path / "out" / "y.npy",
            ROPE,
            progress=lambda done, _: event(path) if done == 5 * 1_024 else None,
        )
    assert names(tmp_path) == left
    assert not list(tmp_path.rglob("*y.npy*"))


#: In the background of a script interrupts are ignored, and children inherit that.
SLOWLY = """
import signal, sys, time, ropecli
from ropecli.files import array_job
signal.signal(signal.SIGINT, signal.default_int_handler)
array_job.BLOCK_BYTES = 4_096
def pause(done, total):
    print(done, flush=True)
    time.sleep(0.005)
ropecli.encode_file(sys.argv[1], sys.argv[2], ropecli.Rotary(head_dim=8), progress=pause)
"""


def slowly(path: Path, output: Path) -> subprocess.Popen[str]:
    """A process that takes about a second, and prints a line after every block."""
    return subprocess.Popen(
        [sys.executable, "-c", SLOWLY, str(path), str(output)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_interrupted_process_leaves_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, np.ones((12_800, 8)))
    with slowly(path, tmp_path / "y.npy") as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert names(tmp_path) == ["x.npy"]


def test_killed_process_leaves_no_file_and_the_next_one_cleans_up(tmp_path: Path) -> None:
    path, output = saved(tmp_path, np.ones((12_800, 8))), tmp_path / "y.npy"
    for blocks in (1, 20, 150):
        with slowly(path, output) as process:
            assert process.stdout is not None
            for _ in range(blocks):
                assert process.stdout.readline()
            process.kill()
        assert process.returncode == -signal.SIGKILL
        assert names(tmp_path) == [".y.npy.ropecli-part", "x.npy"]
    encode_file(path, output, ROPE)
    assert names(tmp_path) == ["x.npy", "y.npy"]
    assert_same_bits("after kills", got=np.load(output), expected=rotate(np.load(path), ROPE))


def test_two_runs_to_one_output(tmp_path: Path) -> None:
    path, output = saved(tmp_path, np.ones((12_800, 8))), tmp_path / "y.npy"
    with slowly(path, output) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        for force in (False, True):
            assert "another ropecli" in refused(encode_file, path, output, ROPE, force=force)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert names(tmp_path) == ["x.npy", "y.npy"]
    assert_same_bits("the first run", got=np.load(output), expected=rotate(np.load(path), ROPE))


def test_full_disk_leaves_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path, np.ones((12_800, 8)))
    ran = run_python(f"""
import resource, sys, ropecli
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))  # Python ignores its signal
try:
    ropecli.encode_file({str(path)!r}, {str(tmp_path / "y.npy")!r}, ropecli.Rotary(head_dim=8))
except ropecli.FileError as error:
    sys.exit(str(error))
""")
    assert (ran.returncode, ran.stderr) == (1, f"cannot write {tmp_path}/y.npy: File too large\n")
    assert names(tmp_path) == ["x.npy"]


MEMORY = """
import json, resource, sys, ropecli
from pathlib import Path
for source, target, head_dim, axis, positions, resume in json.loads(sys.argv[1]):
    rope = ropecli.Rotary(head_dim=head_dim)
    options = {"sequence_axis": axis, "positions": positions, "resume": resume}
    ropecli.encode_file(source, target, rope, **options)
    Path(target).unlink()
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss would count this process's parent too
    print(*[line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line])
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def zeros(path: Path, dtype: str, *shape: int, fortran_order: bool = False) -> str:
    """A file of zeros that take no space on the disk."""
    with path.open("wb") as stream:
        header = {"descr": dtype, "fortran_order": fortran_order, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + math.prod(shape) * np.dtype(dtype).itemsize)
    return str(path)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    target = str(tmp_path / "y.npy")
    places = zeros(tmp_path / "p.npy", "<i8", 12_000_000)
    jobs = [
        (
            zeros(tmp_path / "rows.npy", "<f4", 1_200_000, 128),
            target,
            128,
            None,
            None,
            False,
        ),  # 614 MB
        (zeros(tmp_path / "more.npy", "<f4", 600_000, 128), target, 128, None, None, True),
        (zeros(tmp_path / "row.npy", "<f4", 1, 25_000_000), target, 50, None, None, False),
        (zeros(tmp_path / "short.npy", "<f4", 12_000_000, 2), target, 2, None, places, False),
        (
            zeros(tmp_path / "columns.npy", ">f4", 200_000, 2, 64, fortran_order=True),
            target,
            32,
            0,
            None,
            False,
        ),
    ]
    code = f"import sys; sys.argv.append({json.dumps(json.dumps(jobs))})\n{MEMORY}"
    ran = run_python(code, NUMBA_DISABLE_JIT="0")  # which would take hours
    assert ran.stderr == ""
    assert 1_000 < int(ran.stdout) < 400_000  # kB
