"""Failing disks, kills, interrupts, permissions and links: one line, nothing lost; and memory."""

from __future__ import annotations

import errno
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from files.folders import contents, drop_privileges, ends, names, save
from files.memory import peak_of
from helpers import ROOT, assert_refused, random_array

from ropecli import Rotary, encode_file
from ropecli.cli.app import run
from ropecli.files import opened

ROPE = Rotary(head_dim=8)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with x.npy, from which blocks of eight vectors are rotated."""
    save(tmp_path, random_array(100, 8, dtype="f8"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opened, "BLOCK_BYTES", 1_024)
    return tmp_path


def expected_files(folder: Path) -> dict[str, bytes]:
    """Return the rotated x.npy."""
    encode_file(folder / "x.npy", folder / "good.npy", ROPE)
    found = contents(folder / "good.npy")
    (folder / "good.npy").unlink()
    return found


def failing(
    monkeypatch: pytest.MonkeyPatch, call: str, error: BaseException, *, at: int, times: int = 999
) -> None:
    """Let a system call fail, from some call on."""
    real: Any = getattr(os, call)
    seen: list[int] = []

    def fail(*words: Any, **more: Any) -> Any:
        seen.append(1)
        if at <= len(seen) < at + times:
            raise error
        return real(*words, **more)

    monkeypatch.setattr(os, call, fail)


EIO = OSError(errno.EIO, "Input/output error")
ENOSPC = OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("call", "error", "at", "times", "says"),
    [
        ("pread", EIO, 1, 1, "cannot read x.npy: Input/output error"),  # the header
        ("preadv", EIO, 4, 999, "cannot read x.npy: Input/output error"),
        ("preadv", EIO, 13, 1, "cannot read x.npy: Input/output error"),
        ("pwrite", ENOSPC, 1, 1, "cannot write y.npy: No space left on device"),  # the header
        ("pwrite", ENOSPC, 6, 999, "cannot write y.npy: No space left on device"),
        ("pwrite", EIO, 14, 1, "cannot write y.npy: Input/output error"),  # the last block
        ("truncate", ENOSPC, 1, 1, "cannot write y.npy: No space left on device"),
        ("fsync", EIO, 1, 1, "cannot write y.npy: Input/output error"),
        ("link", EIO, 1, 1, None),  # as on a file system without links
    ],
)
def test_failing_disk(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: OSError,
    at: int,
    times: int,
    says: str | None,
) -> None:
    whole, before = expected_files(here), contents(here / "x.npy")
    words = ["encode", "x.npy", "-o", "y.npy"]
    with monkeypatch.context() as patched, ends():
        failing(patched, call, error, at=at, times=times)
        if says is None:
            assert run(words) == 0
        else:
            assert assert_refused(*words, "--json") == says
            assert names(here) == ["x.npy"]
            patched.undo()
            patched.setattr(opened, "BLOCK_BYTES", 1_024)
            assert run(words) == 0
    assert names(here) == ["x.npy", "y.npy"]
    assert contents(here / "y.npy") == whole
    assert contents(here / "x.npy") == before


@pytest.mark.parametrize(
    ("call", "error", "code"),
    [
        ("preadv", RuntimeError("an unforeseen one"), 101),
        ("pwrite", RuntimeError("an unforeseen one"), 101),
        ("pwrite", MemoryError(), 2),
        ("preadv", KeyboardInterrupt(), 130),
    ],
)
def test_any_exception_ends_the_run(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    call: str,
    error: BaseException,
    code: int,
) -> None:
    with monkeypatch.context() as patched, ends():
        failing(patched, call, error, at=5)
        assert run(["encode", "x.npy", "-o", "y.npy", "--json"]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert [line[:7] for line in printed.err.splitlines()].count("error: ") == 1
    assert "Traceback" not in printed.err
    assert names(here) == ["x.npy"]


def test_reads_and_writes_that_come_in_pieces(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = expected_files(here)
    pwrite, preadv = os.pwrite, os.preadv
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:77], at))
    monkeypatch.setattr(os, "preadv", lambda fd, into, at: preadv(fd, [into[0][:99]], at))
    assert run(["encode", "x.npy", "-o", "y.npy"]) == 0
    assert contents(here / "y.npy") == whole


@pytest.mark.parametrize("call", ["preadv", "pwrite"])
@pytest.mark.parametrize("event", ["shrinks", "removed"])
def test_what_happens_between_two_blocks(
    here: Path, monkeypatch: pytest.MonkeyPatch, call: str, event: str
) -> None:
    (here / "out").mkdir()
    happens: dict[str, Callable[[], None]] = {
        "shrinks": lambda: os.truncate("x.npy", 4_000),
        "removed": lambda: shutil.rmtree("out"),
    }
    real: Any = getattr(os, call)
    seen: list[int] = []

    def then(*words: Any) -> Any:
        seen.append(1)
        if len(seen) == 5:
            happens[event]()
        return real(*words)

    with monkeypatch.context() as patched, ends():
        patched.setattr(os, call, then)
        said = assert_refused("encode", "x.npy", "-o", "out/y.npy", "--json")
    if event == "shrinks":
        assert said == "x.npy became shorter while it was being read"
        assert names(here / "out") == []
    else:
        assert "/out/.y.npy.ropecli-part was removed while it was being written" in said
        assert names(here) == ["x.npy"]


def test_permissions(open_to_all: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = open_to_all
    monkeypatch.chdir(here)
    save(here, random_array(100, 8, dtype="f8"))
    whole = expected_files(here)
    (here / "closed").mkdir(mode=0o555)
    (here / "y.npy").write_bytes(b"old")
    (here / "y.npy").chmod(0o444)
    with drop_privileges():
        said = assert_refused("encode", "x.npy", "-o", "closed/y.npy", "--json")
        assert said.startswith("cannot write closed/y.npy: Permission denied")
        # A folder that may be written is what it takes to replace a file that may not.
        assert_refused("encode", "x.npy", "-o", "y.npy", "--json")
        assert run(["encode", "x.npy", "-o", "y.npy", "--force"]) == 0
        assert (here / "y.npy").stat().st_mode & 0o777 == 0o444
    assert contents(here / "y.npy") == whole
    assert names(here / "closed") == []
    assert names(here) == ["closed", "x.npy", "y.npy"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files to somebody else")
def test_root_leaves_a_file_to_its_owner(here: Path) -> None:
    (here / "y.npy").write_bytes(b"old")
    os.chown(here / "y.npy", 1234, 5678)
    os.link(here / "y.npy", here / "hard.npy")
    assert run(["encode", "x.npy", "-o", "y.npy", "--force"]) == 0
    found = (here / "y.npy").stat()
    assert (found.st_uid, found.st_gid) == (1234, 5678)
    assert (here / "hard.npy").read_bytes() == b"old"


def test_links_as_targets(here: Path) -> None:
    whole, before = expected_files(here), contents(here / "x.npy")
    (here / "far").mkdir()
    (here / "far" / "old.npy").write_bytes(b"old")
    for link, to in {
        "old.npy": "far/old.npy",
        "new.npy": "far/new.npy",
        "loop.npy": "loop.npy",
        "nowhere.npy": "no/folder/y.npy",
        "same.npy": "x.npy",
    }.items():
        (here / link).symlink_to(to)
    os.link("x.npy", "hard.npy")
    refusals = {
        "old.npy": "exists; pass --force",
        "loop.npy": "not a regular file",
        "nowhere.npy": "there is no folder",
        "same.npy": "the same file",
        "hard.npy": "the same file",
        "../" + here.name + "/x.npy": "the same file",
    }
    for name, words in refusals.items():
        force = [] if name == "old.npy" else ["--force"]
        said = assert_refused("encode", "x.npy", "-o", name, "--json", *force)
        assert words in said
    for name in ("old.npy", "new.npy"):
        assert run(["encode", "x.npy", "-o", name, "--force"]) == 0
        assert (here / name).is_symlink()
        assert contents(here / "far" / name) == whole
    assert names(here / "far") == ["new.npy", "old.npy"]
    assert contents(here / "x.npy") == before
    assert (here / "loop.npy").is_symlink()


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}

#: The command, with small blocks and a line for each.
BLOCKS = """
import signal, sys
from ropecli.files import opened
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background may ignore
opened.BLOCK_BYTES = 4_096
real = opened.RotatedArray.rotate
def turn(*words):
    print("turned", file=sys.stderr, flush=True)
    return real(*words)
opened.RotatedArray.rotate = turn
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


def kill_after(blocks: int, *words: object) -> None:
    """Kill the command after it has begun a number of blocks."""
    with start(*words, "-q") as process:
        assert process.stderr is not None
        for _ in range(blocks):
            assert process.stderr.readline() == b"turned\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL


def run_to_end(*words: object) -> int:
    """Run the command to its end: how many blocks it turned."""
    with start(*words, "-q") as process:
        _, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return errors.count(b"turned\n")


@pytest.mark.slow
def test_two_kills(tmp_path: Path) -> None:
    path = save(tmp_path, random_array(4_800, 8, dtype="f8"))  # 150 blocks
    output = tmp_path / "y.npy"
    before = contents(path)
    draw = random.Random(1)
    encode_file(path, tmp_path / "expected.npy", ROPE)
    words = [path, "-o", output]
    for blocks in (1, draw.randint(2, 120)):
        kill_after(blocks, *words)
        assert set(names(tmp_path)) - {"expected.npy", "x.npy"} == {".y.npy.ropecli-part"}
    assert run_to_end(*words) == 150
    assert names(tmp_path) == ["expected.npy", "x.npy", "y.npy"]
    assert contents(output) == contents(tmp_path / "expected.npy")
    assert contents(path) == before


@pytest.mark.slow
@pytest.mark.parametrize("stuck", ["stdin", "stdout"])
def test_interrupt_ends_what_waits_for_others(tmp_path: Path, stuck: str) -> None:
    path = save(tmp_path, random_array(100_000, 8, dtype="f8"))  # more than a pipe holds
    words = ["-", "-o", tmp_path / "y.npy"] if stuck == "stdin" else [path, "-o", "-"]
    with start(*words, "-q") as process:
        assert process.stderr is not None
        assert process.stdin is not None
        if stuck == "stdin":
            process.stdin.write(path.read_bytes()[: 128 + 32 * 2_048])
            process.stdin.flush()
            time.sleep(5)  # until it waits for more
        else:
            for _ in range(3_125):  # blocks of 32 vectors, before any of them goes out
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
    path = save(tmp_path, random_array(100, 8, dtype="f8"))
    encode_file(path, tmp_path / "expected.npy", ROPE)
    (tmp_path / "-").mkdir()
    (tmp_path / "-" / "precious").write_bytes(b"precious")
    code = "import ropecli; ropecli.encode_file('x.npy', '-', ropecli.Rotary(head_dim=8))"
    arguments = [sys.executable, "-c", code]
    done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, check=True, env=ENVIRONMENT)
    assert done.stdout == (tmp_path / "expected.npy").read_bytes()
    assert contents(tmp_path / "-") == {"precious": b"precious"}


MEMORY = """
import ropecli
from pathlib import Path
for source, head_dim, axis, positions in {jobs}:
    rope = ropecli.Rotary(head_dim=head_dim)
    ropecli.encode_file(source, "y.npy", rope, sequence_axis=axis, positions=positions)
    Path("y.npy").unlink()
"""


def zeros(path: Path, dtype: str, *shape: int, fortran_order: bool = False) -> str:
    """A file of zeros that take no space on the disk."""
    with path.open("wb") as stream:
        header = {"descr": dtype, "fortran_order": fortran_order, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + math.prod(shape) * np.dtype(dtype).itemsize)
    return str(path)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    places = zeros(tmp_path / "p.npy", "<i8", 12_000_000)
    plain = (None, None)  # sequence axis, positions
    jobs = [
        (zeros(tmp_path / "rows.npy", "<f4", 1_200_000, 128), 128, *plain),  # 614 MB
        (zeros(tmp_path / "row.npy", "<f4", 1, 25_000_000), 50, *plain),
        (zeros(tmp_path / "short.npy", "<f4", 12_000_000, 2), 2, None, places),
        (zeros(tmp_path / "t.npy", ">f4", 200_000, 2, 64, fortran_order=True), 32, 0, None),
    ]
    peak, _ = peak_of(MEMORY.format(jobs=jobs), tmp_path)
    assert peak < 400
