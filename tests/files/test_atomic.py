"""Output that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from files.folders import drop_privileges, names, refusal_of, write
from helpers import ROOT

from ropecli.errors import FileError
from ropecli.files.atomic import part_of, replacing


def half_then(error: type[BaseException]) -> Callable[[BinaryIO], object]:
    """A block that is left by an exception."""

    def block(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise error

    return block


def test_file_appears_at_the_end_and_alone(tmp_path: Path) -> None:
    target = tmp_path / "x.csv"
    with replacing(target) as stream:
        stream.write(b"whole")
        stream.flush()
        assert not target.exists()
        assert names(tmp_path) == [".x.csv.ropecli-part"]
    assert names(tmp_path) == ["x.csv"]
    assert target.read_bytes() == b"whole"


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(tmp_path / "x"):
        pass
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_exception_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error):
        write(tmp_path / "x", half_then(error))
    assert names(tmp_path) == []


def test_exception_leaves_the_file_that_was_to_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", half_then(KeyboardInterrupt), force=True)
    assert names(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_existing_file_is_refused_without_force(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    assert "pass force" in refusal_of(write, tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == b"old"


def test_force_replaces_and_keeps_the_permissions(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "x").chmod(0o640)
    with replacing(tmp_path / "x", force=True) as stream:
        stream.write(b"new")
        assert (tmp_path / "x").read_bytes() == b"old"
    assert (tmp_path / "x").read_bytes() == b"new"
    assert (tmp_path / "x").stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["x"]


def no_links(*_: object) -> None:
    raise OSError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("links", [True, False])
def test_file_that_appears_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(FileError, match="exists; pass force"):
        write(tmp_path / "x", lambda _: (tmp_path / "x").write_bytes(b"theirs"))
    assert (tmp_path / "x").read_bytes() == b"theirs"
    assert names(tmp_path) == ["x"]


def test_file_system_without_links_is_written_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links)
    with replacing(tmp_path / "x") as stream:
        stream.write(b"whole")
    assert (tmp_path / "x").read_bytes() == b"whole"
    assert names(tmp_path) == ["x"]


def test_targets_that_are_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert "is a folder" in refusal_of(write, tmp_path, force=True)
    assert "not a regular file" in refusal_of(write, tmp_path / "loop", force=True)
    assert "not a regular file" in refusal_of(write, tmp_path / "pipe", force=True)
    assert "not a regular file" in refusal_of(write, Path("/dev/null"), force=True)
    assert "there is no folder" in refusal_of(write, tmp_path / "missing" / "x")
    assert "Not a directory" in refusal_of(write, tmp_path / "file" / "x")
    assert "NUL" in refusal_of(write, Path("a\0b"))
    assert names(tmp_path) == ["file", "loop", "pipe"]


def test_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with drop_privileges():
            assert "Permission denied" in refusal_of(write, tmp_path / "x")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize("length", [200, 241, 242, 255])
def test_longest_names_are_written(tmp_path: Path, length: int) -> None:
    target = tmp_path / ("x" * length)
    assert len(part_of(target).name) <= 255
    with replacing(target) as stream:
        stream.write(b"whole")
    assert names(tmp_path) == [target.name]


def test_folder_that_is_removed_half_way(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(FileError, match="was removed while it was being written"):
        write(folder / "x", lambda _: shutil.rmtree(folder))
    assert not folder.exists()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failing_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(FileError, match=r"cannot write .*x: Input/output error"):
        write(tmp_path / "x", lambda _: monkeypatch.setattr(os, call, fail), force=True)
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_folder_that_cannot_be_synced_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def no_folders(path: Any, flags: int, *rest: Any) -> int:
        if Path(path).is_dir():
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", no_folders)
    with replacing(tmp_path / "x") as stream:
        stream.write(b"whole")
    assert (tmp_path / "x").read_bytes() == b"whole"


def test_error_of_another_library_is_told_in_one_line(tmp_path: Path) -> None:
    def block(_: BinaryIO) -> None:
        raise OSError("an encoder's own words")

    with pytest.raises(FileError, match=r"x: an encoder's own words$"):
        write(tmp_path / "x", block)
    assert names(tmp_path) == []


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
    assert "pass force" in refusal_of(write, tmp_path / "x")
    assert names(tmp_path) == ["x"]
    os.link(tmp_path / "x", part_of(tmp_path / "x"))
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "x", half_then(KeyboardInterrupt), force=True)
    assert (tmp_path / "x").read_bytes() == b"published"
    assert names(tmp_path) == ["x"]


def test_odd_things_under_the_part_files_name(tmp_path: Path) -> None:
    part = part_of(tmp_path / "x")
    (tmp_path / "precious").write_bytes(b"precious")
    part.symlink_to(tmp_path / "precious")
    assert str(part) in refusal_of(write, tmp_path / "x")
    part.unlink()
    part.mkdir()
    assert "Is a directory" in refusal_of(write, tmp_path / "x")
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
        for force in (False, True):
            assert "another ropecli" in refusal_of(write, tmp_path / "x", force=force)
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
