"""Part files: held by the living, left by the killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from files.folders import names, refused, write
from helpers import ROOT, run_python

from ropecli.errors import FileError
from ropecli.files.atomic import part_of, replacing


def half_then(error: type[BaseException]) -> Callable[[BinaryIO], object]:
    """A block that is left by an exception."""

    def block(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise error

    return block


def test_second_writer_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    with replacing(tmp_path / "x") as stream:
        stream.write(b"first")
        assert "another ropecli is writing" in refused(write, tmp_path / "x")
        assert "another ropecli is writing" in refused(write, tmp_path / "x", force=True)
    assert (tmp_path / "x").read_bytes() == b"first"


def test_stale_part_file_is_removed(tmp_path: Path) -> None:
    for stale in (b"", b"left behind by a killed process"):
        part_of(tmp_path / "x").write_bytes(stale)
        with replacing(tmp_path / "x", force=True) as stream:
            stream.write(b"new")
        assert names(tmp_path) == ["x"]
        assert (tmp_path / "x").read_bytes() == b"new"


def test_process_killed_while_publishing_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"published")
    os.link(tmp_path / "x", part_of(tmp_path / "x"))
    assert "pass force" in refused(write, tmp_path / "x")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", half_then(KeyboardInterrupt), force=True)
    assert (tmp_path / "x").read_bytes() == b"published"
    assert names(tmp_path) == ["x"]


def test_odd_things_under_the_part_files_name(tmp_path: Path) -> None:
    part = part_of(tmp_path / "x")
    (tmp_path / "precious").write_bytes(b"precious")
    part.symlink_to(tmp_path / "precious")
    assert str(part) in refused(write, tmp_path / "x")
    part.unlink()
    part.mkdir()
    assert "Is a directory" in refused(write, tmp_path / "x")
    part.rmdir()
    os.mkfifo(part)
    with replacing(tmp_path / "x") as stream:
        stream.write(b"whole")
    assert names(tmp_path) == ["precious", "x"]
    assert (tmp_path / "precious").read_bytes() == b"precious"


def test_part_file_published_by_its_holder_meanwhile_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Between our opening the part file and our locking it, its holder publishes it.
    part = part_of(tmp_path / "x")
    part.write_bytes(b"theirs")
    real: Callable[..., None] = fcntl.flock
    calls: list[int] = []

    def late(stream: Any, operation: int) -> None:
        if not calls:
            part.rename(tmp_path / "x")
        calls.append(operation)
        real(stream, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(FileError, match="exists; pass force"):
        write(tmp_path / "x", lambda stream: stream.write(b"ours"))
    assert len(calls) == 2
    assert (tmp_path / "x").read_bytes() == b"theirs"
    assert names(tmp_path) == ["x"]


def test_without_locks_the_first_of_two_writers_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with contextlib.ExitStack() as stack:

        def overtaken(_: BinaryIO) -> None:
            second = stack.enter_context(replacing(tmp_path / "x"))
            second.write(b"second")

        with pytest.raises(FileError, match="was removed while it was being written"):
            write(tmp_path / "x", overtaken)
    assert (tmp_path / "x").read_bytes() == b"second"
    assert names(tmp_path) == ["x"]


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # Python ignores its signal
from ropecli.errors import FileError
from ropecli.files.atomic import replacing
try:
    with replacing(sys.argv[1]) as stream:
        stream.write(bytes(int(sys.argv[2])))
except FileError as error:
    sys.exit(str(error))
"""


@pytest.mark.parametrize("size", [100_001, 1_000_000])
def test_full_disk_leaves_nothing(tmp_path: Path, size: int) -> None:
    ran = run_python(f"import sys; sys.argv[1:] = {[str(tmp_path / 'x'), str(size)]}\n{FULL_DISK}")
    assert ran.returncode == 1
    assert ran.stderr == f"cannot write {tmp_path / 'x'}: File too large\n"
    assert names(tmp_path) == []


HOLD = """
import sys
from ropecli.files.atomic import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"held" * 10_000)
    stream.flush()
    print("holding", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(target: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes the target, until its input ends."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(target)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


def test_live_process_keeps_its_part_file(tmp_path: Path) -> None:
    with holder(tmp_path / "x") as process:
        assert "another ropecli is writing" in refused(write, tmp_path / "x")
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert (tmp_path / "x").read_bytes() == b"held" * 10_000
    assert names(tmp_path) == ["x"]


def test_killed_process_leaves_a_part_file_that_the_next_removes(tmp_path: Path) -> None:
    for _ in range(3):
        with holder(tmp_path / "x") as process:
            process.kill()
            process.wait(timeout=30)
        assert names(tmp_path) == [".x.ropecli-part"]
    with replacing(tmp_path / "x") as stream:
        stream.write(b"whole")
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"whole"
